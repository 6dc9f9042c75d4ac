"""The last unevenness of a ring, taken out.

A child that is passed over near the end cannot be made up for any more. What is uneven by a
turn or two then is evened out afterwards: replicas dealt last go from a child that is ahead to
one that is behind, wherever their partition is as well spread after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from placement_core.placers.ring import Held, Ring

LOOK_BACK = 8
"""How many of the last partitions are to be looked at, for each child of the node."""


def level(ring: Ring, chosen: Sequence[list[int]], held: Sequence[Held]) -> None:
    """Change ``chosen``, the children picked for the last partitions, until nobody is ahead.

    ``held`` has the children of the replicas that those partitions had before: they stay.
    """
    while any(_step(ring, chosen, held, *pair) for pair in _uneven(ring)):
        pass


def _uneven(ring: Ring) -> list[tuple[int, int]]:
    """Children ahead, each with one that is behind it by a whole turn, the worst first."""
    children = range(len(ring.sizes))
    behind = min(map(ring.next_turn, children))
    ahead = max(map(ring.last_turn, children))
    givers = [child for child in children if ring.last_turn(child) > behind]
    takers = [child for child in children if ring.next_turn(child) < ahead]
    pairs = [
        (ring.next_turn(taker) - ring.last_turn(giver), giver, taker)
        for giver in givers
        for taker in takers
    ]
    return [(giver, taker) for gap, giver, taker in sorted(pairs) if gap < 0]


def _step(
    ring: Ring,
    chosen: Sequence[list[int]],
    held: Sequence[Held],
    giver: int,
    taker: int,
) -> bool:
    """Let ``taker`` have one of the replicas of ``giver``, and say whether that was possible."""
    for picked, kept in zip(reversed(chosen), reversed(held), strict=True):
        if giver in picked:
            inside = [*picked, *kept[0]]
            everywhere = [*inside, *kept[1]]
            room = inside.count(taker) < ring.sizes[taker]
            if room and everywhere.count(taker) < everywhere.count(giver):
                # The last one: what comes before it stays in order of need.
                last = len(picked) - 1 - picked[::-1].index(giver)
                picked[last] = taker
                ring.pass_turn(giver, taker)
                return True
    return False
