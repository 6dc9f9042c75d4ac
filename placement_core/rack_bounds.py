"""How many replicas of a partition each rack may hold, at every level of the racks.

The rule, from the widest level down: a node's replicas are as even over its children as the
brokers below these permit. With at least as many racks as replicas that is "at most one", with
fewer racks "at least one, and floor or ceiling".

As bounds. Replicas are dealt to children like water into vessels: all are at a level ``h`` or
``h - 1``, or full. A child that a layout brings to ``h`` in one node may be at ``h - 1`` in
another, so that a node has a *range* of replicas, never wider than one. For a node that may have
``s`` or ``s + 1``, the ranges of its children reach from the least that they have with ``s`` to
the most that they have with ``s + 1``; within that, the sum forces the rest: with ``s``, if ``s``
fills a level exactly, every child is at its least. So the rule is a lower and an upper bound
for each node of the tree, nested: what a flow can carry.
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
    """The racks of some brokers: ``levels`` levels of nodes, numbered level by level.

    leaf
        Per broker, its rack.
    nodes
        ``[rack, level]``: the node of the rack at each level, widest first.
    common
        ``[rack, rack]``: the levels that two racks share.
    parent
        Per node, the node above it, -1 at the widest level.
    sizes
        Per node, the brokers below it.
    """

    leaf: IntArray
    nodes: IntArray
    common: IntArray
    parent: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, racks: Sequence[RackPath]) -> RackTree:
        """The tree of the brokers' ``racks``.

        A rack that ends above the deepest one is continued by levels without a name: brokers
        right in a data centre stand beside its rooms, as if in a room of their own.
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
        parent = np.array([number[p[:-1]] if len(p) > 1 else -1 for p in number], np.int64)
        leaf = np.array([leaves.index(rack) for rack in full], np.int64)
        return cls(
            leaf=leaf,
            nodes=nodes,
            common=(nodes[:, None, :] == nodes[None, :, :]).sum(axis=2),
            parent=parent,
            sizes=np.bincount(nodes[leaf].reshape(-1), minlength=len(number)),
        )

    @property
    def levels(self) -> int:
        """The number of levels."""
        return int(self.nodes.shape[1])

    def shares(self, replicas: int) -> tuple[IntArray, IntArray]:
        """The fewest and the most replicas of a partition for each node, of ``replicas`` in all."""
        least, most = np.zeros(len(self.parent), np.int64), np.zeros(len(self.parent), np.int64)
        for parent in range(-1, len(self.parent)):
            children = np.flatnonzero(self.parent == parent)
            if not len(children):
                continue
            low = replicas if parent < 0 else int(least[parent])
            high = replicas if parent < 0 else int(most[parent])
            least[children] = _dealt(low, self.sizes[children])[0]
            most[children] = _dealt(high, self.sizes[children])[1]
        return least, most

    def taken(self, counts: IntArray, least: IntArray) -> IntArray:
        """Replicas that a layout which extends ``counts`` must have: ``[partition, node]``.

        Both arguments are per partition and node; what lies in the root is the last column.
        """
        taken = np.concatenate((np.maximum(counts, least), np.zeros((len(counts), 1), np.int64)), 1)
        below = np.zeros_like(taken)
        for node in range(len(self.parent) - 1, -1, -1):
            taken[:, node] = np.maximum(taken[:, node], below[:, node])
            below[:, self.parent[node]] += taken[:, node]
        taken[:, -1] = below[:, -1]
        return taken

    def extendable(
        self, counts: IntArray, least: IntArray, most: IntArray, replicas: IntArray
    ) -> NDArray[np.bool_]:
        """Per partition: can replicas be added to ``counts`` so that all bounds hold?"""
        taken = self.taken(counts, least)
        return (taken[:, :-1] <= most).all(axis=1) & (taken[:, -1] <= replicas)


def _dealt(replicas: int, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """The least and the most that each vessel holds when ``replicas`` are dealt evenly."""
    level = 0
    while int(np.minimum(sizes, level).sum()) < replicas:
        level += 1
    full = np.minimum(sizes, level)
    return (full if int(full.sum()) == replicas else np.minimum(sizes, level - 1)), full
