"""The checkers: a correct plan passes, and each planted fault is detected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest

from assignors import LeaderRacks, Member, Plan
from tests.support import assignments as invariants
from tests.support.assignment_problems import (
    Facts,
    exact_weights,
    level_counts,
    owner_of,
    read_group,
)
from tests.support.random_groups import SMALL, Group, random_group

TOPICS = frozenset({"t", "u"})
MEMBERS = (
    Member("m-1", TOPICS, rack="/x/1", owned={"t": [0, 1, 2]}, generation=3),
    Member("m-2", TOPICS, rack="/x/2", owned={"t": [1], "u": [0]}, generation=4),
    Member("m-3", frozenset({"u"}), rack="/y/1"),
    Member("m-4", frozenset({"gone"})),
)
LEADERS: LeaderRacks = {"t": ["/x/1", "/x/2", "/y/1"], "u": ["/y/1", None], "unread": ["/x/1"]}
CORRECT = Plan(
    partitions={"m-1": {"t": [0, 2]}, "m-2": {"t": [1]}, "m-3": {"u": [0, 1]}, "m-4": {}},
    off_rack=1,
    crossings=(1, 1),
    optimum=1,
    moved=1,
    loads={"m-1": 2, "m-2": 1, "m-3": 2, "m-4": 0},
)

Partitions = dict[str, dict[str, list[int]]]
Entry = TypeVar("Entry")


def check(plan: Plan) -> None:
    invariants.check_plan(MEMBERS, LEADERS, plan)


def with_lists(**changed: dict[str, list[int]]) -> Plan:
    """Return the correct plan with other lists for some members (m_1 stands for m-1)."""
    lists: Partitions = {id_: dict(topics) for id_, topics in CORRECT.partitions.items()}
    lists.update({key.replace("_", "-"): topics for key, topics in changed.items()})
    return replace(CORRECT, partitions=lists)


def without(member: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return ``entries`` without one member."""
    return {id_: entry for id_, entry in entries.items() if id_ != member}


def test_a_correct_plan_passes() -> None:
    check(CORRECT)


