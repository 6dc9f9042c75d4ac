"""The ring of a node in the rack tree, which places replicas below its children in turn.

:class:`Ring` has the rule, :func:`level_last` evens out what is uneven at its end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, compress
from math import ceil

import numpy as np

from placement_core.flow import IntArray

HeldChildren = tuple[int, ...]
"""The children that have replicas of a partition already, once per replica."""

Request = tuple[int, HeldChildren]
"""How many more replicas a partition needs, and the children that have some."""

Turn = tuple[float, int, int]
"""The angle of a child's next turn, its order at that angle, and the child."""

Lap = Callable[[int, Sequence[int]], list[int]]
"""Takes children that are not excluded, up to a number of them, each once, in order of turns."""


class Ring:
    """The ring of one node of the rack tree: which child gets the next replica.

    A ring is a circle with marks. A child with b brokers below it has b marks, evenly spaced: one
    turn for each of its brokers, so that in the end brokers get equal shares, and not rooms. A
    pointer starts at a random angle and goes round. The child whose mark it meets gets the replica
    and passes it down its own ring. Marks of children with equal sizes coincide; each lap meets
    such children in the same cyclic order, beginning with a random one. That decorrelates
    rings, which would put the same few brokers together again and again otherwise.

    A child keeps its turn, and is passed over, while it is full for the partition (every broker
    below it has a replica) or has more of its replicas than another child that is not full. So the
    replicas of one partition are spread over the children as evenly as their sizes permit, whatever
    the marks say.

    Worked example: children A and B with 2 and 1 brokers, starting angle 0. A has marks at 0.25,
    0.75, 1.25 ..., B at 0.5, 1.5 ...; partitions of RF 1 go to A B A A B A ...: two thirds to A.

    A child that is passed over near the end cannot catch up any more. So :func:`level_last` evens
    out the last partitions afterwards: replicas placed last go from a child that is ahead by a
    whole turn to one that is behind, if their partition is as well spread after it.

    Partitions with replicas below the node are a matter of one after the other: who is passed over
    depends on who was before. But in a lap the same requests meet the same turns again and again.
    So :meth:`pick` takes a *block* of partitions at once, and looks up what it did when it met the
    same requests with the same turns ahead.

    ``sizes[c]`` is the number of brokers below child c, and of its marks on the circle;
    ``served[c]`` the number of turns that it has had before. ``rng`` draws the starting angle.
    """

    MIN_BLOCK = 12
    """Partitions in a block, at least: a look-up costs as much as to pick for one or two."""

    MAX_AHEAD = 16
    """Turns to look ahead for a block, at most, as a multiple of those that it uses up."""

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

    def turns(self, count: int) -> IntArray:
        """Return the children at the pointer for so many turns, if none is passed over."""
        children, size = len(self.sizes), self.sizes[0]
        if len(set(self.sizes)) > 1:
            return self._turns_by_angle(count)
        # Children of one size are all at one mark after a few turns. Then each has one in a round.
        furthest = max(self._marks)
        first = self._turns_by_angle(min(count, sum(furthest - mark for mark in self._marks)))
        rounds = -(-(count - len(first)) // children)
        offsets = self._offsets_of((furthest + np.arange(rounds)) // size)
        in_turn = (np.arange(children) - offsets[:, None]) % children
        return np.concatenate((first, in_turn.reshape(-1)))[:count]

    def _turns_by_angle(self, count: int) -> IntArray:
        sizes, marks = np.array(self.sizes), np.array(self._marks)
        # There are at least so many turns up to this angle, and one more of each child.
        laps = (count + int(marks.sum()) + len(marks)) / int(sizes.sum())
        ahead = np.maximum(np.ceil(laps * sizes).astype(np.int64) + 1 - marks, 0)
        child = np.repeat(np.arange(len(sizes)), ahead)
        mark = marks[child] + np.arange(len(child)) - np.repeat(ahead.cumsum() - ahead, ahead)
        size = sizes[child]
        at_same_angle = (child + self._offsets_of(mark // size)) % len(sizes)
        order = np.lexsort((at_same_angle, (mark + 0.5) / size))
        return child[order[:count]]

    def _offsets_of(self, laps: IntArray) -> IntArray:
        self._lap_offset(int(laps.max(initial=0)))
        return np.array(self._lap_offsets)[laps]

    def pick(self, requests: Sequence[Request], request_of: IntArray) -> IntArray:
        """Return the children for partitions, one after the other; there must be room for each.

        ``request_of`` has the index of each partition's request.
        """
        picks, done = np.empty(0, np.int64), 0
        if len(self.sizes) < 256 and len(requests) < 256:
            blocks = self._pick_in_blocks(requests, request_of)
            picks = np.frombuffer(b"".join(picked for picked, _ in blocks), np.uint8)
            done = sum(partitions for _, partitions in blocks)
        turns = np.bincount(picks, minlength=len(self.sizes)).tolist()
        self._marks = [mark + more for mark, more in zip(self._marks, turns, strict=True)]
        heap = [self._turn(child) for child in range(len(self.sizes))]
        heapify(heap)
        lap = partial(self._lap, heap)
        rest = [self._pick_one(requests[r], lap) for r in request_of[done:].tolist()]
        return np.concatenate((picks, np.array([*chain.from_iterable(rest)], np.int64)))

    def _pick_in_blocks(
        self, requests: Sequence[Request], request_of: IntArray
    ) -> list[tuple[bytes, int]]:
        """Return the picks of each block, and its number of partitions.

        The last partitions are left out if children are passed over so often that their turns fill
        the turns ahead.
        """
        children = len(self.sizes)
        counts = np.array([count for count, _ in requests])
        block = children * -(-self.MIN_BLOCK // children)
        ahead = block * int(counts.max()) + 2 * children
        max_ahead = ahead * self.MAX_AHEAD
        total = int(counts[request_of].sum())
        turns = self.turns(total + max_ahead).astype(np.uint8).tobytes()
        request_bytes = request_of.astype(np.uint8).tobytes()
        window, at = turns[:ahead], ahead
        known: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
        blocks: list[tuple[bytes, int]] = []
        for start in range(0, len(request_bytes), block):
            asked = request_bytes[start : start + block]
            while (outcome := known.get((asked, window))) is None:
                left = list(window)
                lap = partial(self._lap_ahead, left)
                try:
                    picked = [self._pick_one(requests[r], lap) for r in asked]
                except IndexError:
                    if len(window) >= max_ahead:
                        return blocks
                    at += len(window)
                    window += turns[at - len(window) : at]
                else:
                    known[asked, window] = bytes(chain.from_iterable(picked)), bytes(left)
            picks, rest = outcome
            blocks.append((picks, len(asked)))
            window = rest + turns[at : at + len(picks)]
            at += len(picks)
        return blocks

    def _pick_one(self, request: Request, lap: Lap) -> list[int]:
        """Return the children for one partition. A lap takes each at most once."""
        count, held = request
        # If some child has no replica, those that have one are excluded.
        picked = lap(count, held if len(held) < len(self.sizes) else self._excluded(held))
        while len(picked) < count:
            picked += lap(count - len(picked), self._excluded((*held, *picked)))
        return picked

    def _lap_ahead(self, ahead: list[int], count: int, excluded: Sequence[int]) -> list[int]:
        """Take up to ``count`` children that are not excluded from the turns ahead.

        Raises IndexError if these have too few of them.
        """
        picked: list[int] = []
        max_count = min(count, len(self.sizes) - len(set(excluded)))
        at = 0
        while len(picked) < max_count:
            if ahead[at] in excluded or ahead[at] in picked:
                at += 1
            else:
                picked.append(ahead.pop(at))
        return picked

    def _lap(self, heap: list[Turn], count: int, excluded: Sequence[int]) -> list[int]:
        """Return up to ``count`` children that are not excluded, each once, in order of turns."""
        marks = self._marks
        picked = []
        skipped = []
        while heap:
            child = heap[0][2]
            if child in excluded:
                skipped.append(heappop(heap))
                continue
            picked.append(child)
            marks[child] += 1
            if len(picked) == count:
                heapreplace(heap, self._turn(child))
                break
            heappop(heap)
            skipped.append(self._turn(child))
        for turn in skipped:
            heappush(heap, turn)
        return picked

    def _excluded(self, held: HeldChildren) -> Sequence[int]:
        """Return the children that are full, or have more replicas than one that is not."""
        if held not in self._excluded_by:
            counts = [held.count(child) for child in range(len(self.sizes))]
            room = [count < size for count, size in zip(counts, self.sizes, strict=True)]
            fewest = min(compress(counts, room), default=0)
            self._excluded_by[held] = [
                child for child, count in enumerate(counts) if not room[child] or count > fewest
            ]
        return self._excluded_by[held]

    def _turn(self, child: int) -> Turn:
        """Return the next turn of a child."""
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
    for children, held_before in zip(reversed(picked), reversed(held), strict=True):
        if source in children:
            everywhere = [*children, *held_before]
            replicas = everywhere.count(target)
            if replicas < ring.sizes[target] and replicas < everywhere.count(source):
                # The last replica of the source: what comes before it keeps its order.
                last = len(children) - 1 - children[::-1].index(source)
                children[last] = target
                ring.move_turn(source, target)
                return True
    return False
