"""A group as plain tables, the problem that all oracles solve, and the objective of a solution.

``read_group`` computes the tables from the documentation and not by the code under test: every
checker and oracle reads a group through it. It shares only the ``Member`` value with ``assignors``,
so that a fault there (in reading a rack, a claim, a weight) is not repeated here.

A problem assigns units to members. For the sticky assignor a unit is a partition; for the range
assignor it is an index of a group of topics, and counts as many partitions as the group has topics.
All oracles read the same small tables of integers, and share no code that solves them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from assignors import Member

UNASSIGNED = -1


@dataclass(frozen=True)
class Facts:
    """A group. A cell is a partition that has a subscriber.

    members     sorted by id; a member's number is its index
    cells       (topic, partition), sorted
    candidates  per cell: the members that subscribe to it
    owner       per cell: the member that owns it before the assignment, or UNASSIGNED
    crossed     per cell and member: how many levels lie between the leader and the member
    weights     per cell: its traffic weight, an integer (1 without weights)
    depth       levels of the deepest leader's rack; deeper levels of a member's rack do not count
    """

    members: tuple[Member, ...]
    cells: tuple[tuple[str, int], ...]
    candidates: tuple[tuple[int, ...], ...]
    owner: tuple[int, ...]
    crossed: tuple[tuple[int, ...], ...]
    weights: tuple[int, ...]
    depth: int


def rack_levels(rack: object) -> tuple[str, ...]:
    """Return the levels of a rack, widest first; empty if the rack is unknown."""
    if not isinstance(rack, str) or rack == "":
        return ()
    if rack[0] == "/":
        return tuple(part for part in rack.split("/") if part != "")
    return (rack,)


def levels_between(leader: tuple[str, ...], member: tuple[str, ...], depth: int) -> int:
    """Return how many levels are crossed from a member to a leader; 0 if the leader is unknown."""
    if leader == ():
        return 0
    if member == ():
        return depth
    if leader == member:
        return 0
    shared = 0
    while shared < min(len(leader), len(member)) and leader[shared] == member[shared]:
        shared += 1
    return depth - shared


def exact_weights(
    cells: Sequence[tuple[str, int]], weights: Mapping[str, Sequence[float]] | None
) -> tuple[int, ...]:
    """Return each cell's weight as an integer, in one unit and exactly (up to 1,000 cells).

    Unknown weights count as the mean of the others, to ten significant bits. Cells without traffic
    weigh less together than the unit of the others.
    """
    if weights is None:
        return (1,) * len(cells)
    assert len(cells) <= 1_000, "weights of more partitions are rounded"
    known: dict[tuple[str, int], float] = {}
    for topic, partition in cells:
        row = weights.get(topic, ())
        if partition < len(row) and math.isfinite(row[partition]) and row[partition] >= 0:
            known[topic, partition] = row[partition]
    heaviest = max(known.values(), default=0)
    if heaviest == 0:
        return (1,) * len(cells)
    mean = float(sum(Fraction(each / heaviest) for each in known.values())) / len(known) * heaviest
    mantissa, exponent = math.frexp(mean)
    mean = math.ldexp(round(mantissa * 1024), exponent - 10)
    exact = [Fraction(known.get(cell, mean)) for cell in cells]
    unit = math.lcm(*(each.denominator for each in exact))
    integers = [int(each * unit) for each in exact]
    unit = math.gcd(*integers)
    zeros = integers.count(0)
    return tuple(each // unit * (zeros + 1) if each else 1 for each in integers)


def owner_of(cell: tuple[str, int], members: Sequence[Member]) -> int:
    """Return the member with the only claim of the highest generation, if it subscribes."""
    topic, partition = cell
    claims = [
        (member.generation, index)
        for index, member in enumerate(members)
        if any(type(n) is int and n == partition for n in member.owned.get(topic, ()))
    ]
    if not claims:
        return UNASSIGNED
    newest = max(generation for generation, _ in claims)
    assignees = [index for generation, index in claims if generation == newest]
    if len(assignees) != 1 or topic not in members[assignees[0]].topics:
        return UNASSIGNED
    return assignees[0]


def read_group(
    members: Iterable[Member],
    leader_racks: Mapping[str, Sequence[str | None]],
    weights: Mapping[str, Sequence[float]] | None = None,
) -> Facts:
    """Return the tables of a group, whose members have distinct ids."""
    ordered = tuple(sorted(members, key=lambda member: member.id))
    subscribed = {topic for member in ordered for topic in member.topics}
    cells = tuple(
        (topic, partition)
        for topic in sorted(subscribed & set(leader_racks))
        for partition in range(len(leader_racks[topic]))
    )
    leader_levels = {cell: rack_levels(leader_racks[cell[0]][cell[1]]) for cell in cells}
    depth = max(1, *(len(levels) for levels in [*leader_levels.values(), ()]))
    member_levels = [rack_levels(member.rack)[:depth] for member in ordered]
    return Facts(
        members=ordered,
        cells=cells,
        candidates=tuple(
            tuple(i for i, member in enumerate(ordered) if topic in member.topics)
            for topic, _ in cells
        ),
        owner=tuple(owner_of(cell, ordered) for cell in cells),
        crossed=tuple(
            tuple(levels_between(leader_levels[cell], member, depth) for member in member_levels)
            for cell in cells
        ),
        weights=exact_weights(cells, weights),
        depth=depth,
    )


def level_counts(crossed: Iterable[tuple[int, int]], depth: int) -> tuple[int, ...]:
    """Return the weight that crosses each level, widest first, from (levels crossed, weight)."""
    pairs = list(crossed)
    return tuple(
        sum(weight for levels, weight in pairs if levels >= depth - level) for level in range(depth)
    )


Assignees = tuple[int, ...]
"""Per cell of the facts, the number of the member that it is assigned to."""


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
            [(facts.crossed[cell][member], facts.weights[cell]) for cell in cells], facts.depth
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
                level_counts([(facts.crossed[cell][m], facts.weights[cell])], facts.depth)
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


# ---- The balanced blocks of a group, by enumeration.
#
# ``max_imbalance`` is a share of the level of a member's block, so the tests need levels that are
# computed independently. In each connected component of topics and members, h is the average load
# rounded up. Either loads of h and h-1 alone are possible, and the component is one block of level
# h, or some set of topics is too large for its subscribers. Then the smallest set with the maximum
# excess is split off with its subscribers, and both parts are treated alike. Enumerating all sets
# of topic classes is slow, and simple enough for an oracle.

Sizes = dict[frozenset[int], int]
"""Subscribers of a class of topics to the partitions of all topics of that class."""


def topic_classes(facts: Facts) -> Sizes:
    """Return the number of partitions by set of subscribers, without empty topics."""
    sizes: Sizes = {}
    for candidates in facts.candidates:
        key = frozenset(candidates)
        sizes[key] = sizes.get(key, 0) + 1
    return sizes


def components(sizes: Sizes, members: frozenset[int]) -> Iterator[tuple[Sizes, frozenset[int]]]:
    """Yield the parts of a group that share no member, by their lowest member."""
    left = set(members)
    while left:
        inside = {min(left)}
        grown = True
        while grown:
            touching = [subscribers for subscribers in sizes if subscribers & inside]
            wider = inside.union(*touching)
            grown = wider != inside
            inside = wider
        left -= inside
        part = {subscribers: size for subscribers, size in sizes.items() if subscribers & inside}
        yield part, frozenset(inside)


def too_large(sizes: Sizes, members: int, h: int) -> tuple[set[frozenset[int]], set[int]] | None:
    """Return the classes that do not fit into loads of h and h-1, and their subscribers, or None.

    ``members * h - partitions`` blanks, at most one per member, turn "h or h-1" into "exactly h". A
    set of classes is too large if it exceeds the capacity of its subscribers, with the blanks (then
    members outside can still take one each) or without. The sets of maximum excess are closed under
    intersection; the smallest is returned.
    """
    classes = list(sizes)
    blanks = members * h - sum(sizes.values())
    max_excess = 0
    smallest: set[frozenset[int]] = set()
    for bits in range(1, 1 << len(classes)):
        chosen = {key for position, key in enumerate(classes) if bits >> position & 1}
        subscribers = len(frozenset().union(*chosen))
        size = sum(sizes[key] for key in chosen)
        excess = max(size - h * subscribers, size + blanks - members - (h - 1) * subscribers)
        if excess > max_excess:
            max_excess, smallest = excess, chosen
        elif excess == max_excess and max_excess > 0:
            smallest = smallest & chosen
    if max_excess == 0:
        return None
    return smallest, set(frozenset().union(*smallest))


def levels(sizes: Sizes, members: frozenset[int]) -> dict[int, int]:
    """Return the level of each member's block: its average load, rounded up."""
    level_of: dict[int, int] = {}
    for part, inside in components(sizes, members):
        h = -(-sum(part.values()) // len(inside))
        split = too_large(part, len(inside), h)
        if split is None:
            level_of.update(dict.fromkeys(inside, h))
            continue
        heavy, crowded = split
        level_of.update(levels({key: part[key] for key in heavy}, frozenset(crowded)))
        rest: Sizes = {}
        for key, size in part.items():
            if key not in heavy:
                outside = key - crowded
                rest[outside] = rest.get(outside, 0) + size
        level_of.update(levels(rest, inside - crowded))
    return level_of
