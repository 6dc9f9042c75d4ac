"""From a plan to an execution: checks, limits, batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment import (
    ExecutionOptions,
    ForeignReassignmentError,
    PlanFileError,
    PlannedChange,
    StalePlanError,
)
from rackward.reassignment.run_plan import ThrottleOwnedError, moves_to_target, prepare_run
from tests.support.plans import planned_state
from tests.support.simulated_cluster import SimulatedCluster, cluster_state, tp

MOVES = (
    Move(tp(0), (0,), (0, 1)),
    Move(tp(1), (1,), (1, 2)),
    Move(tp(2), (2, 3), (3, 2)),
)


def accept(_: ClusterState) -> None:
    """Accept any state."""


OPTIONS = ExecutionOptions()


def change_of(cluster: SimulatedCluster, throttle: int | None = None) -> PlannedChange:
    state, _ = cluster.describe(["t"])
    return PlannedChange(state.view, MOVES, {move.partition: 1000 for move in MOVES}, throttle)


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster({move.partition: move.before for move in MOVES})


def test_the_change_has_only_moves_that_are_not_completed(cluster: SimulatedCluster) -> None:
    cluster.reassign({tp(0): (0, 1), tp(2): (3, 2)})
    prepared = prepare_run(change_of(cluster, throttle=10), cluster, accept, OPTIONS)
    assert (prepared.completed, prepared.in_progress) == (1, 1)
    assert prepared.change.moves == MOVES[:2]
    # The reassignment in progress is shown as part of the change.
    assert prepared.change.view.replicas[tp(0)] == (0,)
    assert prepared.change.min_copy_seconds == 100


def test_a_failed_check_is_raised(cluster: SimulatedCluster) -> None:
    def reject(_: ClusterState) -> None:
        raise StalePlanError("stale")

    with pytest.raises(StalePlanError):
        prepare_run(change_of(cluster), cluster, reject, OPTIONS)


@pytest.mark.parametrize("other", [tp(1), tp(7)])
def test_foreign_reassignments_are_refused_unless_allowed(other: TopicPartition) -> None:
    """That of a partition of the plan to another target, and that of another partition."""
    cluster = SimulatedCluster({**{m.partition: m.before for m in MOVES}, tp(7): (1,)})
    cluster.reassign({tp(0): (0, 1), other: (1, 5)})
    change = change_of(cluster)
    message = rf"^1 reassignment not of this plan is in progress \(t-{other.partition}\): wait, "
    with pytest.raises(ForeignReassignmentError, match=message):
        prepare_run(change, cluster, accept, OPTIONS)
    allowed = ExecutionOptions(allow_foreign=True)
    assert prepare_run(change, cluster, accept, allowed).change.moves == MOVES


def test_the_throttle_of_another_run_is_refused_or_adopted(cluster: SimulatedCluster) -> None:
    """That run may go on, or may have been killed."""
    cluster.throttle.set_rate(50_000_000)
    cluster.throttle.add(10, MOVES[:1])
    cluster.reassign({tp(0): (0, 1)})
    change = change_of(cluster)
    message = r"a throttle of 50\.0 MB/s \(1 partition of this plan in progress\): .*--adopt-thrott"
    with pytest.raises(ThrottleOwnedError, match=message):
        prepare_run(change, cluster, accept, OPTIONS)
    for options in (ExecutionOptions(adopt_throttle=True), ExecutionOptions(allow_foreign=True)):
        assert prepare_run(change, cluster, accept, options).throttle.in_force
    # Nothing is copied to change the order of replicas.
    order = replace(change, moves=MOVES[2:])
    cluster.cancel(tp(0))
    assert prepare_run(order, cluster, accept, OPTIONS).change.moves == MOVES[2:]


def test_a_throttle_of_another_tool_is_no_error(cluster: SimulatedCluster) -> None:
    cluster.configs.brokers["follower.replication.throttled.rate"] = "500000"
    cluster.configs.topics["t"] = {"follower.replication.throttled.replicas": "*"}
    prepared = prepare_run(change_of(cluster), cluster, accept, OPTIONS)
    assert prepared.throttle.text == (
        "receiving 500 kB/s, for all replicas of 1 topic (t), not set by rackward"
    )


def test_moves_to_a_target_start_from_the_original_replicas() -> None:
    reassignments = {TopicPartition("t", 0): Reassignment((0, 2, 4), (4,), ())}
    state = cluster_state({"t": [(0, 2, 4), (1, 3)]}, reassignments=reassignments)
    target = {TopicPartition("t", 1): (1, 5), TopicPartition("t", 0): (0, 2, 4)}
    assert moves_to_target("f", target, state) == (
        Move(TopicPartition("t", 0), (0, 2), (0, 2, 4)),
        Move(TopicPartition("t", 1), (1, 3), (1, 5)),
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({TopicPartition("x", 0): (1,)}, "^f: the cluster has no partition x-0: remove it$"),
        (
            {TopicPartition("größen", 0): (1, 9)},
            "^f: größen-0 has a replica on broker 9, which is not live: the cluster has brokers 1,",
        ),
    ],
)
def test_a_target_that_the_cluster_does_not_have_is_an_error(
    target: dict[TopicPartition, tuple[int, ...]], message: str
) -> None:
    with pytest.raises(PlanFileError, match=message):
        moves_to_target("f", target, planned_state())
