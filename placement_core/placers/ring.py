"""The ring of one node of the rack tree; rack_rings says what it is for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import ceil

Held = tuple[tuple[int, ...], tuple[int, ...]]
"""The children that have replicas of a partition already, once for each replica: first on brokers
that count in the ring's sizes, then on others, below the same children, that get no new ones."""

NOTHING: Held = ((), ())


class Ring:
    """Whose turn it is among the children of a node.

    ``sizes[c]`` is the number of brokers below child c, and of its marks on the circle;
    ``served[c]`` how many turns it has had before. ``draw`` says where the pointer starts.
    """

    def __init__(self, sizes: Sequence[int], served: Sequence[int], draw: random.Random) -> None:
        self.sizes = sizes
        self._draw = draw
        self._offsets: list[int] = []
        # Asked for only where a partition has as many replicas as there are children, or more:
        # few children, and few ways to hold them.
        self._barred_by: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        angle = draw.random()
        self._marks = [
            ceil(angle * size - 0.5) + before for size, before in zip(sizes, served, strict=True)
        ]
        self._heap = [self._turn(child) for child in range(len(sizes))]
        heapify(self._heap)

    def last_turn(self, child: int) -> float:
        """The angle, whole laps included, at which the child had its latest turn."""
        return (self._marks[child] - 0.5) / self.sizes[child]

    def next_turn(self, child: int) -> float:
        """The angle at which the child has its next turn."""
        return (self._marks[child] + 0.5) / self.sizes[child]

    def pass_turn(self, giver: int, taker: int) -> None:
        """Count one turn less for ``giver`` and one more for ``taker``, after all is dealt."""
        self._marks[giver] -= 1
        self._marks[taker] += 1

    def each_one(self, partitions: int) -> list[int]:
        """The children for as many partitions as said, which have nothing and want one each."""
        if len(set(self.sizes)) > 1:
            return self._turns(partitions)
        most = max(self._marks)
        picked = self._turns(min(partitions, sum(most - mark for mark in self._marks)))
        children = len(self.sizes)
        # All are at one mark now, if partitions are left: whole rounds need no heap.
        rounds = (partitions - len(picked)) // children
        for mark in range(most, most + rounds):
            first = -self._offset(mark // self.sizes[0]) % children
            picked.extend(range(first, children))
            picked.extend(range(first))
        if rounds:
            self._marks = [most + rounds] * children
            self._heap = sorted(map(self._turn, range(children)))
        return picked + self._turns(partitions - len(picked))

    def _turns(self, count: int) -> list[int]:
        """The children at the pointer, one after the other."""
        heap, marks, turn = self._heap, self._marks, self._turn
        picked = []
        for _ in range(count):
            child = heap[0][2]
            marks[child] += 1
            heapreplace(heap, turn(child))
            picked.append(child)
        return picked

    def several(self, wanted: int, held: Held) -> list[int]:
        """The children for ``wanted`` more replicas of a partition. There must be room."""
        inside, outside = held
        all_held = inside + outside if outside else inside
        # Where some child has nothing, those that have something are barred.
        few = len(all_held) < len(self._marks)
        picked = self._round(wanted, all_held if few else self._barred(inside, outside))
        while len(picked) < wanted:
            barred = self._barred((*inside, *picked), outside)
            picked += self._round(wanted - len(picked), barred)
        return picked

    def _round(self, wanted: int, barred: Sequence[int]) -> list[int]:
        """Once round, or until as many as wanted are picked: each child once that is not barred."""
        heap, marks = self._heap, self._marks
        picked = []
        aside = []
        while heap:
            child = heap[0][2]
            if child in barred:
                aside.append(heappop(heap))
                continue
            picked.append(child)
            marks[child] += 1
            if len(picked) == wanted:
                heapreplace(heap, self._turn(child))
                break
            # Nobody twice in a round.
            heappop(heap)
            aside.append(self._turn(child))
        for turn in aside:
            heappush(heap, turn)
        return picked

    def _barred(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Sequence[int]:
        """The children that are full, or have more of the partition than one that is not."""
        if (inside, outside) not in self._barred_by:
            has = [inside.count(c) + outside.count(c) for c in range(len(self.sizes))]
            room = [c for c, size in enumerate(self.sizes) if inside.count(c) < size]
            least = min((has[child] for child in room), default=0)
            next_ones = {child for child in room if has[child] == least}
            self._barred_by[inside, outside] = [c for c in range(len(has)) if c not in next_ones]
        return self._barred_by[inside, outside]

    def _turn(self, child: int) -> tuple[float, int, int]:
        """When the child is next; among children of one mark, who is first; the child."""
        mark, size = self._marks[child], self.sizes[child]
        lap = mark // size
        offset = self._offsets[lap] if lap < len(self._offsets) else self._offset(lap)
        return (mark + 0.5) / size, (child + offset) % len(self.sizes), child

    def _offset(self, lap: int) -> int:
        """By how much the order of children of one mark is turned in that lap."""
        offsets = self._offsets
        while lap >= len(offsets):
            offsets.append(self._draw.randrange(len(self.sizes)))
        return offsets[lap]


# ---- The last unevenness of a ring, taken out.
#
# A child that is passed over near the end cannot be made up for any more. What is uneven by a
# turn or two then is evened out afterwards: replicas dealt last go from a child that is ahead to
# one that is behind, wherever their partition is as well spread after it.

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
