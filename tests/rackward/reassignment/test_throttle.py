from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import AdminError, UnauthorizedError
from rackward.admin.throttle import Rates
from rackward.reassignment import Engine, Settings, events
from rackward.reassignment.events import Event
from rackward.reassignment.throttle import throttled
from tests.support.simulated_cluster import SimulatedCluster, place

OLD = {
    "leader.replication.throttled.rate": "111",
    "follower.replication.throttled.rate": "222",
}
MOVE = Move(place(3), (0,), (0, 1))
MOVES = [Move(place(number), (number,), (number, number + 1)) for number in range(4)]


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster({place(3): (0,), place(4): (0,)})


def hold(
    cluster: SimulatedCluster, rate: int | None, under_way: set[int] | None = None
) -> list[Event]:
    told: list[Event] = []
    state, _ = cluster.look(["t"])
    others = {place(number) for number in under_way or ()}
    with throttled(
        cluster.throttle, rate, state, others, {MOVE.partition}, told.append, cluster.timing
    ):
        if rate is not None:
            cluster.throttle.cover([MOVE])
            told.append(events.Trouble(str(sorted(cluster.throttle.settings))))
    return told


def test_what_was_there_before_is_there_afterwards(cluster: SimulatedCluster) -> None:
    cluster.throttle.brokers.update(OLD)
    lists = {"leader.replication.throttled.replicas": "3:0,7:7"}
    cluster.throttle.topics["t"] = dict(lists)
    hold(cluster, 50)
    assert cluster.throttle.brokers == OLD
    assert cluster.throttle.topics["t"] == lists


def test_what_a_killed_run_had_found_outlives_the_next_one(cluster: SimulatedCluster) -> None:
    cluster.throttle.brokers.update(OLD)
    # A run that engages and covers, and is killed.
    cluster.throttle.engage(10)
    cluster.throttle.cover([MOVE, Move(place(4), (0,), (0, 2))])
    told = hold(cluster, 50)
    assert "rackward.throttle.50.before.111.222" in str(told)
    assert "rackward.throttle.10" not in str(told)
    # Entries of partitions that nobody copies any more went at once.
    assert cluster.throttle.brokers == OLD
    assert cluster.throttle.settings.keys() == OLD.keys()
    # Without a throttle of one's own, the leftover is lifted all the same.
    cluster.throttle.engage(10)
    cluster.throttle.cover([MOVE])
    assert hold(cluster, None) == [events.ThrottleLifted(leftover=True)]
    assert cluster.throttle.settings == OLD


def test_a_rate_that_somebody_has_set_meanwhile_stays(cluster: SimulatedCluster) -> None:
    cluster.throttle.engage(10)
    cluster.throttle.brokers["leader.replication.throttled.rate"] = "99"
    hold(cluster, None)
    assert cluster.throttle.settings == {"leader.replication.throttled.rate": "99"}


def test_another_run_of_ours_keeps_its_entries_and_the_rates(cluster: SimulatedCluster) -> None:
    cluster.throttle.engage(10)
    cluster.throttle.cover([Move(place(4), (0,), (0, 2))])
    hold(cluster, 50, under_way={4})
    left = cluster.throttle.settings
    assert left["t follower.replication.throttled.replicas"] == "04:2"
    assert "rackward.throttle.50.before.none.none" in left
    # When it ends, all goes.
    assert cluster.throttle.lift()
    assert cluster.throttle.settings == {}


def test_own_rates_of_brokers_are_told_and_left(cluster: SimulatedCluster) -> None:
    cluster.throttle.own[2] = Rates(5, None)
    assert events.OwnThrottle(2, 5, None) in hold(cluster, 50)


def test_who_may_not_throttle_is_told_so_and_nothing_is_tried_again(
    cluster: SimulatedCluster,
) -> None:
    cluster.throttle.fails = UnauthorizedError("this user may not")
    with pytest.raises(UnauthorizedError):
        hold(cluster, 50)
    assert cluster.seconds == 0


def test_lifting_is_tried_again_for_a_while_and_then_told(cluster: SimulatedCluster) -> None:
    told: list[Event] = []
    state, _ = cluster.look(["t"])
    with throttled(cluster.throttle, 50, state, (), (), told.append, cluster.timing):
        cluster.throttle.fails = AdminError("nobody answers")
        cluster.at[5.0] = lambda: setattr(cluster.throttle, "fails", None)
    assert told == [events.Throttled(50), events.ThrottleLifted()]
    assert cluster.throttle.settings == {}
    told.clear()
    with throttled(cluster.throttle, 50, state, (), (), told.append, cluster.timing):
        cluster.throttle.fails = AdminError("nobody answers")
    assert told == [events.Throttled(50), events.ThrottleLeft("nobody answers")]


@pytest.mark.parametrize("asked_for", [True, False], ids=["after the request", "before it"])
def test_another_run_that_lifts_the_throttle_does_not_lift_that_of_later_batches(
    asked_for: bool,
) -> None:
    class Lifting(SimulatedCluster):
        """Another run ends as a batch is handed over; it asked what is under way just before."""

        def reassign(
            self, targets: Mapping[TopicPartition, Sequence[int] | None]
        ) -> Mapping[TopicPartition, AdminError]:
            refused = super().reassign(targets) if asked_for else {}
            assert self.throttle.lift()
            return refused if asked_for else super().reassign(targets)

    cluster = Lifting({move.partition: move.before for move in MOVES})
    copied: list[dict[str, str]] = []
    told: list[Event] = []

    def tell(event: Event) -> None:
        if isinstance(event, events.Progressed) and event.progress.copied < 4000:
            copied.append(cluster.throttle.settings)
        told.append(event)

    sizes = {move.partition: 1000 for move in MOVES}
    settings = Settings(most_partitions=2, throttle=7_000)
    Engine(MOVES, sizes, cluster, settings, tell, cluster.timing).run()
    assert len(copied) >= 2
    for found in copied:
        assert "rackward.throttle.7000.before.none.none" in found
        assert found["t leader.replication.throttled.replicas"] in ("00:0,01:1", "02:2,03:3")
    assert cluster.rows() == {move.partition: move.after for move in MOVES}
    assert cluster.throttle.settings == {}
