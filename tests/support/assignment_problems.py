"""The problem that all oracles solve, and the objective of a solution.

A problem assigns units to members. For the sticky assignor a unit is a partition; for the range
assignor it is an index of a group of topics, and counts as many partitions as the group has topics.
All oracles read the same small tables of integers, and share no code that solves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from assignors import Member
from tests.support.assignments import UNASSIGNED, Facts, level_counts, rack_levels
from tests.support.networks import components, levels, topic_classes

Value = tuple[int, ...]
"""An objective vector, the most important figure first; lower is better."""


@dataclass(frozen=True)
class Problem:
    """The assignment of units to members.

    candidates   per unit: the members that it may be assigned to
    costs        per unit and member: the weight that crosses each level, widest first
    owner        per unit: its owner, or UNASSIGNED
    before       per member: its partitions from groups of topics before
    low, high    per member: the minimum and maximum number of its units
    unit         partitions per unit
    local_first  whether crossings rank before the sum of squared loads
    """

    candidates: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[tuple[int, ...], ...], ...]
    owner: tuple[int, ...]
    before: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    depth: int
    unit: int = 1
    local_first: bool = False


def value(problem: Problem, assignees: Sequence[int]) -> Value:
    """Return a solution's objective: squares, crossings by level, moves (or crossings first)."""
    loads = list(problem.before)
    crossings = [0] * problem.depth
    moved = 0
    for unit, assignee in enumerate(assignees):
        loads[assignee] += problem.unit
        for level, cost in enumerate(problem.costs[unit][assignee]):
            crossings[level] += cost
        if problem.owner[unit] not in (UNASSIGNED, assignee):
            moved += 1
    squares = sum(load * load for load in loads)
    if problem.local_first:
        return (*crossings, squares, moved)
    return (squares, *crossings, moved)


def check_bounds(problem: Problem, assignees: Sequence[int]) -> None:
    """Check that every unit has a candidate, and every member a permitted number of units."""
    for unit, assignee in enumerate(assignees):
        assert assignee in problem.candidates[unit], (
            f"unit {unit} is assigned to {assignee}, not a candidate"
        )
    for member, (low, high) in enumerate(zip(problem.low, problem.high, strict=True)):
        share = sum(1 for assignee in assignees if assignee == member)
        assert low <= share <= high, f"member {member} has {share} units, not {low} to {high}"


Topics = tuple[str, ...]


def topic_groups(facts: Facts, *, co_partitioned: bool = True) -> list[Topics]:
    """Return the topics with equal subscribers and partition count together, by first name."""
    if not facts.cells:
        return []
    candidates: dict[str, tuple[int, ...]] = {}
    counts: dict[str, int] = {}
    for (topic, _), members in zip(facts.cells, facts.candidates, strict=True):
        candidates[topic] = members
        counts[topic] = counts.get(topic, 0) + 1
    groups: dict[tuple[object, ...], list[str]] = {}
    for topic in sorted(candidates):
        alone = () if co_partitioned else (topic,)
        groups.setdefault((candidates[topic], counts[topic], *alone), []).append(topic)
    return [tuple(topics) for topics in groups.values()]


def load_limit(load: int, max_imbalance: float) -> int:
    """Return the highest load of a member whose balanced load is ``load``."""
    return int(load * (1 + Decimal(str(max_imbalance))))


def racks_matter(facts: Facts, topics: Topics, racks_of_leaders: Sequence[object]) -> bool:
    """Return whether one assignment of these topics can be more local than another."""
    members = [member for member in facts.members if topics[0] in member.topics]
    member_racks = {rack_levels(member.rack)[: facts.depth] for member in members}
    leader_levels = {rack_levels(rack) for rack in racks_of_leaders} - {()}
    if member_racks == {()} or not leader_levels:
        return False
    return not (len(member_racks) == 1 and member_racks == leader_levels)


