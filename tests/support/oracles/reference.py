"""Optimal plans, computed by the flow oracle."""

from __future__ import annotations

from collections.abc import Sequence

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
from tests.support.assignments import count_moved
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import Group


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
