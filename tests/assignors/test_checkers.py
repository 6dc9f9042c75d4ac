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
    Problem,
    level_counts,
    levels,
    range_problem,
    read_group,
    sticky_parts,
    topic_classes,
    topic_groups,
)
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, Group, random_group

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


def test_uneven_shares_of_range_are_detected() -> None:
    facts = read_group([Member("a", TOPICS), Member("b", TOPICS)], dict.fromkeys("tu", [None] * 3))

    def check_shares(a: list[int], b: list[int], of_u: tuple[list[int], list[int]]) -> None:
        lists = {"a": {"t": a, "u": of_u[0]}, "b": {"t": b, "u": of_u[1]}}
        invariants.check_range_shares(facts, Plan(lists, 0, (0,), 0, 0, {}), [("t", "u")])

    check_shares([0, 2], [1], ([0, 2], [1]))
    with pytest.raises(AssertionError, match="index 0 of the co-partitioned"):
        check_shares([0, 2], [1], ([1, 2], [0]))
    with pytest.raises(AssertionError, match="of the 3 indexes"):
        check_shares([0, 1, 2], [], ([0, 1, 2], []))


def test_uneven_loads_of_equal_subscriptions_are_detected() -> None:
    facts = read_group(MEMBERS, LEADERS)
    uneven = replace(CORRECT, loads={**CORRECT.loads, "m-1": 3, "m-2": 1})
    with pytest.raises(AssertionError, match=r"have {'m-1': 3, 'm-2': 1}"):
        invariants.check_balance(facts, uneven)


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


# ---- The oracles agree with each other.


def problems_of(seed: str) -> list[Problem]:
    """Return the problems of both assignors; those of Range have random loads of earlier topics."""
    group = random_group(seed, SMALL, imbalance=seed.endswith(("3", "7")))
    facts = read_group(group.members, group.leader_racks, group.weights)
    rng = Random(seed)
    before = [rng.randint(0, 5) for _ in facts.members]
    problems = [part.problem for part in sticky_parts(facts, group.max_imbalance)]
    problems.extend(
        range_problem(facts, topics, before, group.max_imbalance)[0]
        for topics in topic_groups(facts, co_partitioned=group.co_partitioned)
    )
    return problems


@pytest.mark.parametrize("chunk", range(4))
def test_flow_agrees_with_brute_force_on_small_groups(chunk: int) -> None:
    compared = 0
    for number in range(chunk * 75, chunk * 75 + 75):
        for problem in problems_of(f"agree-{number}"):
            if oracle_brute.count_solutions(problem) <= oracle_brute.MAX_SOLUTIONS:
                expected = oracle_brute.best_value(problem)
                assert oracle_solver.best_value(problem) == expected, f"seed agree-{number}"
                compared += 1
    assert compared > 100


def test_levels_of_a_known_group() -> None:
    # Ten partitions have only member 0 as a subscriber. Members 1 and 2 share three, to which
    # member 0 subscribes too. Member 3 has no subscription.
    classes = {frozenset({0}): 10, frozenset({0, 1, 2}): 3}
    members = frozenset(range(4))
    assert levels(classes, members) == {0: 10, 1: 2, 2: 2, 3: 0}


def test_balanced_loads_are_at_the_level_or_one_below() -> None:
    for number in range(150):
        group = random_group(f"blocks-{number}", MIDDLE)
        facts = read_group(group.members, group.leader_racks)
        members = frozenset(range(len(facts.members)))
        level = levels(topic_classes(facts), members)
        assignees = oracle_solver.best_solution(sticky_parts(facts)[0].problem)
        for member in members:
            load = sum(1 for assignee in assignees if assignee == member)
            assert load in (level[member], level[member] - 1), f"seed blocks-{number}"