def range_problem(
    facts: Facts, topics: Topics, before: Sequence[int], max_imbalance: float = 0.0
) -> tuple[Problem, tuple[int, ...]]:
    """Return the problem of one group of topics, and its members.

    ``before``: per member, its partitions from the groups before.
    """
    cell_of = {cell: i for i, cell in enumerate(facts.cells)}
    indexes = [number for topic, number in facts.cells if topic == topics[0]]
    members = facts.candidates[cell_of[topics[0], 0]]
    share, rest = divmod(len(indexes), len(members))
    ceiling = share + (1 if rest else 0)
    limit = load_limit(ceiling, max_imbalance)
    low, high = (share, ceiling) if limit == ceiling else (0, limit)

    def cost(index: int, member: int) -> tuple[int, ...]:
        cells = [cell_of[topic, index] for topic in topics]
        return level_counts(
            [(facts.crossed[cell][member], facts.steps[cell]) for cell in cells], facts.depth
        )

    candidates = tuple(range(len(members)))
    problem = Problem(
        candidates=(candidates,) * len(indexes),
        costs=tuple(tuple(cost(index, member) for member in members) for index in indexes),
        owner=(UNASSIGNED,) * len(indexes),
        before=tuple(before[member] for member in members),
        low=(low,) * len(members),
        high=(high,) * len(members),
        depth=facts.depth,
        unit=len(topics),
        local_first=True,
    )
    return problem, members


def apache_order(members: Sequence[Member]) -> list[Member]:
    """Return static members by instance id, then the others by id, as Apache's Range does."""
    static = sorted((m for m in members if m.instance_id is not None), key=instance_of)
    return static + sorted((m for m in members if m.instance_id is None), key=lambda m: m.id)


def instance_of(member: Member) -> str:
    """Return the instance id of a static member."""
    assert member.instance_id is not None
    return member.instance_id


def apache_range(members: Sequence[Member], topic: str, count: int) -> dict[str, list[int]]:
    """Return Apache's Range for one topic: contiguous runs, one more for the first members."""
    candidates = apache_order([member for member in members if topic in member.topics])
    share, rest = divmod(count, len(candidates))
    assigned = {}
    start = 0
    for position, member in enumerate(candidates):
        end = start + share + (1 if position < rest else 0)
        assigned[member.id] = list(range(start, end))
        start = end
    return assigned


@dataclass(frozen=True)
class Part:
    """A problem, and its cells and members in the group."""

    problem: Problem
    cells: tuple[int, ...]
    members: tuple[int, ...]

    def assignees(self, of_group: Sequence[int]) -> tuple[int, ...]:
        """Return the members of this part's cells in its numbering, from those of all cells."""
        position = {member: i for i, member in enumerate(self.members)}
        return tuple(position[of_group[cell]] for cell in self.cells)


def sticky_parts(facts: Facts, max_imbalance: float = 0.0) -> list[Part]:
    """Return the group as one problem, or with ``max_imbalance`` one per component."""
    all_members = frozenset(range(len(facts.members)))
    if max_imbalance == 0:
        return [part_of(facts, all_members)]
    classes = topic_classes(facts)
    level = levels(classes, all_members)
    limits = {member: load_limit(load, max_imbalance) for member, load in level.items()}
    return [
        part_of(
            facts,
            inside,
            limits if any(limits[member] > level[member] for member in inside) else None,
        )
        for _, inside in components(classes, all_members)
    ]


def part_of(facts: Facts, inside: frozenset[int], limits: dict[int, int] | None = None) -> Part:
    """Return the problem of the members ``inside``; with ``limits``, crossings rank first."""
    members = tuple(sorted(inside))
    position = {member: i for i, member in enumerate(members)}
    cells = tuple(
        cell for cell, candidates in enumerate(facts.candidates) if inside.intersection(candidates)
    )
    problem = Problem(
        candidates=tuple(tuple(position[m] for m in facts.candidates[cell]) for cell in cells),
        costs=tuple(
            tuple(
                level_counts([(facts.crossed[cell][m], facts.steps[cell])], facts.depth)
                for m in members
            )
            for cell in cells
        ),
        owner=tuple(position.get(facts.owner[cell], UNASSIGNED) for cell in cells),
        before=(0,) * len(members),
        low=(0,) * len(members),
        high=tuple(len(cells) if limits is None else limits[m] for m in members),
        depth=facts.depth,
        local_first=limits is not None,
    )
    return Part(problem, cells, members)
