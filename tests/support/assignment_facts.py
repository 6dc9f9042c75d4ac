"""The contract's words turned into plain tables, slowly and without the code under test.

Every checker and oracle of these tests reads a group through ``read_group``. It shares
nothing with ``assignors`` or ``placement_core`` but the ``Member`` value, so that a
misreading there (of a rack id, a claim, a weight) cannot hide here as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assignors import Member

WEIGHT_STEPS = 100
NOBODY = -1


@dataclass(frozen=True)
class Facts:
    """A group, cell by cell: a cell is one partition that somebody subscribes to.

    members  sorted by id; everything else names them by their index in it
    cells    (topic, partition), sorted
    takers   per cell: the members subscribed to it
    owner    per cell: the member it belongs to before the assignment, or NOBODY
    crossed  per cell, per member: how many levels lie between the leader and the member
    steps    per cell: its traffic weight in steps (1 each where no weights are given)
    depth    levels of the deepest rack in sight
    """

    members: tuple[Member, ...]
    cells: tuple[tuple[str, int], ...]
    takers: tuple[tuple[int, ...], ...]
    owner: tuple[int, ...]
    crossed: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]
    depth: int


def rack_levels(rack: object) -> tuple[str, ...]:
    """The levels of a rack id, widest first; empty where the rack is not known."""
    if not isinstance(rack, str) or rack == "":
        return ()
    if rack[0] == "/":
        return tuple(part for part in rack.split("/") if part != "")
    return (rack,)


def levels_between(leader: tuple[str, ...], member: tuple[str, ...], depth: int) -> int:
    """How many levels are crossed from a member to a leader; a lost leader costs nothing."""
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
    """Each cell's weight in steps of a hundredth of the heaviest."""
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
    """Whom a partition belongs to: the one claim of the highest generation, if subscribed."""
    topic, partition = cell
    claims = [
        (member.generation, index)
        for index, member in enumerate(members)
        if any(type(n) is int and n == partition for n in member.owned.get(topic, ()))
    ]
    if not claims:
        return NOBODY
    newest = max(generation for generation, _ in claims)
    holders = [index for generation, index in claims if generation == newest]
    if len(holders) != 1 or topic not in members[holders[0]].topics:
        return NOBODY
    return holders[0]


def read_group(
    members: Iterable[Member],
    leader_racks: Mapping[str, Sequence[str | None]],
    weights: Mapping[str, Sequence[float]] | None = None,
) -> Facts:
    """The tables of a group. Two members of one id are the caller's mistake."""
    ordered = tuple(sorted(members, key=lambda member: member.id))
    subscribed = {topic for member in ordered for topic in member.topics}
    cells = tuple(
        (topic, partition)
        for topic in sorted(subscribed & set(leader_racks))
        for partition in range(len(leader_racks[topic]))
    )
    stands = [rack_levels(member.rack) for member in ordered]
    leads = {cell: rack_levels(leader_racks[cell[0]][cell[1]]) for cell in cells}
    depth = max(1, *(len(levels) for levels in [*stands, *leads.values(), ()]))
    return Facts(
        members=ordered,
        cells=cells,
        takers=tuple(
            tuple(i for i, member in enumerate(ordered) if topic in member.topics)
            for topic, _ in cells
        ),
        owner=tuple(owner_of(cell, ordered) for cell in cells),
        crossed=tuple(
            tuple(levels_between(leads[cell], stand, depth) for stand in stands) for cell in cells
        ),
        steps=weight_steps(cells, weights),
        depth=depth,
    )


def level_counts(crossed: Iterable[tuple[int, int]], depth: int) -> tuple[int, ...]:
    """From (levels crossed, weight) pairs, the weight that crosses each level, widest first."""
    pairs = list(crossed)
    return tuple(
        sum(weight for levels, weight in pairs if levels >= depth - level) for level in range(depth)
    )
