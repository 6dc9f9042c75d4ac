"""Placement over racks with levels (KIP-879): spread over the widest level first, then within.

Goal. Each partition's replicas over as many data centres as there are, then over as many rooms of
each, then racks, then brokers; and leaders, as well as replicas, even over brokers, whatever the
shape of the tree.

Algorithm. The rack paths of the brokers form a tree whose leaves are brokers. Each node has a
`Ring` over its children, which picks the child for each
replica; the child's own ring picks the next one down, until a broker is reached.

1. Leaders are placed first, one round for all partitions, so that every broker leads equally often
   (once in as many partitions as there are brokers), however uneven the tree is.
2. Then followers, with the leaders counted as turns that their brokers have had.
3. Partitions added to a topic, and replicas added to partitions, continue where the rings stopped:
   the replicas that the topic has are counted as turns too.

Worked example: brokers 0 to 5 in /dc1/r1, /dc1/r2, /dc2/r1, /dc2/r2, /dc3/r1, /dc3/r2, RF 3, seed
1. Each partition has one replica per data centre, and each broker leads one of six::

    partitions 0 to 5     035  314  420  513  142  250
    partitions 6 to 11    512  153  204  413  052  304

With RF 5, two of the three data centres have a replica in both of their racks.

Differences to the proposal. There, each replica advances the pointer from the replica before it, so
that with as many replicas as data centres one of these would lead everything; and a room with one
broker has as many turns as one with nine.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, islice
from math import ceil

from placement_core.cluster import ClusterView
from placement_core.placers.round_robin import SimplePlacer, existing_rows, new_seed, topic_rng
from placement_core.placers.spec import PlacementSpec, ReplicaLists, candidates
from placement_core.plugins import read_properties
from placement_core.racks import RackPath

HeldChildren = tuple[tuple[int, ...], tuple[int, ...]]
"""The children that have replicas of a partition already, once per replica: first those on brokers
that count in the ring's sizes, then those on other brokers below the same children, which get no
new replicas."""

NONE_HELD: HeldChildren = ((), ())

LAST_PARTITIONS = 8
"""The number of last partitions, per child of the node, that :func:`level_last` may change."""


class Ring:
    """The ring of one node of the rack tree: which child gets the next replica.

    A ring is a circle with marks. A child with b brokers below it has b marks, evenly spaced: one
    turn for each of its brokers, so that in the end brokers get equal shares, and not rooms. A
    pointer starts at a random angle and goes round. The child whose mark it meets gets the replica
    and passes it down its own ring. Marks of children with equal sizes coincide; each lap meets
    such children in the same cyclic order, beginning with a random one. That keeps rings from
    running in step, which would put the same few brokers together again and again.

    A child keeps its turn, and is passed over, while it is full for the partition (every broker
    below it has a replica) or has more of its replicas than another child that is not full. So the
    replicas of one partition are spread over the children as evenly as their sizes permit, whatever
    the marks say.

    Worked example: children A and B with 2 and 1 brokers, starting angle 0. A has marks at 0.25,
    0.75, 1.25 ..., B at 0.5, 1.5 ...; partitions of RF 1 go to A B A A B A ...: two thirds to A.

    A child that is passed over near the end cannot catch up any more. So :func:`level_last` evens
    out the last partitions afterwards: replicas placed last go from a child that is ahead by a
    whole turn to one that is behind, if their partition is as well spread after it.

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


@dataclass(frozen=True, slots=True)
class MultiLevelPlacer:
    """Spreads each partition's replicas over the widest level of the racks first, then within.

    ``seed`` decides where the rings start. Partitions added to a topic and replicas added to
    partitions continue where the rings stopped.

    If no broker has a rack, this is SimplePlacer. If only some brokers have one it raises
    MissingRacksError, unless the spec ignores racks.

    The rule and a worked table are in :mod:`placement_core.placers.multi_level`.
    """

    seed: int = field(default_factory=new_seed)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MultiLevelPlacer:
        """Construct from ``seed``. Raises InvalidOptionError."""
        return cls(**read_properties("multi-level", properties, seed=int))

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError, of which MissingRacksError is one."""
        among = candidates(spec, view, broker_ids)
        if not among.racks:
            return SimplePlacer(seed=self.seed).place(spec, view, broker_ids)
        inside = {broker: among.racks[broker] for broker in among.ids}
        tree = TreeNode.build(inside, {b: r for b, r in among.racks.items() if b not in inside})
        present = tuple(spec.present_replicas(index) for index in range(spec.partitions))
        existing = existing_rows(spec, view)
        leads = Counter(row[0] for row in existing.values())
        led = _extend(tree, present, 1, leads, self._node_rng(spec, "leaders"))
        served = Counter(broker for row in existing.values() for broker in row)
        served.update(row[0] for row, before in zip(led, present, strict=True) if not before)
        return _extend(
            tree, led, spec.replication_factor, served, self._node_rng(spec, "followers")
        )

    def _node_rng(self, spec: PlacementSpec, purpose: str) -> NodeRng:
        def rng_for_node(node: TreeNode) -> random.Random:
            return topic_rng(self.seed, spec, purpose, node.path)

        return rng_for_node


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A data centre, room or rack with what is below it.

    path
        The levels down to this node, () for the root.
    children
        Nodes, and the ids of brokers in this very rack.
    sizes
        Per child, the number of brokers below it.
    child_of
        The index of the child that each broker below stands under.
    outside
        The same for brokers that may hold replicas and get no new ones. They count in no size.
    """

    path: RackPath
    children: tuple[TreeNode | int, ...]
    sizes: tuple[int, ...]
    child_of: Mapping[int, int]
    outside: Mapping[int, int]

    @classmethod
    def build(
        cls, racks: Mapping[int, RackPath], outside: Mapping[int, RackPath], path: RackPath = ()
    ) -> TreeNode:
        """Return the tree of the brokers in ``racks`` from ``path`` down.

        Brokers come first, by id, then nodes, by name. Brokers in ``outside`` are known to the
        nodes that they stand below.
        """
        below: dict[str, dict[int, RackPath]] = {}
        children: list[TreeNode | int] = []
        for broker in sorted(racks):
            if len(racks[broker]) == len(path):
                children.append(broker)
            else:
                below.setdefault(racks[broker][len(path)], {})[broker] = racks[broker]
        names = sorted(below)
        number = {name: index for index, name in enumerate(names, len(children))}
        others: dict[str, dict[int, RackPath]] = {name: {} for name in names}
        for broker, rack in outside.items():
            if len(rack) > len(path) and rack[len(path)] in others:
                others[rack[len(path)]][broker] = rack
        children.extend(cls.build(below[name], others[name], (*path, name)) for name in names)
        return cls(
            path,
            tuple(children),
            tuple(1 if isinstance(child, int) else len(child.child_of) for child in children),
            {
                broker: index
                for index, child in enumerate(children)
                for broker in ((child,) if isinstance(child, int) else child.child_of)
            },
            {broker: number[name] for name, group in others.items() for broker in group},
        )


