"""Checks of assignments: validity, invariants and optimality."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member, Plan
from tests.support.assignment_problems import (
    UNASSIGNED,
    Assignees,
    Facts,
    Problem,
    Value,
    apache_range,
    check_bounds,
    level_counts,
    racks_matter,
    range_problem,
    read_group,
    sticky_parts,
    topic_groups,
    value,
)
from tests.support.oracles import brute_force, solver
from tests.support.random_groups import Group


def check_plan(
    members: Iterable[Member],
    leader_racks: Mapping[str, Sequence[str | None]],
    plan: Plan,
    weights: Mapping[str, Sequence[float]] | None = None,
) -> Facts:
    """Check what holds for both assignors; return the facts of the group."""
    facts = read_group(members, leader_racks, weights)
    check_members(facts, plan)
    check_form(plan)
    check_cover(facts, plan)
    check_figures(facts, plan)
    check_optimum(plan)
    return facts


def check_members(facts: Facts, plan: Plan) -> None:
    """Check that exactly the members have an entry, even those without partitions."""
    expected = [member.id for member in facts.members]
    for name, entries in (("partitions", plan.partitions), ("loads", plan.loads)):
        missing = sorted(set(expected) - set(entries))
        unknown = sorted(set(entries) - set(expected))
        assert not missing, f"plan.{name} has no entry for the members {missing}"
        assert not unknown, f"plan.{name} names members that are not in the group: {unknown}"


def check_form(plan: Plan) -> None:
    """Check that lists are sorted ints without duplicates, and none empty."""
    for member_id, topics in plan.partitions.items():
        for topic, numbers in topics.items():
            where = f"{member_id}'s partitions of {topic}"
            assert type(numbers) is list, f"{where} are a {type(numbers).__name__}, not a list"
            assert numbers, f"{where} are an empty list"
            invalid = [number for number in numbers if type(number) is not int]
            assert not invalid, f"{where} contain {invalid!r}, not ints"
            assert numbers == sorted(numbers), f"{where} are not sorted: {numbers}"
            assert len(numbers) == len(set(numbers)), f"{where} repeat a number: {numbers}"


def check_cover(facts: Facts, plan: Plan) -> None:
    """Check that every subscribed partition has one member, which subscribes to its topic."""
    subscriptions = {member.id: member.topics for member in facts.members}
    assignees: dict[tuple[str, int], list[str]] = {cell: [] for cell in facts.cells}
    for member_id, topics in plan.partitions.items():
        for topic, numbers in topics.items():
            assert topic in subscriptions[member_id], (
                f"{member_id} has {topic} {numbers} but does not subscribe to it"
            )
            for number in numbers:
                assert (topic, number) in assignees, f"{topic}-{number} does not exist"
                assignees[topic, number].append(member_id)
    unassigned = [cell for cell, ids in assignees.items() if not ids]
    assert not unassigned, f"no member has {unassigned}"
    shared = {cell: ids for cell, ids in assignees.items() if len(ids) > 1}
    assert not shared, f"more than one member has {shared}"


def check_figures(facts: Facts, plan: Plan) -> None:
    """Check loads, crossings, off_rack and moved against the partitions."""
    assignees = assignees_of(facts, plan)
    loads = {
        member_id: sum(len(numbers) for numbers in topics.values())
        for member_id, topics in plan.partitions.items()
    }
    assert dict(plan.loads) == loads, f"plan.loads is {dict(plan.loads)}, not {loads}"
    crossings = level_counts(
        ((facts.crossed[cell][assignee], 1) for cell, assignee in enumerate(assignees)), facts.depth
    )
    assert plan.crossings == crossings, f"plan.crossings is {plan.crossings}, not {crossings}"
    assert plan.off_rack == crossings[-1], f"plan.off_rack is {plan.off_rack}, not {crossings[-1]}"
    moved = count_moved(facts, assignees)
    assert plan.moved == moved, f"plan.moved is {plan.moved}, not {moved}"
    for name in ("off_rack", "optimum", "moved"):
        value = getattr(plan, name)
        assert type(value) is int, f"plan.{name} is a {type(value).__name__}"


def check_optimum(plan: Plan) -> None:
    """Check that the plan is proved optimal."""
    assert plan.optimum == plan.off_rack, (
        f"plan.off_rack is {plan.off_rack}, its optimum {plan.optimum}"
    )


def check_balance(facts: Facts, plan: Plan) -> None:
    """Check that loads of members with equal subscriptions differ by at most one.

    This is weaker than the minimum sum of squares, which the oracles check, but needs no oracle, so
    it applies to groups of any size (without ``max_imbalance``).
    """
    alike: dict[frozenset[str], list[str]] = {}
    for member in facts.members:
        alike.setdefault(member.topics, []).append(member.id)
    for topics, ids in alike.items():
        loads = {member_id: plan.loads[member_id] for member_id in ids}
        assert max(loads.values()) - min(loads.values()) <= 1, (
            f"members that all subscribe to {sorted(topics)} have {loads}"
        )


def check_range_shares(
    facts: Facts, plan: Plan, groups: Iterable[Sequence[str]], *, even: bool = True
) -> None:
    """Check that index i of all topics of a group has one member; if ``even``, also the shares.

    Shares are the floor or the ceiling of the average. With ``max_imbalance``, the oracle checks
    them.
    """
    assignee = dict(zip(facts.cells, assignees_of(facts, plan), strict=True))
    for topics in groups:
        indexes = sorted(number for topic, number in facts.cells if topic == topics[0])
        shares = {i: 0 for i, m in enumerate(facts.members) if topics[0] in m.topics}
        for index in indexes:
            assigned_to = {assignee[topic, index] for topic in topics}
            assert len(assigned_to) == 1, (
                f"index {index} of the co-partitioned {list(topics)} is with several members: "
                f"{sorted(facts.members[i].id for i in assigned_to)}"
            )
            shares[assigned_to.pop()] += 1
        low = len(indexes) // len(shares)
        high = -(-len(indexes) // len(shares))
        assert not even or all(low <= share <= high for share in shares.values()), (
            f"of the {len(indexes)} indexes of {list(topics)} members have {shares}"
        )


def assignees_of(facts: Facts, plan: Plan) -> Assignees:
    """Return per cell the member that it is assigned to. The plan must cover every cell."""
    index = {member.id: i for i, member in enumerate(facts.members)}
    assigned = {
        (topic, number): index[member_id]
        for member_id, topics in plan.partitions.items()
        for topic, numbers in topics.items()
        for number in numbers
    }
    return tuple(assigned[cell] for cell in facts.cells)


def count_moved(facts: Facts, assignees: Assignees) -> int:
    """Return the number of owned partitions that are not assigned to their owner."""
    return sum(
        1
        for owner, assignee in zip(facts.owner, assignees, strict=True)
        if owner not in (UNASSIGNED, assignee)
    )


# ---- Check that a plan is valid, and that no plan has a better objective.


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
