"""Plans made by the flow oracle: slow, and known to be as good as can be."""

from __future__ import annotations

from collections.abc import Sequence

from assignors import Plan
from tests.support.assignment_facts import Facts, level_counts, read_group
from tests.support.assignment_invariants import count_moved
from tests.support.assignment_problems import (
    apache_range,
    racks_matter,
    range_problem,
    sticky_parts,
    topic_groups,
)
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import Group


def plan_of(facts: Facts, holders: Sequence[int]) -> Plan:
    """The plan in which each cell is with its holder, with its true figures."""
    lists: dict[str, dict[str, list[int]]] = {member.id: {} for member in facts.members}
    for (topic, number), holder in zip(facts.cells, holders, strict=True):
        lists[facts.members[holder].id].setdefault(topic, []).append(number)
    crossings = level_counts(
        ((facts.crossed[cell][holder], 1) for cell, holder in enumerate(holders)), facts.depth
    )
    return Plan(
        partitions=lists,
        off_rack=crossings[-1],
        crossings=crossings,
        optimum=crossings[-1],
        moved=count_moved(facts, tuple(holders)),
        loads={id_: sum(map(len, topics.values())) for id_, topics in lists.items()},
    )


def sticky_reference(group: Group) -> Plan:
    """One of the best plans that LeaderRackAwareCooperativeSticky may make."""
    facts = read_group(group.members, group.leader_racks, group.weights)
    holders = [-1] * len(facts.cells)
    for part in sticky_parts(facts, group.max_imbalance):
        for cell, holder in zip(part.cells, oracle_solver.best_answer(part.problem), strict=True):
            holders[cell] = part.members[holder]
    return plan_of(facts, holders)


def range_reference(group: Group) -> Plan:
    """One of the best plans that LeaderRackAwareRange may make."""
    facts = read_group(group.members, group.leader_racks, group.weights)
    index = {member.id: i for i, member in enumerate(facts.members)}
    holder: dict[tuple[str, int], int] = {}
    loads = [0] * len(facts.members)
    for topics in topic_groups(facts, co_partitioned=group.co_partitioned):
        leaders = [rack for topic in topics for rack in group.leader_racks[topic]]
        if racks_matter(facts, topics, leaders):
            problem, members = range_problem(facts, topics, loads, group.max_imbalance)
            answer = [members[m] for m in oracle_solver.best_answer(problem)]
        else:
            found = apache_range(facts.members, topics[0], len(group.leader_racks[topics[0]]))
            has = {n: index[id_] for id_, numbers in found.items() for n in numbers}
            answer = [has[n] for n in range(len(has))]
        for number, member in enumerate(answer):
            holder.update({(topic, number): member for topic in topics})
            loads[member] += len(topics)
    return plan_of(facts, [holder[cell] for cell in facts.cells])
