"""Placement over racks with levels, KIP-879."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from placement_core.cluster import ClusterView
from placement_core.placers.ring import LOOK_BACK, NOTHING, Held, Ring, level
from placement_core.placers.round_robin import SimplePlacer, known_rows, new_seed, seeded
from placement_core.placers.spec import PlacementSpec, ReplicaLists, candidates
from placement_core.plugins import read_properties
from placement_core.racks import RackPath

# ---- Rack paths as a tree whose leaves are brokers.


@dataclass(frozen=True, slots=True)
class RackNode:
    """A data centre, a room, a rack: what stands below it, and in what order.

    ``path`` is () for the root. ``children`` are nodes and, for brokers that name this very
    rack, broker ids; ``sizes`` is how many brokers stand below each child, and ``child_of``
    has the index of the child that each broker below stands under. ``outside`` has the same for
    brokers that may hold replicas and get no new ones: they count in no size.
    """

    path: RackPath
    children: tuple[RackNode | int, ...]
    sizes: tuple[int, ...]
    child_of: Mapping[int, int]
    outside: Mapping[int, int]


def rack_tree(
    racks: Mapping[int, RackPath], outside: Mapping[int, RackPath], path: RackPath = ()
) -> RackNode:
    """The tree of the brokers in ``racks``, from ``path`` down; children by name, brokers by id.

    Brokers in ``outside`` are known to the nodes that they stand below.
    """
    below: dict[str, dict[int, RackPath]] = {}
    children: list[RackNode | int] = []
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
    children.extend(rack_tree(below[name], others[name], (*path, name)) for name in names)
    return RackNode(
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


# ---- A ring at every node of the rack tree, and the replicas that its turns hand out.
#
# A node's ring is a circle. A child with b brokers has b marks on it, evenly spaced: a turn for
# each broker below, so that in the end brokers, and not rooms, get equal shares. A pointer
# starts at a random angle and goes round; the child whose mark it meets gets the replica and
# passes it down its own ring. Marks of equal-sized children coincide; each lap meets such
# children in the same cyclic order, from a random one on. That keeps rings from running in step
# with each other, which would put the same few brokers together again and again.
#
# A child keeps its turn, and is passed over, while it is full for this partition (every broker
# below it has a replica) or has more of its replicas than another that is not. So the replicas
# of one partition are spread over the children of every node as evenly as their sizes permit,
# the widest level first, whatever the marks say.

Draw = Callable[[RackNode], random.Random]
"""A generator for the ring of a node."""


def deal(
    node: RackNode,
    wants: Sequence[int],
    held: Sequence[tuple[int, ...]],
    served: Counter[int],
    draw: Draw,
) -> list[int]:
    """The brokers for a sequence of partitions, ``wants[i]`` for the i-th, one after the other.

    ``held[i]`` are brokers below ``node`` that have the i-th partition already, ``served``
    how many replicas each broker had before all this. There must be room for all.
    """
    before = [0] * len(node.children)
    for broker, count in served.items():
        if broker in node.child_of:
            before[node.child_of[broker]] += count
    ring = Ring(node.sizes, before, draw(node))
    if any(held) or max(wants, default=0) > 1:
        picks = _several_each(node, ring, wants, held)
    else:
        picks = ring.each_one(len(wants))
    brokers = [child for child in node.children if isinstance(child, int)]
    if len(brokers) == len(node.children):
        return [brokers[child] for child in picks]
    streams = [iter(stream) for stream in _streams(node, picks, wants, held, served, draw)]
    return [next(streams[child]) for child in picks]


def _several_each(
    node: RackNode, ring: Ring, wants: Sequence[int], held: Sequence[tuple[int, ...]]
) -> list[int]:
    """The child of every replica, in order of the partitions; the last ones evened out."""
    picks: list[int] = []
    split = max(0, len(wants) - LOOK_BACK * len(node.children))
    for wanted, row in zip(wants[:split], held, strict=False):
        picks += ring.several(wanted, _held(node, row))
    kept = [_held(node, row) for row in held[split:]]
    chosen = [ring.several(*both) for both in zip(wants[split:], kept, strict=True)]
    level(ring, chosen, kept)
    picks.extend(chain.from_iterable(chosen))
    return picks


def _held(node: RackNode, row: tuple[int, ...]) -> Held:
    """The children of ``node`` that the brokers of ``row`` stand below."""
    if not row:
        return NOTHING
    if not node.outside:
        return tuple(map(node.child_of.__getitem__, row)), ()
    inside = tuple([node.child_of[broker] for broker in row if broker in node.child_of])
    return inside, tuple([node.outside[broker] for broker in row if broker in node.outside])


def _streams(
    node: RackNode,
    picks: Sequence[int],
    wants: Sequence[int],
    held: Sequence[tuple[int, ...]],
    served: Counter[int],
    draw: Draw,
) -> Iterator[list[int]]:
    """What each child makes of its picks: brokers, in order."""
    visits: list[list[int]] = [[] for _ in node.children]
    next_pick = iter(picks)
    for partition, wanted in enumerate(wants):
        for child in islice(next_pick, wanted):
            visits[child].append(partition)
    for below, visited in zip(node.children, visits, strict=True):
        if isinstance(below, int):
            yield [below] * len(visited)
            continue
        partitions = Counter(visited)
        rows = [held[partition] for partition in partitions]
        inside = below.child_of.keys() | below.outside.keys()
        kept = [row and tuple(filter(inside.__contains__, row)) for row in rows]
        yield deal(below, list(partitions.values()), kept, served, draw)


@dataclass(frozen=True, slots=True)
class MultiLevelPlacer:
    """Each partition's replicas spread over the widest level first, then within each part.

    With racks such as /dc1/r1, three data centres of two racks and RF 3 a partition has a
    replica in each data centre, and the racks of each get every other one; with RF 5 two data
    centres have a replica in both of their racks. A ring at each node says who is next, from
    a start that ``seed`` draws; see rack_rings for the rule and for uneven trees.

    Leaders go round first and followers after them. So every broker leads as often as any
    other (once in as many partitions as there are brokers), a tree's unevenness notwithstanding,
    and what leaders got counts when followers are handed out.

    Partitions added to a topic, and replicas added to partitions, go where the rings stopped:
    what the topic has is counted as served.

    Where it departs from the proposal: there a partition goes on from the replica before it, so
    that with as many replicas as data centres one of these would lead everything; and a room
    with one broker has as many turns as one with nine.

    With no racks at all this is SimplePlacer. Where some brokers lack a rack it raises
    MissingRacksError, unless the spec says to ignore racks.
    """

    seed: int = field(default_factory=new_seed)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> MultiLevelPlacer:
        """From ``seed``."""
        return cls(**read_properties("multi-level", properties, seed=int))

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        """See ReplicaPlacer. Raises PlacementError and MissingRacksError."""
        among = candidates(spec, view, broker_ids)
        if not among.racks:
            return SimplePlacer(seed=self.seed).place(spec, view, broker_ids)
        inside = {broker: among.racks[broker] for broker in among.ids}
        tree = rack_tree(inside, {b: r for b, r in among.racks.items() if b not in inside})
        present = tuple(spec.row(index) for index in range(spec.partitions))
        known = known_rows(spec, view)
        leads = Counter(row[0] for row in known.values())
        led = _grown(tree, present, 1, leads, self._draw(spec, "leaders"))
        served = Counter(broker for row in known.values() for broker in row)
        served.update(row[0] for row, before in zip(led, present, strict=True) if not before)
        return _grown(tree, led, spec.replication_factor, served, self._draw(spec, "followers"))

    def _draw(self, spec: PlacementSpec, purpose: str) -> Draw:
        def draw(node: RackNode) -> random.Random:
            return seeded(self.seed, spec, purpose, node.path)

        return draw


def _grown(
    tree: RackNode, rows: ReplicaLists, least: int, served: Counter[int], draw: Draw
) -> ReplicaLists:
    """The rows, each with ``least`` replicas or as many more as it has."""
    short = [index for index, row in enumerate(rows) if len(row) < least]
    wants = [least - len(rows[index]) for index in short]
    placed = tree.child_of.keys() | tree.outside.keys()
    held = [tuple(filter(placed.__contains__, rows[index])) for index in short]
    dealt = iter(deal(tree, wants, held, served, draw))
    grown = list(rows)
    for index, wanted in zip(short, wants, strict=True):
        grown[index] += tuple(islice(dealt, wanted))
    return tuple(grown)
