"""What LeaderRackAwareRange is asked, group of topics by group, and Apache's Range itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from assignors import Member
from tests.assignors.facts import NOBODY, Facts, level_counts, rack_levels
from tests.assignors.problem import Problem

Topics = tuple[str, ...]


def topic_groups(facts: Facts, *, co_partitioned: bool = True) -> list[Topics]:
    """Topics of equal subscribers and partition count together, by their first name."""
    if not facts.cells:
        return []
    takers: dict[str, tuple[int, ...]] = {}
    counts: dict[str, int] = {}
    for (topic, _), found in zip(facts.cells, facts.takers, strict=True):
        takers[topic] = found
        counts[topic] = counts.get(topic, 0) + 1
    groups: dict[tuple[object, ...], list[str]] = {}
    for topic in sorted(takers):
        alone = () if co_partitioned else (topic,)
        groups.setdefault((takers[topic], counts[topic], *alone), []).append(topic)
    return [tuple(topics) for topics in groups.values()]


def racks_matter(facts: Facts, topics: Topics, racks_of_leaders: Sequence[object]) -> bool:
    """Whether one answer can be more local than another for these topics."""
    members = [member for member in facts.members if topics[0] in member.topics]
    stands = {rack_levels(member.rack) for member in members}
    leads = {rack_levels(rack) for rack in racks_of_leaders} - {()}
    if stands == {()} or not leads:
        return False
    return not (len(stands) == 1 and stands == leads)


def range_problem(
    facts: Facts, topics: Topics, before: Sequence[int], max_imbalance: float = 0.0
) -> tuple[Problem, tuple[int, ...]]:
    """The problem of one group of topics given what members have already; its members."""
    cell_of = {cell: i for i, cell in enumerate(facts.cells)}
    indexes = [number for topic, number in facts.cells if topic == topics[0]]
    members = facts.takers[cell_of[topics[0], 0]]
    share, rest = divmod(len(indexes), len(members))
    ceiling = share + (1 if rest else 0)
    cap = math.floor(ceiling * (1 + max_imbalance))
    low, high = (share, ceiling) if cap == ceiling else (0, cap)

    def cost(index: int, member: int) -> tuple[int, ...]:
        cells = [cell_of[topic, index] for topic in topics]
        return level_counts(
            [(facts.crossed[cell][member], facts.steps[cell]) for cell in cells], facts.depth
        )

    everyone = tuple(range(len(members)))
    problem = Problem(
        takers=(everyone,) * len(indexes),
        costs=tuple(tuple(cost(index, member) for member in members) for index in indexes),
        owner=(NOBODY,) * len(indexes),
        before=tuple(before[member] for member in members),
        low=(low,) * len(members),
        high=(high,) * len(members),
        depth=facts.depth,
        unit=len(topics),
        local_first=True,
    )
    return problem, members


def apache_order(members: Sequence[Member]) -> list[Member]:
    """As Apache's MemberInfo compares: static members first, by instance id; then by id."""
    static = sorted((m for m in members if m.instance_id is not None), key=instance_of)
    return static + sorted((m for m in members if m.instance_id is None), key=lambda m: m.id)


def instance_of(member: Member) -> str:
    """The instance id of a static member."""
    assert member.instance_id is not None
    return member.instance_id


def apache_range(members: Sequence[Member], topic: str, count: int) -> dict[str, list[int]]:
    """Apache's Range for one topic: contiguous runs, the first members one more."""
    takers = apache_order([member for member in members if topic in member.topics])
    share, rest = divmod(count, len(takers))
    found = {}
    start = 0
    for position, member in enumerate(takers):
        end = start + share + (1 if position < rest else 0)
        found[member.id] = list(range(start, end))
        start = end
    return found
