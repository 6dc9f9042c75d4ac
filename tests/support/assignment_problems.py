"""The one shape of question that both oracles answer, and the value of an answer.

A problem hands units out to members. For the sticky assignor a unit is a partition; for
the range assignor it is an index of a group of topics, worth as many partitions as the
group has topics. Everything is a small table of integers, so that brute force and flow
can work on the very same question without sharing a line of how they answer it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assignors import Member
from tests.support.assignment_facts import NOBODY, Facts, level_counts, rack_levels
from tests.support.network_oracle import components, levels, topic_classes

Value = tuple[int, ...]
"""An objective vector, most important figure first; less is better."""


@dataclass(frozen=True)
class Problem:
    """takers     per unit: the members that may have it
    costs      per unit, per member: weight that crosses each level, widest first
    owner      per unit: who has it now, or NOBODY
    before     per member: partitions it has already
    low, high  per member: how many units it must and may have
    unit       partitions per unit
    local_first  whether crossings come before the sum of squared loads
    """

    takers: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[tuple[int, ...], ...], ...]
    owner: tuple[int, ...]
    before: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    depth: int
    unit: int = 1
    local_first: bool = False


def value(problem: Problem, holders: Sequence[int]) -> Value:
    """The objective vector of an answer: squares, crossings by level, moves (or local first)."""
    loads = list(problem.before)
    crossings = [0] * problem.depth
    moved = 0
    for unit, holder in enumerate(holders):
        loads[holder] += problem.unit
        for level, cost in enumerate(problem.costs[unit][holder]):
            crossings[level] += cost
        if problem.owner[unit] not in (NOBODY, holder):
            moved += 1
    squares = sum(load * load for load in loads)
    if problem.local_first:
        return (*crossings, squares, moved)
    return (squares, *crossings, moved)


def check_bounds(problem: Problem, holders: Sequence[int]) -> None:
    """Every unit is with a taker, and every member has as many units as it must and may."""
    for unit, holder in enumerate(holders):
        assert holder in problem.takers[unit], f"unit {unit} is with {holder}, not a taker"
    for member, (low, high) in enumerate(zip(problem.low, problem.high, strict=True)):
        share = sum(1 for holder in holders if holder == member)
        assert low <= share <= high, f"member {member} has {share} units, not {low} to {high}"


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


@dataclass(frozen=True)
class Part:
    """A problem, and which cells and members of the group it is about."""

    problem: Problem
    cells: tuple[int, ...]
    members: tuple[int, ...]

    def holders(self, of_group: Sequence[int]) -> tuple[int, ...]:
        """A plan's holders (per cell of the group) in this part's own numbering."""
        position = {member: i for i, member in enumerate(self.members)}
        return tuple(position[of_group[cell]] for cell in self.cells)


def sticky_parts(facts: Facts, max_imbalance: float = 0.0) -> list[Part]:
    """The group as one problem, or with ``max_imbalance`` one per connected component."""
    everyone = frozenset(range(len(facts.members)))
    if max_imbalance == 0:
        return [part_of(facts, everyone)]
    classes = topic_classes(facts)
    level = levels(classes, everyone)
    caps = {member: math.floor(high * (1 + max_imbalance)) for member, high in level.items()}
    return [
        part_of(
            facts, inside, caps if any(caps[member] > level[member] for member in inside) else None
        )
        for _, inside in components(classes, everyone)
    ]


def part_of(facts: Facts, inside: frozenset[int], caps: dict[int, int] | None = None) -> Part:
    """The problem of the members ``inside``; with ``caps``, locality before balance."""
    members = tuple(sorted(inside))
    position = {member: i for i, member in enumerate(members)}
    cells = tuple(cell for cell, takers in enumerate(facts.takers) if inside.intersection(takers))
    problem = Problem(
        takers=tuple(tuple(position[m] for m in facts.takers[cell]) for cell in cells),
        costs=tuple(
            tuple(
                level_counts([(facts.crossed[cell][m], facts.steps[cell])], facts.depth)
                for m in members
            )
            for cell in cells
        ),
        owner=tuple(position.get(facts.owner[cell], NOBODY) for cell in cells),
        before=(0,) * len(members),
        low=(0,) * len(members),
        high=tuple(len(cells) if caps is None else caps[m] for m in members),
        depth=facts.depth,
        local_first=caps is not None,
    )
    return Part(problem, cells, members)
