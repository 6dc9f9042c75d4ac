"""One group, one plan: it is valid, and no figure of its objective can be bettered."""

from __future__ import annotations

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from tests.support.assignment_facts import Facts
from tests.support.assignment_invariants import (
    check_balance,
    check_plan,
    check_range_shares,
    holders_of,
)
from tests.support.assignment_problems import (
    Problem,
    Value,
    apache_range,
    check_bounds,
    racks_matter,
    range_problem,
    sticky_parts,
    topic_groups,
    value,
)
from tests.support.oracles import brute_force, solver
from tests.support.random_groups import Group


def check_sticky_plan(group: Group, plan: Plan) -> None:
    """A plan of LeaderRackAwareCooperativeSticky against every check there is."""
    facts = check_plan(group.members, group.leader_racks, plan, group.weights)
    holders = holders_of(facts, plan)
    if group.max_imbalance == 0:
        check_balance(facts, plan)
    for part in sticky_parts(facts, group.max_imbalance):
        share = part.holders(holders)
        check_bounds(part.problem, share)
        check_value(part.problem, value(part.problem, share))


def check_range_plan(group: Group, plan: Plan) -> None:
    """A plan of LeaderRackAwareRange against every check there is.

    Each group of topics is held against the best answer given what the plan itself did with
    the groups before: equally good answers there may leave different loads behind.
    """
    facts = check_plan(group.members, group.leader_racks, plan, group.weights)
    groups = topic_groups(facts, co_partitioned=group.co_partitioned)
    check_range_shares(facts, plan, groups, even=group.max_imbalance == 0)
    holder = dict(zip(facts.cells, holders_of(facts, plan), strict=True))
    loads = [0] * len(facts.members)
    for topics in groups:
        leaders = [rack for topic in topics for rack in group.leader_racks[topic]]
        if racks_matter(facts, topics, leaders):
            problem, members = range_problem(facts, topics, loads, group.max_imbalance)
            indexes = range(len(problem.takers))
            share = [members.index(holder[topics[0], index]) for index in indexes]
            check_bounds(problem, share)
            check_value(problem, value(problem, share))
        else:
            check_apache(facts, plan, topics)
        for cell, member in holder.items():
            loads[member] += cell[0] in topics


def check_apache(facts: Facts, plan: Plan, topics: tuple[str, ...]) -> None:
    """Where racks cannot matter, the plan of Apache's Range and no other."""
    for topic in topics:
        count = sum(1 for name, _ in facts.cells if name == topic)
        expected = apache_range(facts.members, topic, count)
        found = {member: plan.partitions[member].get(topic, []) for member in expected}
        assert found == expected, f"{topic}: Apache's Range is {expected}, the plan {found}"


def check_value(problem: Problem, found: Value) -> None:
    """No answer is better, says the flow; where there are few answers, so say all of them."""
    best = solver.best_value(problem)
    assert found == best, f"the objective is {found}, the flow's optimum {best}"
    if brute_force.answers(problem) <= brute_force.MOST_ANSWERS:
        best = brute_force.best_value(problem)
        assert found == best, f"the objective is {found}, the optimum of all answers {best}"


def check_sticky(group: Group) -> Plan:
    """The plan of LeaderRackAwareCooperativeSticky, found valid and optimal."""
    assignor = LeaderRackAwareCooperativeSticky(max_imbalance=group.max_imbalance)
    plan = assignor.assign(group.members, group.leader_racks, group.weights)
    check_sticky_plan(group, plan)
    return plan


def check_range(group: Group) -> Plan:
    """The plan of LeaderRackAwareRange, found valid and optimal."""
    assignor = LeaderRackAwareRange(
        co_partitioned=group.co_partitioned, max_imbalance=group.max_imbalance
    )
    plan = assignor.assign(group.members, group.leader_racks, group.weights)
    check_range_plan(group, plan)
    return plan
