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
    StalePlanError,
    check_preconditions,
)
from rackward.reassignment.progress import partition_states
from tests.support.plans import ORDERS, PLAN, RACKS, planned_state, tp

RAISING = Reassignment((1, 2, 3), adding=(2, 3), removing=())
"""The reassignment of orders-0 to PLAN's target."""
ELSEWHERE = Reassignment((4, 1), adding=(4,), removing=(1,))


def test_a_plan_fits_the_cluster_that_it_was_created_for() -> None:
    check_preconditions("p", PLAN, planned_state())
    states = partition_states(PLAN.moves, planned_state())
    assert set(states.values()) == {PartitionState.NOT_STARTED}


def test_a_partly_executed_plan_fits() -> None:
    reassignments = {tp(0): RAISING}
    state = planned_state({tp(0): (1, 2, 3), tp(1): (3, 2), tp(10): (3,)}, reassignments)
    check_preconditions("p", PLAN, state)
    assert partition_states(PLAN.moves, state) == {
        TopicPartition("größen", 0): PartitionState.NOT_STARTED,
        tp(0): PartitionState.IN_PROGRESS,
        tp(1): PartitionState.COMPLETED,
        tp(10): PartitionState.COMPLETED,
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
    state = planned_state({tp(1): (3, 2, 9)}, {tp(1): reassignment})
    assert partition_states(PLAN.moves, state)[tp(1)] is expected


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


def test_partitions_with_another_target_may_be_allowed() -> None:
    state = planned_state({tp(0): (4, 1)}, {tp(0): ELSEWHERE})
    check_preconditions("p", PLAN, state, allow_other_target=True)
