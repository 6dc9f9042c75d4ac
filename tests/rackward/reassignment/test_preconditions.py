from __future__ import annotations

from dataclasses import replace

import pytest

from placement_core import TopicPartition
from rackward.admin import ClusterState, Ongoing
from rackward.reassignment import Phase, RacksFrom, StalePlanError, Standing, check_current
from tests.support.plans import ORDERS, PLAN, RACKS, place, state

MOVES = [each.move for each in PLAN.moves]
RAISING = Ongoing((1, 2, 3), adding=(2, 3), removing=())
"""What is under way when orders-0 does what PLAN says."""


def test_a_plan_fits_the_cluster_that_it_was_made_from() -> None:
    check_current("p", PLAN, state())
    standing = Standing.of(MOVES, state(), {})
    assert set(standing.phases.values()) == {Phase.TO_DO}
    assert not standing.foreign


def test_a_plan_that_was_carried_out_in_part_is_taken_up_again() -> None:
    ongoing = {place(0): RAISING}
    now = state({place(0): (1, 2, 3), place(1): (3, 2), place(10): (3,)}, ongoing)
    check_current("p", PLAN, now)
    standing = Standing.of(MOVES, now, ongoing)
    assert standing.phases == {
        TopicPartition("größen", 0): Phase.TO_DO,
        place(0): Phase.UNDER_WAY,
        place(1): Phase.PLACED,
        place(10): Phase.PLACED,
    }
    assert standing.count(Phase.PLACED) == 2
    assert not standing.foreign


def test_the_way_to_a_target_with_brokers_to_go_is_recognised() -> None:
    # Kafka lists the target first, then what is to go.
    ongoing = {place(1): Ongoing((3, 2, 9), adding=(3,), removing=(9,))}
    now = state({place(1): (3, 2, 9)}, ongoing)
    assert Standing.of(MOVES, now, ongoing).phases[place(1)] is Phase.UNDER_WAY
    # One that Kafka will never finish is not on its way.
    torn = {place(1): Ongoing((3, 2, 9), adding=(3,), removing=(3, 9))}
    now = state({place(1): (3, 2, 9)}, torn)
    assert Standing.of(MOVES, now, torn).phases[place(1)] is Phase.DIVERTED


def test_reassignments_of_others_are_told_apart() -> None:
    elsewhere = Ongoing((4, 1), adding=(4,), removing=(1,))
    other = TopicPartition("payments", 3)
    ongoing = {place(0): RAISING, place(1): elsewhere, other: elsewhere}
    now = state({place(0): (1, 2, 3), place(1): (4, 1)}, {p: ongoing[p] for p in MOVES_UNDER_WAY})
    standing = Standing.of(MOVES, now, ongoing)
    assert standing.phases[place(1)] is Phase.DIVERTED
    assert set(standing.foreign) == {place(1), other}


MOVES_UNDER_WAY = (place(0), place(1))

STALE = {
    "another cluster": (
        replace(state(), cluster_id="that-cluster"),
        "p was made for the cluster this-cluster, and this is that-cluster",
    ),
    "a topic gone": (state(topic_ids={"größen": None}), "the topic orders is gone"),
    "a topic made anew": (
        state(topic_ids={"größen": None, "orders": "another"}),
        "the topic orders was deleted and made anew",
    ),
    "a partition gone": (state({place(10): ()}), "there is no partition orders-10 any more"),
    "replicas moved": (
        state({place(0): (4,)}),
        "orders-0 is on brokers 4, and was on 1",
    ),
    "replicas reordered": (
        state({TopicPartition("größen", 0): (1, 2), place(10): (1, 2, 3)}),
        "orders-10 is on brokers 1, 2, 3, and was on 3, 2, 1",
    ),
    "taken by somebody else": (
        state({place(0): (4, 1)}, {place(0): Ongoing((4, 1), (4,), (1,))}),
        "orders-0 is being reassigned to brokers 4 by somebody else",
    ),
    "a broker down": (
        state(racks={1: "a", 2: "b", 4: None}),
        "broker 3, which is to hold replicas, is not live",
    ),
    "a broker in another rack": (
        state(racks={**RACKS, 3: "a"}),
        "broker 3 stands in rack a, and stood in c",
    ),
    "a broker that lost its rack": (
        state(racks={**RACKS, 3: None}),
        "broker 3 stands in rack none, and stood in c",
    ),
}


@pytest.mark.parametrize(("now", "problem"), STALE.values(), ids=STALE)
def test_what_changed_is_named(now: ClusterState, problem: str) -> None:
    with pytest.raises(StalePlanError) as caught:
        check_current("p", PLAN, now)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_many_changes_the_first_is_named_and_all_are_kept() -> None:
    with pytest.raises(StalePlanError, match=r"\(and 2 more changes\): plan again$") as caught:
        check_current("p", PLAN, state({place(0): (4,), place(1): (4,), place(10): (4,)}))
    assert len(caught.value.changes) == 3


def test_what_does_not_matter_is_passed_over() -> None:
    # Another leader, a new broker, a broker gone that holds nothing to come.
    now = state(racks={1: "a", 2: "b", 3: "c", 7: "x"})
    now = replace(now, view=replace(now.view, leaders={}))
    check_current("p", PLAN, now)
    # Racks that the plan does not rest on, or had from elsewhere.
    moved = state(racks={**RACKS, 3: "a"})
    for source in (RacksFrom.LOCATOR, RacksFrom.IGNORED):
        check_current("p", replace(PLAN, racks_from=source), moved)
    # A broker that died when its partitions were placed already.
    placed = {each.move.partition: each.move.after for each in PLAN.moves}
    check_current("p", PLAN, state(placed, racks={1: "a", 2: "b"}))
    # Clusters and topics without ids.
    check_current("p", replace(PLAN, cluster_id=None, topic_ids={"orders": None}), state())
    check_current("p", PLAN, state(topic_ids={"größen": ORDERS, "orders": None}))


def test_another_reassignment_may_be_diverted_if_asked_for() -> None:
    now = state({place(0): (4, 1)}, {place(0): Ongoing((4, 1), (4,), (1,))})
    check_current("p", PLAN, now, divert=True)
