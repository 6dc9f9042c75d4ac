"""The minimum and maximum number of replicas of a partition in each rack, at every level.

The rule, from the widest level down: the replicas below a node are as even over its children as
the numbers of brokers below these permit. With at least as many racks as replicas that is "at most
one per rack"; with fewer racks "at least one per rack, and floor or ceiling".

The rule as bounds. Replicas are distributed over children like water into vessels: every child is
at a level ``h`` or ``h - 1``, or full. With racks of 1, 2 and 3 brokers::

    replicas   1     2     3     4     5     6
    rack of 1  0..1  0..1  1..1  1..1  1..1  1..1
    rack of 2  0..1  0..1  1..1  1..2  2..2  2..2
    rack of 3  0..1  0..1  1..1  1..2  2..2  3..3

A child that one layout brings to ``h`` may be at ``h - 1`` in another, so a node has a *range* of
replicas, never wider than one. For a node that may have ``s`` or ``s + 1``, the ranges of its
children reach from their minimum with ``s`` to their maximum with ``s + 1``; within that, the sum
forces the rest: if ``s`` replicas fill a level exactly, every child is at its minimum. So the rule
is a lower and an upper bound for each node of the tree. The bounds are nested, which is what a
flow can respect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_core.flow import IntArray
from placement_core.racks import RackPath


@dataclass(frozen=True, slots=True)
class RackTree:
    """The racks of some brokers as a tree of nodes, numbered level by level.

    rack_of
        Per broker, the number of its rack.
    nodes
        ``[rack, level]``: the node of the rack at each level, widest first.
    common_levels
        ``[rack, rack]``: the number of levels that two racks share.
    parent
        Per node, the node above it, -1 at the widest level.
    sizes
        Per node, the number of brokers below it.
    """

    rack_of: IntArray
    nodes: IntArray
    common_levels: IntArray
    parent: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, racks: Sequence[RackPath]) -> RackTree:
        """Return the tree of the brokers' ``racks``.

        A rack with fewer levels than the deepest one is extended by unnamed levels: brokers
        directly in a data centre stand beside its rooms, as if in a room of their own.
        """
        levels = max(map(len, racks))
        full = [rack + ("",) * (levels - len(rack)) for rack in racks]
        leaves = sorted(set(full))
        number: dict[RackPath, int] = {}
        for level in range(levels):
            for rack in leaves:
                number.setdefault(rack[: level + 1], len(number))
        nodes = np.array(
            [[number[rack[: level + 1]] for level in range(levels)] for rack in leaves], np.int64
        )
        rack_number = {rack: n for n, rack in enumerate(leaves)}
        rack_of = np.array([rack_number[rack] for rack in full], np.int64)
        return cls(
            rack_of=rack_of,
            nodes=nodes,
            common_levels=(nodes[:, None, :] == nodes[None, :, :]).sum(axis=2),
            parent=np.array([number[p[:-1]] if len(p) > 1 else -1 for p in number], np.int64),
            sizes=np.bincount(nodes[rack_of].reshape(-1), minlength=len(number)),
        )

    @property
    def levels(self) -> int:
        """The number of levels."""
        return int(self.nodes.shape[1])

    def bounds(self, replicas: int) -> tuple[IntArray, IntArray]:
        """Return the minimum and the maximum per node for a partition with ``replicas`` in all."""
        lower, upper = np.zeros(len(self.parent), np.int64), np.zeros(len(self.parent), np.int64)
        for parent in range(-1, len(self.parent)):
            children = np.flatnonzero(self.parent == parent)
            if not len(children):
                continue
            low = replicas if parent < 0 else int(lower[parent])
            high = replicas if parent < 0 else int(upper[parent])
            lower[children] = _even_split(low, self.sizes[children])[0]
            upper[children] = _even_split(high, self.sizes[children])[1]
        return lower, upper

    def can_extend(
        self, counts: IntArray, lower: IntArray, upper: IntArray, replicas: IntArray
    ) -> NDArray[np.bool_]:
        """Return per partition whether replicas can be added to ``counts`` within all bounds.

        ``counts``, ``lower`` and ``upper`` are ``[partition, node]``; ``replicas`` is the number
        that each partition shall have in all.
        """
        required = np.maximum(counts, lower)
        below = np.zeros((len(counts), len(self.parent) + 1), np.int64)
        for node in range(len(self.parent) - 1, -1, -1):
            required[:, node] = np.maximum(required[:, node], below[:, node])
            below[:, self.parent[node]] += required[:, node]
        # The parent of the widest level is -1: the last column is the total.
        return (required <= upper).all(axis=1) & (below[:, -1] <= replicas)


def _even_split(replicas: int, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the minimum and maximum per vessel when ``replicas`` are distributed evenly."""
    level = 0
    while int(np.minimum(sizes, level).sum()) < replicas:
        level += 1
    high = np.minimum(sizes, level)
    return (high if int(high.sum()) == replicas else np.minimum(sizes, level - 1)), high
