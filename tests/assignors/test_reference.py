"""The checks of plans: optimal plans of the flow oracle pass, worse plans do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from assignors import Plan
from tests.support.assignment_problems import (
    Facts,
    apache_range,
    level_counts,
    racks_matter,
    range_problem,
    read_group,
    sticky_parts,
    topic_groups,
)
from tests.support.assignments import assignees_of, check_range_plan, check_sticky_plan, count_moved
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, Group, random_group


def plan_of(facts: Facts, assignees: Sequence[int]) -> Plan:
    """Return the plan in which each cell is assigned to its assignee, with its figures."""
    lists: dict[str, dict[str, list[int]]] = {member.id: {} for member in facts.members}
    for (topic, number), assignee in zip(facts.cells, assignees, strict=True):
        lists[facts.members[assignee].id].setdefault(topic, []).append(number)
    crossings = level_counts(
        ((facts.crossed[cell][assignee], 1) for cell, assignee in enumerate(assignees)), facts.depth
    )
    return Plan(
        partitions=lists,
        off_rack=crossings[-1],
        crossings=crossings,
        optimum=crossings[-1],
        moved=count_moved(facts, tuple(assignees)),
        loads={id_: sum(map(len, topics.values())) for id_, topics in lists.items()},
    )


def sticky_reference(group: Group) -> Plan:
    """Return an optimal plan by the objectives of LeaderRackAwareCooperativeSticky."""
    facts = read_group(group.members, group.leader_racks, group.weights)
    assignees = [-1] * len(facts.cells)
    for part in sticky_parts(facts, group.max_imbalance):
        for cell, assignee in zip(
            part.cells, oracle_solver.best_solution(part.problem), strict=True
        ):
            assignees[cell] = part.members[assignee]
    return plan_of(facts, assignees)


def range_reference(group: Group) -> Plan:
    """Return an optimal plan by the objectives of LeaderRackAwareRange."""
    facts = read_group(group.members, group.leader_racks, group.weights)
    index = {member.id: i for i, member in enumerate(facts.members)}
    assignee: dict[tuple[str, int], int] = {}
    loads = [0] * len(facts.members)
    for topics in topic_groups(facts, co_partitioned=group.co_partitioned):
        leaders = [rack for topic in topics for rack in group.leader_racks[topic]]
        if racks_matter(facts, topics, leaders):
            problem, members = range_problem(facts, topics, loads, group.max_imbalance)
            solution = [members[m] for m in oracle_solver.best_solution(problem)]
        else:
            ranges = apache_range(facts.members, topics[0], len(group.leader_racks[topics[0]]))
            member_of = {n: index[id_] for id_, numbers in ranges.items() for n in numbers}
            solution = [member_of[n] for n in range(len(member_of))]
        for number, member in enumerate(solution):
            assignee.update({(topic, number): member for topic in topics})
            loads[member] += len(topics)
    return plan_of(facts, [assignee[cell] for cell in facts.cells])


KINDS: dict[str, tuple[Callable[[Group], Plan], Callable[[Group, Plan], None]]] = {
    "sticky": (sticky_reference, check_sticky_plan),
    "range": (range_reference, check_range_plan),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reference_plans_pass_every_check(kind: str) -> None:
    reference, check = KINDS[kind]
    for number in range(150):
        group = random_group(f"pass-{number}", MIDDLE, imbalance=number % 3 == 0)
        check(group, reference(group))


@pytest.mark.parametrize("kind", KINDS)
def test_plans_with_exchanged_or_moved_partitions_are_detected(kind: str) -> None:
    """Many changes make a plan worse; a changed plan that passes has the reference's figures."""
    reference, check = KINDS[kind]
    detected = 0
    for number in range(400):
        group = random_group(f"worse-{number}", SMALL)
        facts = read_group(group.members, group.leader_racks, group.weights)
        if not facts.cells:
            continue
        plan = reference(group)
        assignees = list(assignees_of(facts, plan))
        rng = Random(number)
        cell = rng.randrange(len(assignees))
        other = rng.choice(
            [i for i, t in enumerate(facts.candidates) if t == facts.candidates[cell]]
        )
        if rng.random() < 0.5:
            assignees[cell], assignees[other] = assignees[other], assignees[cell]
        else:
            assignees[cell] = rng.choice(facts.candidates[cell])
        worse = plan_of(facts, assignees)
        try:
            check(group, worse)
        except AssertionError:
            detected += 1
        else:
            assert sorted(worse.loads.values()) == sorted(plan.loads.values()) or kind == "range"
            if kind == "sticky" and group.weights is None:
                assert (worse.crossings, worse.moved) == (plan.crossings, plan.moved)
    assert detected >= 50
