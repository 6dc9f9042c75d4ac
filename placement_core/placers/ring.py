"""The ring of one node of the rack tree: which child gets the next replica.

A ring is a circle with marks. A child with b brokers below it has b marks, evenly spaced: one turn
for each of its brokers, so that in the end brokers get equal shares, and not rooms. A pointer
starts at a random angle and goes round. The child whose mark it meets gets the replica and passes
it down its own ring. Marks of children with equal sizes coincide; each lap meets such children in
the same cyclic order, beginning with a random one. That keeps rings from running in step, which
would put the same few brokers together again and again.

A child keeps its turn, and is passed over, while it is full for the partition (every broker below
it has a replica) or has more of its replicas than another child that is not full. So the replicas
of one partition are spread over the children as evenly as their sizes permit, whatever the marks
say.

Worked example: children A and B with 2 and 1 brokers, starting angle 0. A has marks at 0.25, 0.75,
1.25 ..., B at 0.5, 1.5 ...; partitions of RF 1 go to A B A A B A ...: two thirds to A.

A child that is passed over near the end cannot catch up any more. So :func:`level_last` evens out
the last partitions afterwards: replicas placed last go from a child that is ahead by a whole turn
to one that is behind, if their partition is as well spread after it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import ceil

HeldChildren = tuple[tuple[int, ...], tuple[int, ...]]
"""The children that have replicas of a partition already, once per replica: first those on brokers
that count in the ring's sizes, then those on other brokers below the same children, which get no
new replicas."""

NONE_HELD: HeldChildren = ((), ())

LAST_PARTITIONS = 8
"""The number of last partitions, per child of the node, that :func:`level_last` may change."""


class Ring:
    """The turns of the children of one node.

    ``sizes[c]`` is the number of brokers below child c, and of its marks on the circle;
    ``served[c]`` the number of turns that it has had before. ``rng`` draws the starting angle.
    """

    def __init__(self, sizes: Sequence[int], served: Sequence[int], rng: random.Random) -> None:
        self.sizes = sizes
        self._rng = rng
        self._lap_offsets: list[int] = []
        # Needed only if a partition has at least as many replicas as the node has children: few
        # children, and few combinations of them.
        self._excluded_by: dict[HeldChildren, list[int]] = {}
        angle = rng.random()
        self._marks = [
            ceil(angle * size - 0.5) + before for size, before in zip(sizes, served, strict=True)
        ]
        self._heap = [self._turn(child) for child in range(len(sizes))]
        heapify(self._heap)

    def last_turn(self, child: int) -> float:
        """Return the angle, in laps, of the child's latest turn."""
        return (self._marks[child] - 0.5) / self.sizes[child]

    def next_turn(self, child: int) -> float:
        """Return the angle, in laps, of the child's next turn."""
        return (self._marks[child] + 0.5) / self.sizes[child]

    def move_turn(self, source: int, target: int) -> None:
        """Count one turn less for ``source`` and one more for ``target``, after all is placed."""
        self._marks[source] -= 1
        self._marks[target] += 1

    def pick_one_each(self, partitions: int) -> list[int]:
        """Return the child for each of ``partitions`` that have no replica and need one."""
        if len(set(self.sizes)) > 1:
            return self._advance(partitions)
        furthest = max(self._marks)
        picked = self._advance(min(partitions, sum(furthest - mark for mark in self._marks)))
        children = len(self.sizes)
        # All children are at one mark now if partitions are left: whole laps need no heap.
        laps = (partitions - len(picked)) // children
        for mark in range(furthest, furthest + laps):
            first = -self._lap_offset(mark // self.sizes[0]) % children
            picked.extend(range(first, children))
            picked.extend(range(first))
        if laps:
            self._marks = [furthest + laps] * children
            self._heap = sorted(map(self._turn, range(children)))
        return picked + self._advance(partitions - len(picked))

    def _advance(self, turns: int) -> list[int]:
        """Return the children at the pointer for so many turns."""
        heap, marks, turn = self._heap, self._marks, self._turn
        picked = []
        for _ in range(turns):
            child = heap[0][2]
            marks[child] += 1
            heapreplace(heap, turn(child))
            picked.append(child)
        return picked

    def pick(self, count: int, held: HeldChildren) -> list[int]:
        """Return the children for ``count`` more replicas of a partition; there must be room."""
        inside, outside = held
        all_held = inside + outside if outside else inside
        # If some child has no replica, those that have one are excluded.
        few = len(all_held) < len(self._marks)
        picked = self._lap(count, all_held if few else self._excluded(inside, outside))
        while len(picked) < count:
            excluded = self._excluded((*inside, *picked), outside)
            picked += self._lap(count - len(picked), excluded)
        return picked

    def _lap(self, count: int, excluded: Sequence[int]) -> list[int]:
        """Return up to ``count`` children that are not excluded, each once, in order of turns."""
        heap, marks = self._heap, self._marks
        picked = []
        aside = []
        while heap:
            child = heap[0][2]
            if child in excluded:
                aside.append(heappop(heap))
                continue
            picked.append(child)
            marks[child] += 1
            if len(picked) == count:
                heapreplace(heap, self._turn(child))
                break
            heappop(heap)
            aside.append(self._turn(child))
        for turn in aside:
            heappush(heap, turn)
        return picked

    def _excluded(self, inside: tuple[int, ...], outside: tuple[int, ...]) -> Sequence[int]:
        """Return the children that are full, or have more replicas than one that is not."""
        if (inside, outside) not in self._excluded_by:
            counts = [inside.count(c) + outside.count(c) for c in range(len(self.sizes))]
            not_full = [c for c, size in enumerate(self.sizes) if inside.count(c) < size]
            fewest = min((counts[child] for child in not_full), default=0)
            allowed = {child for child in not_full if counts[child] == fewest}
            self._excluded_by[inside, outside] = [c for c in range(len(counts)) if c not in allowed]
        return self._excluded_by[inside, outside]

    def _turn(self, child: int) -> tuple[float, int, int]:
        """Return the heap entry of a child: its next angle, its order at that angle, the child."""
        mark, size = self._marks[child], self.sizes[child]
        lap = mark // size
        offsets = self._lap_offsets
        offset = offsets[lap] if lap < len(offsets) else self._lap_offset(lap)
        return (mark + 0.5) / size, (child + offset) % len(self.sizes), child

    def _lap_offset(self, lap: int) -> int:
        """Return by how much the order of children at one angle is rotated in a lap."""
        offsets = self._lap_offsets
        while lap >= len(offsets):
            offsets.append(self._rng.randrange(len(self.sizes)))
        return offsets[lap]


def level_last(ring: Ring, picked: Sequence[list[int]], held: Sequence[HeldChildren]) -> None:
    """Change ``picked``, the children of the last partitions, until no child is a turn ahead.

    ``held`` has the children of the replicas that those partitions had before, which stay.
    """
    while any(_move_one(ring, picked, held, *pair) for pair in _uneven_pairs(ring)):
        pass


def _uneven_pairs(ring: Ring) -> list[tuple[int, int]]:
    """Return children that are ahead with one that is behind by a whole turn, worst first."""
    children = range(len(ring.sizes))
    behind = min(map(ring.next_turn, children))
    ahead = max(map(ring.last_turn, children))
    sources = [child for child in children if ring.last_turn(child) > behind]
    targets = [child for child in children if ring.next_turn(child) < ahead]
    pairs = [
        (ring.next_turn(target) - ring.last_turn(source), source, target)
        for source in sources
        for target in targets
    ]
    return [(source, target) for gap, source, target in sorted(pairs) if gap < 0]


def _move_one(
    ring: Ring,
    picked: Sequence[list[int]],
    held: Sequence[HeldChildren],
    source: int,
    target: int,
) -> bool:
    """Move one replica from ``source`` to ``target`` if a partition permits it; return whether."""
    for children, (held_inside, held_outside) in zip(reversed(picked), reversed(held), strict=True):
        if source in children:
            inside = [*children, *held_inside]
            everywhere = [*inside, *held_outside]
            has_room = inside.count(target) < ring.sizes[target]
            if has_room and everywhere.count(target) < everywhere.count(source):
                # The last replica of the source: what comes before it keeps its order.
                last = len(children) - 1 - children[::-1].index(source)
                children[last] = target
                ring.move_turn(source, target)
                return True
    return False
