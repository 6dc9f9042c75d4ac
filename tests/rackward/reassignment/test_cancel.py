from __future__ import annotations

from placement_core.cluster import Move
from rackward.admin import Ongoing
from rackward.reassignment import Cancellation, Outcome, Settings, cancel, events
from rackward.reassignment.events import Event
from tests.support.simulated_cluster import SimulatedCluster, place

MOVES = [
    Move(place(0), (0, 1, 2), (3, 1, 4)),
    Move(place(1), (1, 2), (1, 2, 3)),
    Move(place(2), (2, 3), (3, 2)),
]
SETTINGS = Settings()


def midway() -> SimulatedCluster:
    cluster = SimulatedCluster({move.partition: move.before for move in MOVES} | {place(9): (0,)})
    cluster.throttle.engage(10)
    cluster.throttle.cover(MOVES)
    cluster.reassign({move.partition: move.after for move in MOVES})
    cluster.reassign({place(9): (5,)})
    cluster.sleep(0.1)
    return cluster


def take_back(cluster: SimulatedCluster, wanted: Cancellation) -> tuple[Outcome, list[Event]]:
    told: list[Event] = []
    return cancel(wanted, cluster, SETTINGS, told.append, cluster.timing), told


def test_a_plan_is_taken_back_to_the_very_order_it_was_made_from() -> None:
    cluster = midway()
    state, ongoing = cluster.look(["t"])
    wanted = Cancellation.of_plan(MOVES, state, ongoing)
    # What has arrived stays; what others do goes on.
    assert wanted.under_way == {place(0), place(1)}
    assert wanted.others == {place(9)}
    outcome, told = take_back(cluster, wanted)
    assert outcome == Outcome(placed=2)
    rows = cluster.rows()
    assert rows[place(0)] == (0, 1, 2)
    assert rows[place(1)] == (1, 2)
    assert rows[place(2)] == (3, 2)
    assert set(cluster.ongoing()) == {place(9)}
    assert told == [events.Cancelled(2), events.ThrottleLifted()]
    assert cluster.throttle.settings == {}


def test_everything_is_taken_back_with_the_leaders_first() -> None:
    cluster = midway()
    state, ongoing = cluster.look(["t"])
    outcome, _ = take_back(cluster, Cancellation.of_all(ongoing, state))
    assert outcome.complete
    rows = cluster.rows()
    # Kafka by itself would have left 1, 0, 2: broker 1 was in the target.
    assert rows[place(0)] == (0, 1, 2)
    assert rows[place(9)] == (0,)
    assert not cluster.ongoing()


def test_a_cancellation_that_was_broken_off_is_finished() -> None:
    cluster = midway()
    cluster.cancel(place(0))
    cluster.cancel(place(1))
    assert cluster.rows()[place(0)] == (1, 0, 2)
    state, ongoing = cluster.look(["t"])
    wanted = Cancellation.of_plan(MOVES, state, ongoing)
    assert set(wanted.moves) == {place(0)}
    assert not wanted.under_way
    outcome, _ = take_back(cluster, wanted)
    assert outcome.complete
    assert cluster.rows()[place(0)] == (0, 1, 2)


def test_what_was_replaced_and_would_never_arrive_can_be_taken_back() -> None:
    cluster = midway()
    cluster.reassign({place(1): (1, 2)})
    cluster.sleep(100)
    torn = Ongoing((1, 2, 3), adding=(3,), removing=(3,))
    assert cluster.ongoing()[place(1)] == torn
    state, ongoing = cluster.look(["t"])
    wanted = Cancellation.of_plan([MOVES[1]], state, ongoing)
    assert wanted.under_way == {place(1)}
    outcome, _ = take_back(cluster, wanted)
    assert outcome.complete
    assert cluster.rows()[place(1)] == (1, 2)


def test_with_nothing_under_way_a_throttle_that_was_left_is_lifted() -> None:
    cluster = SimulatedCluster({place(0): (0,)})
    cluster.throttle.engage(10)
    cluster.throttle.cover([Move(place(0), (0,), (0, 1))])
    state, ongoing = cluster.look([])
    outcome, told = take_back(cluster, Cancellation.of_all(ongoing, state))
    assert outcome == Outcome(placed=0)
    assert told == [events.ThrottleLifted()]
    assert cluster.throttle.settings == {}


def test_what_is_refused_is_told() -> None:
    cluster = midway()
    cluster.refuses[place(1)] = "not now"
    state, ongoing = cluster.look(["t"])
    outcome, told = take_back(cluster, Cancellation.of_plan(MOVES, state, ongoing))
    assert events.Failed(place(1), "not now") in told
    assert outcome.failed == {place(1): "not now"}
    assert cluster.rows()[place(0)] == (0, 1, 2)