FAULTS: dict[str, tuple[Plan, str]] = {
    "assigned twice": (with_lists(m_2={"t": [0, 1]}), r"more than one member has .*'t', 0"),
    "not assigned": (with_lists(m_3={"u": [0]}), r"no member has \[\('u', 1\)\]"),
    "to a non-subscriber": (
        with_lists(m_2={}, m_3={"t": [1], "u": [0, 1]}),
        r"m-3 has t \[1\] but does not subscribe",
    ),
    "of a topic without subscribers": (
        with_lists(m_4={"unread": [0]}),
        r"m-4 has unread \[0\] but does not subscribe",
    ),
    "of an unknown topic": (with_lists(m_4={"gone": [0]}), "gone-0 does not exist"),
    "out of range": (with_lists(m_2={"t": [1, 3]}), "t-3 does not exist"),
    "negative": (with_lists(m_2={"t": [-1, 1]}), "t--1 does not exist"),
    "unsorted": (with_lists(m_1={"t": [2, 0]}), r"not sorted: \[2, 0\]"),
    "repeated": (with_lists(m_1={"t": [0, 0, 2]}), "repeat a number"),
    "an empty list": (with_lists(m_4={"gone": []}), "an empty list"),
    "a tuple": (with_lists(m_1={"t": (0, 2)}), "a tuple, not a list"),  # type: ignore[dict-item]
    "a bool for an int": (with_lists(m_2={"t": [True]}), "not ints"),
    "member missing": (
        replace(CORRECT, partitions=without("m-4", CORRECT.partitions)),
        r"plan.partitions has no entry for .*m-4",
    ),
    "member missing in loads": (
        replace(CORRECT, loads=without("m-4", CORRECT.loads)),
        r"plan.loads has no entry for .*m-4",
    ),
    "an unknown member": (with_lists(m_9={}), r"not in the group: \['m-9'\]"),
    "wrong loads": (replace(CORRECT, loads={**CORRECT.loads, "m-1": 3}), "plan.loads is"),
    "wrong off_rack": (replace(CORRECT, off_rack=0), "plan.off_rack is 0, not 1"),
    "wrong crossings": (replace(CORRECT, crossings=(0, 1)), r"plan.crossings is \(0, 1\)"),
    "a level too few": (replace(CORRECT, crossings=(1,)), r"plan.crossings is \(1,\)"),
    "wrong moved": (replace(CORRECT, moved=2), "plan.moved is 2, not 1"),
    "a float for a figure": (replace(CORRECT, moved=1.0), "plan.moved is a float"),  # type: ignore[arg-type]
    "not at the optimum": (replace(CORRECT, optimum=0), "off_rack is 1, its optimum 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_detected(fault: str) -> None:
    plan, message = FAULTS[fault]
    with pytest.raises(AssertionError, match=message):
        check(plan)


def test_uneven_loads_of_equal_subscriptions_are_detected() -> None:
    facts = read_group(MEMBERS, LEADERS)
    invariants.check_balance(facts, CORRECT)
    uneven = replace(CORRECT, loads={**CORRECT.loads, "m-1": 3, "m-2": 1})
    with pytest.raises(AssertionError, match=r"have {'m-1': 3, 'm-2': 1}"):
        invariants.check_balance(facts, uneven)


def range_plan(**lists: dict[str, list[int]]) -> tuple[Plan, Callable[[Plan], None]]:
    """Return a plan of two co-partitioned topics and two members, and the check of its shares."""
    members = [Member("a", TOPICS), Member("b", TOPICS)]
    facts = read_group(members, {"t": [None] * 3, "u": [None] * 3})
    plan = Plan(lists, 0, (0,), 0, 0, {})
    return plan, lambda plan: invariants.check_range_shares(facts, plan, [("t", "u")])


def test_even_shares_of_whole_indexes_pass() -> None:
    plan, check_shares = range_plan(a={"t": [0, 2], "u": [0, 2]}, b={"t": [1], "u": [1]})
    check_shares(plan)


def test_an_index_of_two_members_is_detected() -> None:
    plan, check_shares = range_plan(a={"t": [0, 2], "u": [1, 2]}, b={"t": [1], "u": [0]})
    with pytest.raises(AssertionError, match="index 0 of the co-partitioned"):
        check_shares(plan)


def test_uneven_shares_are_detected() -> None:
    plan, check_shares = range_plan(a={"t": [0, 1, 2], "u": [0, 1, 2]}, b={})
    with pytest.raises(AssertionError, match="of the 3 indexes"):
        check_shares(plan)


def test_owners_from_claims() -> None:
    # t-1 was claimed by m-1 in generation 3 and by m-2 in 4; u-0 by m-2 alone.
    assert [owner_of(cell, MEMBERS) for cell in [("t", 0), ("t", 1), ("u", 0), ("u", 1)]] == [
        0,
        1,
        1,
        -1,
    ]
    doubled = [replace(member, generation=5) for member in MEMBERS]
    assert owner_of(("t", 1), doubled) == -1
    # If the latest claim is of a member that no longer subscribes, the partition has no owner.
    left = [MEMBERS[0], replace(MEMBERS[1], topics=frozenset({"u"}))]
    assert owner_of(("t", 1), left) == -1


def test_exact_weights_in_one_unit() -> None:
    cells = [("t", number) for number in range(6)]
    weights = {"t": [200.0, 100.0, 0.0, float("nan"), -5.0]}
    assert exact_weights(cells, weights) == (4, 2, 1, 2, 2, 2)
    assert exact_weights(cells, {"t": [0.0] * 6}) == (1,) * 6
    assert exact_weights(cells, None) == (1,) * 6


def plan_of(facts: Facts, assignees: Sequence[int]) -> Plan:
    """Return the plan in which each cell is assigned to its assignee, with its figures."""
    lists: Partitions = {member.id: {} for member in facts.members}
    for (topic, number), assignee in zip(facts.cells, assignees, strict=True):
        lists[facts.members[assignee].id].setdefault(topic, []).append(number)
    crossings = level_counts(
        ((facts.crossed[cell][assignee], 1) for cell, assignee in enumerate(assignees)), facts.depth
    )
    moved = invariants.count_moved(facts, tuple(assignees))
    loads = {id_: sum(map(len, topics.values())) for id_, topics in lists.items()}
    return Plan(lists, crossings[-1], crossings, crossings[-1], moved, loads)


@pytest.mark.parametrize(
    ("plan_for", "check_plan"),
    [
        (invariants.check_sticky, invariants.check_sticky_plan),
        (invariants.check_range, invariants.check_range_plan),
    ],
    ids=["sticky", "range"],
)
def test_plans_with_a_moved_partition_are_detected(
    plan_for: Callable[[Group], Plan], check_plan: Callable[[Group, Plan], None]
) -> None:
    """A change that is not detected leaves a plan that is as good."""
    detected = 0
    for number in range(80):
        group = random_group(f"worse-{number}", SMALL)
        facts = read_group(group.members, group.leader_racks, group.weights)
        if not facts.cells:
            continue
        plan, rng = plan_for(group), Random(number)
        assignees = list(invariants.assignees_of(facts, plan))
        cell = rng.randrange(len(assignees))
        assignees[cell] = rng.choice(facts.candidates[cell])
        changed = plan_of(facts, assignees)
        try:
            check_plan(group, changed)
        except AssertionError:
            detected += 1
        else:
            assert group.weights or changed.crossings == plan.crossings
    assert detected >= 20
