from __future__ import annotations

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminError
from rackward.reassignment import Engine, Outcome, Settings, events
from rackward.reassignment.events import Event
from tests.support.simulated_cluster import SimulatedCluster, place

RAISE = [
    Move(place(0), (0,), (0, 1)),
    Move(place(1), (1,), (1, 2)),
    Move(place(2), (2,), (2, 3)),
    Move(place(3), (3,), (3, 4)),
]
SETTINGS = Settings(most_partitions=2, throttle=7_000, patience=20.0)


def cluster_of(moves: list[Move], **given: int) -> SimulatedCluster:
    return SimulatedCluster({move.partition: move.before for move in moves}, **given)


def run(
    cluster: SimulatedCluster, moves: list[Move], settings: Settings = SETTINGS
) -> tuple[Outcome, list[Event]]:
    told: list[Event] = []
    sizes = {move.partition: 1000 for move in moves}
    outcome = Engine(moves, sizes, cluster, settings, told.append, cluster.timing).run()
    return outcome, told


def of_kind(told: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in told if isinstance(event, kind)]


def arrived(moves: list[Move]) -> dict[TopicPartition, tuple[int, ...]]:
    return {move.partition: move.after for move in moves}


def test_all_is_moved_batch_by_batch_under_a_throttle_that_is_gone_afterwards() -> None:
    cluster = cluster_of(RAISE)
    outcome, told = run(cluster, RAISE)
    assert outcome == Outcome(placed=4)
    assert outcome.complete
    assert cluster.rows() == arrived(RAISE)
    assert [len(asked) for asked in cluster.submitted] == [2, 2]
    assert of_kind(told, events.BatchBegun) == [
        events.BatchBegun(1, 2, 2, 2, 2000),
        events.BatchBegun(2, 2, 2, 2, 2000),
    ]
    assert told[0] == events.Begun(to_do=4, under_way=0, placed=0, batches=2, bytes=4000)
    assert events.Throttled(7000) in told
    assert told[-1] == events.ThrottleLifted()
    assert cluster.throttle.settings == {}
    last = of_kind(told, events.Progressed)[-1]
    assert isinstance(last, events.Progressed)
    assert (last.progress.placed, last.progress.copied, last.progress.bytes) == (4, 4000, 4000)


def test_the_throttle_covers_the_batch_that_is_moved_and_no_other() -> None:
    cluster = cluster_of(RAISE)
    seen: list[dict[str, str]] = []
    told: list[Event] = []

    def tell(event: Event) -> None:
        if isinstance(event, events.BatchBegun):
            seen.append(cluster.throttle.settings)
        told.append(event)

    Engine(RAISE, {}, cluster, SETTINGS, tell, cluster.timing).run()
    rates = {
        "leader.replication.throttled.rate": "7000",
        "follower.replication.throttled.rate": "7000",
        "rackward.throttle.7000.before.none.none": "-",
    }
    assert seen == [
        {
            **rates,
            "t leader.replication.throttled.replicas": "00:0,01:1",
            "t follower.replication.throttled.replicas": "00:1,01:2",
        },
        {
            **rates,
            "t leader.replication.throttled.replicas": "02:2,03:3",
            "t follower.replication.throttled.replicas": "02:3,03:4",
        },
    ]


def test_preferred_leaders_are_elected_and_those_that_cannot_be_are_told() -> None:
    moves = [Move(place(0), (0, 1), (1, 0)), Move(place(1), (0, 1), (1, 0))]
    cluster = cluster_of(moves)
    cluster.partitions[place(1)].bytes[1] = 10  # behind
    outcome, told = run(cluster, moves)
    assert cluster.partitions[place(0)].leader == 1
    assert events.Elected(1) in told
    assert outcome.not_led == {place(1): "led by broker 0, not by broker 1 (not in sync)"}
    assert outcome.behind == {place(1): (1,)}
    assert not outcome.complete
    # Nothing is copied, so that nothing is throttled.
    assert "engage" not in cluster.throttle.history


def test_what_the_controller_refuses_is_told_and_the_rest_goes_on() -> None:
    cluster = cluster_of(RAISE)
    cluster.refuses[place(1)] = "no such broker"
    outcome, told = run(cluster, RAISE)
    assert outcome.failed == {place(1): "the controller refused: no such broker"}
    assert events.Failed(place(1), "the controller refused: no such broker") in told
    assert outcome.placed == 3
    assert cluster.throttle.settings == {}


def test_a_topic_that_is_deleted_meanwhile_is_told_and_the_rest_goes_on() -> None:
    moves = [*RAISE, Move(place(0, "u"), (0,), (0, 5)), Move(place(1, "u"), (0,), (0, 5))]
    cluster = cluster_of(moves)
    cluster.at[0.5] = lambda: [cluster.partitions.pop(place(n, "u")) for n in (0, 1)]
    outcome, _ = run(cluster, moves, Settings(most_partitions=4))
    assert outcome.failed == {place(n, "u"): "the topic was deleted" for n in (0, 1)}
    assert outcome.placed == 4


def test_a_broker_that_dies_holds_up_nothing_but_what_needs_it() -> None:
    cluster = cluster_of(RAISE)
    cluster.at[0.5] = lambda: cluster.live.discard(2)
    cluster.at[15.0] = lambda: cluster.live.add(2)
    outcome, told = run(cluster, RAISE)
    assert events.Waiting(1, (2,)) in told
    # The second batch did not wait for it; when it was back, the first was finished.
    assert cluster.submitted[1].keys() == {place(3)}
    assert outcome.failed == {place(2): "not begun, since broker 2 is down"}
    assert outcome.placed == 3
    assert cluster.throttle.settings == {}


