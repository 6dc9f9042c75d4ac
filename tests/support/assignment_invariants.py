"""What must be true of every plan, whatever the group: shared by all assignor tests.

Each checker raises AssertionError with the offending values. The figures of a plan are
worked out again from its partitions alone, in the plainest way that can be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from assignors import Member, Plan
from tests.support.assignment_facts import NOBODY, Facts, level_counts, read_group

Holders = tuple[int, ...]
"""Per cell of the facts, the index of the member that has it."""


def check_plan(
    members: Iterable[Member],
    leader_racks: Mapping[str, Sequence[str | None]],
    plan: Plan,
    weights: Mapping[str, Sequence[float]] | None = None,
) -> Facts:
    """All checks that hold for either assignor; the facts they were made from."""
    facts = read_group(members, leader_racks, weights)
    check_members(facts, plan)
    check_form(plan)
    check_cover(facts, plan)
    check_figures(facts, plan)
    check_optimum(plan)
    return facts


def check_members(facts: Facts, plan: Plan) -> None:
    """Every member has an entry, even one with nothing, and nobody else has."""
    expected = [member.id for member in facts.members]
    for what, found in (("partitions", plan.partitions), ("loads", plan.loads)):
        missing = sorted(set(expected) - set(found))
        strangers = sorted(set(found) - set(expected))
        assert not missing, f"plan.{what} lacks the members {missing}"
        assert not strangers, f"plan.{what} names members that are not in the group: {strangers}"


def check_form(plan: Plan) -> None:
    """Lists of plain ints, sorted, without duplicates, none empty."""
    for member_id, topics in plan.partitions.items():
        for topic, numbers in topics.items():
            where = f"{member_id}'s partitions of {topic}"
            assert type(numbers) is list, f"{where} are a {type(numbers).__name__}, not a list"
            assert numbers, f"{where} are an empty list"
            odd = [number for number in numbers if type(number) is not int]
            assert not odd, f"{where} hold {odd!r}, not plain ints"
            assert numbers == sorted(numbers), f"{where} are not sorted: {numbers}"
            assert len(numbers) == len(set(numbers)), f"{where} repeat a number: {numbers}"


def check_cover(facts: Facts, plan: Plan) -> None:
    """Every subscribed partition is with exactly one member, and that member subscribes to it."""
    subscriptions = {member.id: member.topics for member in facts.members}
    holders: dict[tuple[str, int], list[str]] = {cell: [] for cell in facts.cells}
    for member_id, topics in plan.partitions.items():
        for topic, numbers in topics.items():
            assert topic in subscriptions[member_id], (
                f"{member_id} has {topic} {numbers} but does not subscribe to it"
            )
            for number in numbers:
                assert (topic, number) in holders, f"{topic}-{number} does not exist"
                holders[topic, number].append(member_id)
    nowhere = [cell for cell, found in holders.items() if not found]
    assert not nowhere, f"nobody has {nowhere}"
    shared = {cell: found for cell, found in holders.items() if len(found) > 1}
    assert not shared, f"more than one member has {shared}"


def check_figures(facts: Facts, plan: Plan) -> None:
    """loads, crossings, off_rack and moved are what the partitions say."""
    holders = holders_of(facts, plan)
    loads = {
        member_id: sum(len(numbers) for numbers in topics.values())
        for member_id, topics in plan.partitions.items()
    }
    assert dict(plan.loads) == loads, f"plan.loads is {dict(plan.loads)}, the lists say {loads}"
    crossings = level_counts(
        ((facts.crossed[cell][holder], 1) for cell, holder in enumerate(holders)), facts.depth
    )
    assert plan.crossings == crossings, f"plan.crossings is {plan.crossings}, not {crossings}"
    assert plan.off_rack == crossings[-1], f"plan.off_rack is {plan.off_rack}, not {crossings[-1]}"
    moved = count_moved(facts, holders)
    assert plan.moved == moved, f"plan.moved is {plan.moved}, not {moved}"
    for name in ("off_rack", "optimum", "moved"):
        value = getattr(plan, name)
        assert type(value) is int, f"plan.{name} is a {type(value).__name__}"


def check_optimum(plan: Plan) -> None:
    """The bound that the plan states is reached: it is exact, by its own proof."""
    assert plan.optimum == plan.off_rack, (
        f"plan.off_rack is {plan.off_rack}, its optimum {plan.optimum}"
    )


def check_balance(facts: Facts, plan: Plan) -> None:
    """Members of one and the same subscription differ by at most one partition.

    This is far less than the least sum of squares, which the oracles check, but it needs
    no oracle, so it can be asked of groups of any size (without ``max_imbalance``).
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
    """Index i of all topics of a group is with one member; shares are floor or ceiling.

    ``even=False`` leaves the shares out (with ``max_imbalance`` they are the oracle's job).
    """
    holder = dict(zip(facts.cells, holders_of(facts, plan), strict=True))
    for topics in groups:
        indexes = sorted(number for topic, number in facts.cells if topic == topics[0])
        shares = {i: 0 for i, m in enumerate(facts.members) if topics[0] in m.topics}
        for index in indexes:
            found = {holder[topic, index] for topic in topics}
            assert len(found) == 1, (
                f"index {index} of the co-partitioned {list(topics)} is with several members: "
                f"{sorted(facts.members[i].id for i in found)}"
            )
            shares[found.pop()] += 1
        low = len(indexes) // len(shares)
        high = -(-len(indexes) // len(shares))
        assert not even or all(low <= share <= high for share in shares.values()), (
            f"of the {len(indexes)} indexes of {list(topics)} members have {shares}"
        )


def holders_of(facts: Facts, plan: Plan) -> Holders:
    """Per cell, who has it. The plan must cover every cell."""
    index = {member.id: i for i, member in enumerate(facts.members)}
    found = {
        (topic, number): index[member_id]
        for member_id, topics in plan.partitions.items()
        for topic, numbers in topics.items()
        for number in numbers
    }
    return tuple(found[cell] for cell in facts.cells)


def count_moved(facts: Facts, holders: Holders) -> int:
    """Owned partitions that are no longer with their owner."""
    return sum(
        1
        for owner, holder in zip(facts.owner, holders, strict=True)
        if owner not in (NOBODY, holder)
    )
