"""A ring at every node of the rack tree, and the replicas that its turns hand out.

A node's ring is a circle. A child with b brokers has b marks on it, evenly spaced: a turn for
each broker below, so that in the end brokers, and not rooms, get equal shares. A pointer
starts at a random angle and goes round; the child whose mark it meets gets the replica and
passes it down its own ring. Marks of equal-sized children coincide; each lap meets such
children in the same cyclic order, from a random one on. That keeps rings from running in step
with each other, which would put the same few brokers together again and again.

A child keeps its turn, and is passed over, while it is full for this partition (every broker
below it has a replica) or has more of its replicas than another that is not. So the replicas
of one partition are spread over the children of every node as evenly as their sizes permit,
the widest level first, whatever the marks say.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from placement_core.placers.rack_tree import RackNode
from placement_core.placers.ring import NOTHING, Held, Ring
from placement_core.placers.ring_leveling import LOOK_BACK, level

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
