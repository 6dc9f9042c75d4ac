from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from placement_core import TopicPartition
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment import (
    PartitionState,
    Plan,
    RackSource,
    ReassignmentStatus,
    StalePlanError,
    check_preconditions,
)
from tests.support.plans import ORDERS, PLAN, RACKS, planned_state, tp

RAISING = Reassignment((1, 2, 3), adding=(2, 3), removing=())
"""The reassignment of orders-0 to PLAN's target."""
ELSEWHERE = Reassignment((4, 1), adding=(4,), removing=(1,))


def test_a_plan_fits_the_cluster_that_it_was_created_for() -> None:
    check_preconditions("p", PLAN, planned_state())
    status = ReassignmentStatus.of(PLAN.moves, planned_state(), {})
    assert set(status.states.values()) == {PartitionState.PENDING}
    assert not status.foreign


def test_a_partly_executed_plan_fits() -> None:
    reassignments = {tp(0): RAISING}
    state = planned_state({tp(0): (1, 2, 3), tp(1): (3, 2), tp(10): (3,)}, reassignments)
    check_preconditions("p", PLAN, state)
    status = ReassignmentStatus.of(PLAN.moves, state, reassignments)
    assert status.states == {
        TopicPartition("größen", 0): PartitionState.PENDING,
        tp(0): PartitionState.IN_PROGRESS,
        tp(1): PartitionState.COMPLETED,
        tp(10): PartitionState.COMPLETED,
    }
    assert status.count(PartitionState.COMPLETED) == 2
    assert status.partitions(PartitionState.COMPLETED) == [tp(1), tp(10)]
    assert not status.foreign


@pytest.mark.parametrize(
    ("reassignment", "expected"),
    [
        # Kafka lists the target first, then the replicas to remove.
        (Reassignment((3, 2, 9), adding=(3,), removing=(9,)), PartitionState.IN_PROGRESS),
        # Kafka never completes this one.
        (Reassignment((3, 2, 9), adding=(3,), removing=(3, 9)), PartitionState.DIVERTED),
    ],
)
def test_a_reassignment_to_the_target_is_recognised(
    reassignment: Reassignment, expected: PartitionState
) -> None:
    reassignments = {tp(1): reassignment}
    state = planned_state({tp(1): (3, 2, 9)}, reassignments)
    assert ReassignmentStatus.of(PLAN.moves, state, reassignments).states[tp(1)] is expected


def test_foreign_reassignments_are_those_to_other_targets_and_of_other_partitions() -> None:
    other = TopicPartition("payments", 3)
    reassignments = {tp(0): RAISING, tp(1): ELSEWHERE, other: ELSEWHERE}
    own = {p: reassignments[p] for p in (tp(0), tp(1))}
    state = planned_state({tp(0): (1, 2, 3), tp(1): (4, 1)}, own)
    status = ReassignmentStatus.of(PLAN.moves, state, reassignments)
    assert status.states[tp(1)] is PartitionState.DIVERTED
    assert set(status.foreign) == {tp(1), other}


STALE = {
    "another cluster": (
        replace(planned_state(), cluster_id="that-cluster"),
        "p was made for the cluster this-cluster, and this is that-cluster",
    ),
    "a deleted topic": (planned_state(topic_ids={"größen": None}), "topic orders was deleted"),
    "a topic created again": (
        planned_state(topic_ids={"größen": None, "orders": "another"}),
        "topic orders was deleted and created again",
    ),
    "a deleted partition": (planned_state({tp(10): ()}), "partition orders-10 was deleted"),
    "other replicas": (
        planned_state({tp(0): (4,)}),
        "orders-0 is on broker 4, and was on broker 1",
    ),
    "another order of replicas": (
        planned_state({TopicPartition("größen", 0): (1, 2), tp(10): (1, 2, 3)}),
        "orders-10 is on brokers 1, 2, 3, and was on brokers 3, 2, 1",
    ),
    "a foreign reassignment": (
        planned_state({tp(0): (4, 1)}, {tp(0): ELSEWHERE}),
        "orders-0 is being reassigned to broker 4",
    ),
    "a broker that is down": (
        planned_state(racks={1: "a", 2: "b", 4: None}),
        "broker 3, a target of the plan, is not live",
    ),
    "a broker in another rack": (
        planned_state(racks={**RACKS, 3: "a"}),
        "broker 3 is in rack a, and was in c",
    ),
    "a broker without its rack": (
        planned_state(racks={**RACKS, 3: None}),
        "broker 3 is in rack none, and was in c",
    ),
}


@pytest.mark.parametrize(("state", "message"), STALE.values(), ids=STALE)
def test_a_stale_plan_is_an_error_that_names_the_change(state: ClusterState, message: str) -> None:
    with pytest.raises(StalePlanError) as raised:
        check_preconditions("p", PLAN, state)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_message_has_the_first_change_and_the_error_has_all() -> None:
    with pytest.raises(StalePlanError, match=r"\(and 2 more changes\): make a new plan$") as raised:
        check_preconditions("p", PLAN, planned_state({tp(0): (4,), tp(1): (4,), tp(10): (4,)}))
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


def test_diverted_partitions_may_be_allowed() -> None:
    state = planned_state({tp(0): (4, 1)}, {tp(0): ELSEWHERE})
    check_preconditions("p", PLAN, state, allow_diverted=True)
