"""A group as plain tables, computed from the documentation and not by the code under test.

Every checker and oracle of these tests reads a group through ``read_group``. It shares only the
``Member`` value with ``assignors`` and ``placement_core``, so that a fault there (in reading a
rack, a claim, a weight) is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignors import Member

WEIGHT_STEPS = 100
UNASSIGNED = -1


@dataclass(frozen=True)
class Facts:
    """A group. A cell is a partition that has a subscriber.

    members     sorted by id; a member's number is its index
    cells       (topic, partition), sorted
    candidates  per cell: the members that subscribe to it
    owner       per cell: the member that owns it before the assignment, or UNASSIGNED
    crossed     per cell and member: how many levels lie between the leader and the member
    steps       per cell: its traffic weight in steps (1 without weights)
    depth       levels of the deepest leader's rack; deeper levels of a member's rack do not count
    """

    members: tuple[Member, ...]
    cells: tuple[tuple[str, int], ...]
    candidates: tuple[tuple[int, ...], ...]
    owner: tuple[int, ...]
    crossed: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
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


def weight_steps(
    cells: Sequence[tuple[str, int]], weights: Mapping[str, Sequence[float]] | None
) -> tuple[int, ...]:
    """Return each cell's weight in steps of a hundredth of the heaviest."""
    if weights is None:
        return (1,) * len(cells)
    known: dict[tuple[str, int], float] = {}
    for topic, partition in cells:
        row = weights.get(topic, ())
        if partition < len(row) and math.isfinite(row[partition]) and row[partition] >= 0:
            known[topic, partition] = row[partition]
    if not known or max(known.values()) == 0:
        return (1,) * len(cells)
    heaviest = max(known.values())
    mean = sum(known.values()) / len(known)
    return tuple(max(1, round(known.get(cell, mean) / heaviest * WEIGHT_STEPS)) for cell in cells)


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
        steps=weight_steps(cells, weights),
        depth=depth,
    )


def level_counts(crossed: Iterable[tuple[int, int]], depth: int) -> tuple[int, ...]:
    """Return the weight that crosses each level, widest first, from (levels crossed, weight)."""
    pairs = list(crossed)
    return tuple(
        sum(weight for levels, weight in pairs if levels >= depth - level) for level in range(depth)
    )
