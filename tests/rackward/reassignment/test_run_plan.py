"""From a plan to an execution: checks, limits, batches, and whether it still fits the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment import (
    ExecutionOptions,
    ForeignReassignmentError,
    PartitionState,
    Plan,
    PlanFileError,
    PlannedChange,
    RackSource,
    StalePlanError,
    check_preconditions,
)
from rackward.reassignment.progress import partition_states
from rackward.reassignment.run_plan import ThrottleOwnedError, moves_to_target, prepare_run
from tests.support.plans import ORDERS, PLAN, RACKS, planned_state
from tests.support.plans import tp as order
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


# ---- Whether a plan still fits the cluster.

RAISING = Reassignment((1, 2, 3), adding=(2, 3), removing=())
"""The reassignment of orders-0 to PLAN's target."""
ELSEWHERE = Reassignment((4, 1), adding=(4,), removing=(1,))


def test_a_plan_fits_the_cluster_that_it_was_created_for() -> None:
    check_preconditions("p", PLAN, planned_state())
    states = partition_states(PLAN.moves, planned_state())
    assert set(states.values()) == {PartitionState.NOT_STARTED}


def test_a_partly_executed_plan_fits() -> None:
    reassignments = {order(0): RAISING}
    state = planned_state({order(0): (1, 2, 3), order(1): (3, 2), order(10): (3,)}, reassignments)
    check_preconditions("p", PLAN, state)
    assert partition_states(PLAN.moves, state) == {
        TopicPartition("größen", 0): PartitionState.NOT_STARTED,
        order(0): PartitionState.IN_PROGRESS,
        order(1): PartitionState.COMPLETED,
        order(10): PartitionState.COMPLETED,
    }


@pytest.mark.parametrize(
    ("reassignment", "expected"),
    [
        # Kafka lists the target first, then the replicas to remove.
        (Reassignment((3, 2, 9), adding=(3,), removing=(9,)), PartitionState.IN_PROGRESS),
        # Kafka never completes this one.
        (Reassignment((3, 2, 9), adding=(3,), removing=(3, 9)), PartitionState.OTHER_TARGET),
    ],
)
def test_a_reassignment_to_the_target_is_recognised(
    reassignment: Reassignment, expected: PartitionState
) -> None:
    state = planned_state({order(1): (3, 2, 9)}, {order(1): reassignment})
    assert partition_states(PLAN.moves, state)[order(1)] is expected


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (replace(planned_state(), cluster_id="that-cluster"),
         "p was made for the cluster this-cluster, and this is that-cluster"),
        (planned_state(topic_ids={"größen": None}), "topic orders was deleted"),
        (planned_state(topic_ids={"größen": None, "orders": "another"}),
         "topic orders was deleted and created again"),
        (planned_state({order(10): ()}), "partition orders-10 was deleted"),
        (planned_state({order(0): (4,)}), "orders-0 is on broker 4, and was on broker 1"),
        # Another order of the same replicas.
        (planned_state({TopicPartition("größen", 0): (1, 2), order(10): (1, 2, 3)}),
         "orders-10 is on brokers 1, 2, 3, and was on brokers 3, 2, 1"),
        (planned_state({order(0): (4, 1)}, {order(0): ELSEWHERE}),
         "orders-0 is being reassigned to broker 4"),
        (planned_state(racks={1: "a", 2: "b", 4: None}),
         "broker 3, a target of the plan, is not live"),
        (planned_state(racks={**RACKS, 3: "a"}), "broker 3 is in rack a, and was in c"),
        (planned_state(racks={**RACKS, 3: None}), "broker 3 is in rack none, and was in c"),
    ],
)  # fmt: skip
def test_a_stale_plan_is_an_error_that_names_the_change(state: ClusterState, message: str) -> None:
    with pytest.raises(StalePlanError) as raised:
        check_preconditions("p", PLAN, state)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_message_has_the_first_change_and_the_error_has_all() -> None:
    with pytest.raises(StalePlanError, match=r"\(and 2 more changes\): make a new plan$") as raised:
        check_preconditions(
            "p", PLAN, planned_state({order(0): (4,), order(1): (4,), order(10): (4,)})
        )
    assert len(raised.value.changes) == 3


LEADERLESS = planned_state(racks={1: "a", 2: "b", 3: "c", 7: "x"})
MOVED_RACK = planned_state(racks={**RACKS, 3: "a"})


@pytest.mark.parametrize(
    ("plan", "state"),
    [
        # Other leaders, a new broker, and a broker that is down and receives no replicas.
        (PLAN, replace(LEADERLESS, view=replace(LEADERLESS.view, leaders={}))),
        (structs.replace(PLAN, rack_source=RackSource.LOCATOR), MOVED_RACK),
        (structs.replace(PLAN, rack_source=RackSource.IGNORED), MOVED_RACK),
        # A broker that failed after its partitions were completed.
        (PLAN, planned_state(dict(PLAN.target), racks={1: "a", 2: "b"})),
        # Brokers that do not report ids.
        (structs.replace(PLAN, cluster_id=None, topic_ids={"orders": None}), planned_state()),
        (PLAN, planned_state(topic_ids={"größen": ORDERS, "orders": None})),
    ],
)
def test_other_changes_are_no_error(plan: Plan, state: ClusterState) -> None:
    check_preconditions("p", plan, state)


def test_partitions_with_another_target_may_be_allowed() -> None:
    state = planned_state({order(0): (4, 1)}, {order(0): ELSEWHERE})
    check_preconditions("p", PLAN, state, allow_other_target=True)