NodeRng = Callable[[TreeNode], random.Random]
"""Returns the random generator for the ring of a node."""


def _extend(
    tree: TreeNode, rows: ReplicaLists, length: int, served: Counter[int], rng_for_node: NodeRng
) -> ReplicaLists:
    """Return the rows, each extended to ``length`` replicas if it has fewer."""
    short = [index for index, row in enumerate(rows) if len(row) < length]
    counts = [length - len(rows[index]) for index in short]
    known = tree.child_of.keys() | tree.outside.keys()
    held = [tuple(filter(known.__contains__, rows[index])) for index in short]
    brokers = iter(_distribute(tree, counts, held, served, rng_for_node))
    extended = list(rows)
    for index, count in zip(short, counts, strict=True):
        extended[index] += tuple(islice(brokers, count))
    return tuple(extended)


def _distribute(
    node: TreeNode,
    counts: Sequence[int],
    held: Sequence[tuple[int, ...]],
    served: Counter[int],
    rng_for_node: NodeRng,
) -> list[int]:
    """Return the brokers below ``node`` for a sequence of partitions, one after the other.

    ``counts[i]`` is the number of replicas that the i-th partition needs, ``held[i]`` the brokers
    below the node that have it already, ``served`` the number of replicas that each broker had
    before. There must be room for all.
    """
    before = [0] * len(node.children)
    for broker, count in served.items():
        if broker in node.child_of:
            before[node.child_of[broker]] += count
    ring = Ring(node.sizes, before, rng_for_node(node))
    if any(held) or max(counts, default=0) > 1:
        picks = _pick_several(node, ring, counts, held)
    else:
        picks = ring.pick_one_each(len(counts))
    brokers = [child for child in node.children if isinstance(child, int)]
    if len(brokers) == len(node.children):
        return [brokers[child] for child in picks]
    streams = [iter(stream) for stream in _streams(node, picks, counts, held, served, rng_for_node)]
    return [next(streams[child]) for child in picks]


def _pick_several(
    node: TreeNode, ring: Ring, counts: Sequence[int], held: Sequence[tuple[int, ...]]
) -> list[int]:
    """Return the child of every replica, in order of the partitions, the last ones leveled."""
    picks: list[int] = []
    split = max(0, len(counts) - LAST_PARTITIONS * len(node.children))
    for count, row in zip(counts[:split], held, strict=False):
        picks += ring.pick(count, _held_children(node, row))
    last_held = [_held_children(node, row) for row in held[split:]]
    last_picks = [ring.pick(*pair) for pair in zip(counts[split:], last_held, strict=True)]
    level_last(ring, last_picks, last_held)
    picks.extend(chain.from_iterable(last_picks))
    return picks


def _held_children(node: TreeNode, row: tuple[int, ...]) -> HeldChildren:
    """Return the children of ``node`` that the brokers of ``row`` stand below."""
    if not row:
        return NONE_HELD
    if not node.outside:
        return tuple(map(node.child_of.__getitem__, row)), ()
    inside = tuple([node.child_of[broker] for broker in row if broker in node.child_of])
    return inside, tuple([node.outside[broker] for broker in row if broker in node.outside])


def _streams(
    node: TreeNode,
    picks: Sequence[int],
    counts: Sequence[int],
    held: Sequence[tuple[int, ...]],
    served: Counter[int],
    rng_for_node: NodeRng,
) -> Iterator[list[int]]:
    """Yield for each child the brokers of its replicas, in order of the partitions."""
    visits: list[list[int]] = [[] for _ in node.children]
    next_pick = iter(picks)
    for partition, count in enumerate(counts):
        for child in islice(next_pick, count):
            visits[child].append(partition)
    for child_node, visited in zip(node.children, visits, strict=True):
        if isinstance(child_node, int):
            yield [child_node] * len(visited)
            continue
        partitions = Counter(visited)
        rows = [held[partition] for partition in partitions]
        below = child_node.child_of.keys() | child_node.outside.keys()
        held_below = [row and tuple(filter(below.__contains__, row)) for row in rows]
        yield _distribute(child_node, list(partitions.values()), held_below, served, rng_for_node)