def test_a_broker_that_stays_away_ends_the_run_with_what_waits_for_it() -> None:
    moves = [RAISE[0], RAISE[3]]
    cluster = cluster_of(moves)
    cluster.at[0.5] = lambda: cluster.live.discard(1)
    outcome, told = run(cluster, moves)
    assert outcome.failed == {place(0): "broker 1 is down; it waits for that"}
    assert outcome.under_way == (place(0),)
    assert told[-1] == events.ThrottleLifted()
    assert events.LeftUnderWay(1, "no progress for 20 s") in told
    assert cluster.seconds == pytest.approx(20, abs=15)


def test_copying_that_stands_still_ends_the_run_and_begins_nothing_more() -> None:
    cluster = cluster_of(RAISE, rate=0)
    outcome, _ = run(cluster, RAISE)
    assert outcome.failed == {
        place(0): "no progress for 20 s",
        place(1): "no progress for 20 s",
        place(2): "not begun, since nothing went on",
        place(3): "not begun, since nothing went on",
    }
    assert len(cluster.submitted) == 1
    assert cluster.throttle.settings == {}


def test_slow_copying_is_progress() -> None:
    cluster = cluster_of(RAISE, rate=10)
    outcome, _ = run(cluster, RAISE)
    assert outcome.complete
    assert cluster.seconds > 100


def test_what_somebody_else_does_to_our_partitions_is_told() -> None:
    cluster = cluster_of(RAISE)
    settings = Settings(most_partitions=None)
    cluster.at[0.3] = lambda: cluster.cancel(place(0))
    cluster.at[0.4] = lambda: [cluster.reassign({place(1): to}) for to in (None, (1, 5))]
    outcome, _ = run(cluster, RAISE, settings)
    assert outcome.failed == {
        place(0): "somebody else cancelled its reassignment: it is on brokers 0",
        place(1): "somebody else reassigned it to brokers 1, 5",
    }
    assert outcome.placed == 2


def test_a_run_takes_up_what_another_has_begun() -> None:
    cluster = cluster_of(RAISE)
    cluster.reassign({place(0): (0, 1), place(1): (1, 2)})
    cluster.sleep(1.0)
    cluster.reassign({place(2): (2, 3)})
    cluster.sleep(1.5)
    assert set(cluster.ongoing()) == {place(2)}
    cluster.submitted.clear()
    outcome, told = run(cluster, RAISE)
    assert told[0] == events.Begun(to_do=1, under_way=1, placed=2, batches=2, bytes=1000)
    assert outcome == Outcome(placed=4)
    assert cluster.submitted == [{place(3): (3, 4)}]


def test_done_already_nothing_is_asked_for() -> None:
    cluster = cluster_of(RAISE)
    run(cluster, RAISE)
    cluster.submitted.clear()
    cluster.throttle.history.clear()
    outcome, _ = run(cluster, RAISE)
    assert outcome == Outcome(placed=4)
    assert not cluster.submitted
    assert "engage" not in cluster.throttle.history


def test_a_target_of_somebody_else_is_cancelled_before_it_is_replaced() -> None:
    cluster = cluster_of(RAISE)
    cluster.reassign({place(0): (0, 5)})
    settings = Settings(additional=True, most_partitions=None)
    cluster.submitted.clear()
    outcome, _ = run(cluster, RAISE, settings)
    assert cluster.submitted[0] == {place(0): None}
    assert outcome == Outcome(placed=4)


def test_a_cluster_that_is_away_for_a_while_is_asked_again() -> None:
    cluster = cluster_of(RAISE)
    cluster.at[0.5] = lambda: setattr(cluster, "unreachable", True)
    cluster.at[8.0] = lambda: setattr(cluster, "unreachable", False)
    outcome, told = run(cluster, RAISE)
    assert outcome.complete
    assert events.Trouble("nobody answers") in told


def test_a_cluster_that_stays_away_ends_the_run_and_the_throttle_is_told_of() -> None:
    cluster = cluster_of(RAISE)

    def away() -> None:
        cluster.unreachable = True
        cluster.throttle.fails = AdminError("nobody answers")

    cluster.at[0.5] = away
    told: list[Event] = []
    engine = Engine(RAISE, {}, cluster, SETTINGS, told.append, cluster.timing)
    with pytest.raises(AdminError, match="nobody answers"):
        engine.run()
    assert told[-2:] == [
        events.ThrottleLeft("nobody answers"),
        events.LeftUnderWay(2, "the run was broken off"),
    ]


class Signal(BaseException):
    """As a handler raises it."""


def test_a_signal_lifts_the_throttle_and_says_what_goes_on() -> None:
    cluster = cluster_of(RAISE)

    def stop() -> None:
        raise Signal

    cluster.at[0.5] = stop
    told: list[Event] = []
    with pytest.raises(Signal):
        Engine(RAISE, {}, cluster, SETTINGS, told.append, cluster.timing).run()
    assert told[-2:] == [
        events.ThrottleLifted(),
        events.LeftUnderWay(2, "the run was broken off"),
    ]
    assert cluster.throttle.settings == {}
    # The next run finds everything.
    outcome, _ = run(cluster, RAISE)
    assert outcome.complete


@pytest.mark.parametrize("call", ["engage", "cover", "uncover", "lift"])
def test_a_signal_while_the_throttle_is_changed_does_not_leave_it(call: str) -> None:
    cluster = cluster_of(RAISE[:2])
    cluster.throttle.fails_once[call] = Signal()
    told: list[Event] = []
    with pytest.raises(Signal):
        Engine(RAISE[:2], {}, cluster, SETTINGS, told.append, cluster.timing).run()
    assert call in cluster.throttle.history
    assert cluster.throttle.settings == {}
