"""Cancelling reassignments: of a plan, or all of them."""

from __future__ import annotations

from placement_core.cluster import Move
from rackward.kafka import Reassignment
from rackward.reassignment import Event, ExecutionResult
from rackward.reassignment import progress as events
from rackward.reassignment.cancel import Cancellation, cancel
from tests.support.simulated_cluster import SimulatedCluster, tp

MOVES = [
    Move(tp(0), (0, 1, 2), (3, 1, 4)),
    Move(tp(1), (1, 2), (1, 2, 3)),
    Move(tp(2), (2, 3), (3, 2)),
]


def cluster_in_progress() -> SimulatedCluster:
    """Return a cluster in which partitions 0 and 1 of the plan and the foreign 9 are copied."""
    cluster = SimulatedCluster({move.partition: move.before for move in MOVES} | {tp(9): (0,)})
    cluster.throttle.set_rate(10)
    cluster.throttle.add(10, MOVES)
    cluster.reassign({move.partition: move.after for move in MOVES})
    cluster.reassign({tp(9): (5,)})
    cluster.sleep(0.1)
    return cluster


def run(
    cluster: SimulatedCluster, cancellation: Cancellation
) -> tuple[ExecutionResult, list[Event]]:
    emitted: list[Event] = []
    return cancel(cancellation, cluster, emitted.append, cluster.clock), emitted


def test_cancelling_a_plan_restores_replicas_and_their_order() -> None:
    cluster = cluster_in_progress()
    state, reassignments = cluster.describe(["t"])
    cancellation = Cancellation.of_plan(MOVES, state, reassignments)
    # Completed partitions stay, and so do foreign reassignments.
    assert cancellation.in_progress == {tp(0), tp(1)}
    assert cancellation.others == {tp(9)}
    result, emitted = run(cluster, cancellation)
    assert result == ExecutionResult(completed=2)
    replicas = cluster.replicas()
    assert replicas[tp(0)] == (0, 1, 2)
    assert replicas[tp(1)] == (1, 2)
    assert replicas[tp(2)] == (3, 2)
    assert set(cluster.reassignments()) == {tp(9)}
    assert emitted == [events.ReassignmentsCancelled(2), events.ThrottleRemoved()]
    assert cluster.configs.settings == {}


def test_cancelling_all_reassignments_lists_the_leaders_first() -> None:
    cluster = cluster_in_progress()
    state, reassignments = cluster.describe(["t"])
    result, _ = run(cluster, Cancellation.of_all(reassignments, state))
    assert result.ok
    replicas = cluster.replicas()
    # Kafka's cancellation leaves 1, 0, 2, since broker 1 is in the target.
    assert replicas[tp(0)] == (0, 1, 2)
    assert replicas[tp(9)] == (0,)
    assert not cluster.reassignments()


def test_an_interrupted_cancellation_is_completed() -> None:
    cluster = cluster_in_progress()
    cluster.cancel(tp(0))
    cluster.cancel(tp(1))
    assert cluster.replicas()[tp(0)] == (1, 0, 2)
    state, reassignments = cluster.describe(["t"])
    cancellation = Cancellation.of_plan(MOVES, state, reassignments)
    assert set(cancellation.moves) == {tp(0)}
    assert not cancellation.in_progress
    result, _ = run(cluster, cancellation)
    assert result.ok
    assert cluster.replicas()[tp(0)] == (0, 1, 2)


def test_a_reassignment_that_never_completes_can_be_cancelled() -> None:
    cluster = cluster_in_progress()
    cluster.reassign({tp(1): (1, 2)})
    cluster.sleep(100)
    assert cluster.reassignments()[tp(1)] == Reassignment((1, 2, 3), adding=(3,), removing=(3,))
    state, reassignments = cluster.describe(["t"])
    cancellation = Cancellation.of_plan([MOVES[1]], state, reassignments)
    assert cancellation.in_progress == {tp(1)}
    result, _ = run(cluster, cancellation)
    assert result.ok
    assert cluster.replicas()[tp(1)] == (1, 2)


def test_leftover_throttle_is_removed_if_nothing_moves() -> None:
    cluster = SimulatedCluster({tp(0): (0,)})
    cluster.throttle.set_rate(10)
    cluster.throttle.add(10, [Move(tp(0), (0,), (0, 1))])
    state, reassignments = cluster.describe([])
    result, emitted = run(cluster, Cancellation.of_all(reassignments, state))
    assert result == ExecutionResult(completed=0)
    assert emitted == [events.ThrottleRemoved()]
    assert cluster.configs.settings == {}


def test_a_refused_cancellation_is_reported() -> None:
    cluster = cluster_in_progress()
    cluster.refuses[tp(1)] = "not now"
    state, reassignments = cluster.describe(["t"])
    result, emitted = run(cluster, Cancellation.of_plan(MOVES, state, reassignments))
    assert events.PartitionFailed(tp(1), "not now") in emitted
    assert result.failed == {tp(1): "not now"}
    assert cluster.replicas()[tp(0)] == (0, 1, 2)
