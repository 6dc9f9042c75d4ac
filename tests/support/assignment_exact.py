"""Check that a plan is valid, and that no plan has a better objective."""

from __future__ import annotations

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from tests.support.assignment_facts import Facts
from tests.support.assignment_invariants import (
    assignees_of,
    check_balance,
    check_plan,
    check_range_shares,
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
    """Check a plan of LeaderRackAwareCooperativeSticky."""
    facts = check_plan(group.members, group.leader_racks, plan, group.weights)
    assignees = assignees_of(facts, plan)
    if group.max_imbalance == 0:
        check_balance(facts, plan)
    for part in sticky_parts(facts, group.max_imbalance):
        share = part.assignees(assignees)
        check_bounds(part.problem, share)
        check_value(part.problem, value(part.problem, share))


def check_range_plan(group: Group, plan: Plan) -> None:
    """Check a plan of LeaderRackAwareRange.

    Each group of topics is compared with the optimum given the plan's own assignment of the groups
    before: equally good assignments of those may leave different loads.
    """
    facts = check_plan(group.members, group.leader_racks, plan, group.weights)
    groups = topic_groups(facts, co_partitioned=group.co_partitioned)
    check_range_shares(facts, plan, groups, even=group.max_imbalance == 0)
    assignee = dict(zip(facts.cells, assignees_of(facts, plan), strict=True))
    loads = [0] * len(facts.members)
    for topics in groups:
        leaders = [rack for topic in topics for rack in group.leader_racks[topic]]
        if racks_matter(facts, topics, leaders):
            problem, members = range_problem(facts, topics, loads, group.max_imbalance)
            indexes = range(len(problem.candidates))
            share = [members.index(assignee[topics[0], index]) for index in indexes]
            check_bounds(problem, share)
            check_value(problem, value(problem, share))
        else:
            check_apache(facts, plan, topics)
        for cell, member in assignee.items():
            loads[member] += cell[0] in topics


def check_apache(facts: Facts, plan: Plan, topics: tuple[str, ...]) -> None:
    """Check that the plan is that of Apache's Range, for topics for which racks do not matter."""
    for topic in topics:
        count = sum(1 for name, _ in facts.cells if name == topic)
        expected = apache_range(facts.members, topic, count)
        actual = {member: plan.partitions[member].get(topic, []) for member in expected}
        assert actual == expected, f"{topic}: Apache's Range is {expected}, the plan {actual}"


def check_value(problem: Problem, actual: Value) -> None:
    """Compare with the optimum of the flow oracle and, for small problems, of brute force."""
    best = solver.best_value(problem)
    assert actual == best, f"the objective is {actual}, the optimum of the flow {best}"
    if brute_force.count_solutions(problem) <= brute_force.MAX_SOLUTIONS:
        best = brute_force.best_value(problem)
        assert actual == best, f"the objective is {actual}, the optimum of all solutions {best}"


def check_sticky(group: Group) -> Plan:
    """Return the plan of LeaderRackAwareCooperativeSticky after checking it."""
    assignor = LeaderRackAwareCooperativeSticky(max_imbalance=group.max_imbalance)
    plan = assignor.assign(group.members, group.leader_racks, group.weights)
    check_sticky_plan(group, plan)
    return plan


def check_range(group: Group) -> Plan:
    """Return the plan of LeaderRackAwareRange after checking it."""
    assignor = LeaderRackAwareRange(
        co_partitioned=group.co_partitioned, max_imbalance=group.max_imbalance
    )
    plan = assignor.assign(group.members, group.leader_racks, group.weights)
    check_range_plan(group, plan)
    return plan
