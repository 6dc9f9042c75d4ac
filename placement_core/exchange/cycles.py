"""Cycles of negative cost in a dense graph."""

from __future__ import annotations

import numpy as np

from placement_core.matching import IntArray

FAR = 1 << 60
"""The cost of an arc that is not there: more than any path of arcs that are."""


def negative_cycles(cost: IntArray) -> list[list[int]]:
    """Cycles of negative cost without a node in common; empty if and only if there is none.

    Bellman-Ford from all nodes at once. A cycle in the graph of predecessors is negative: a node
    only takes a predecessor that is strictly nearer. Distances that settle are potentials that
    make every arc's reduced cost non-negative, which rules a negative cycle out.

    Raises RuntimeError if distances neither settle nor form a cycle, which cannot be.
    """
    count = len(cost)
    every = np.arange(count)
    distance = np.zeros(count, np.int64)
    before = np.full(count, -1)
    for _ in range(count + 1):
        through = distance[:, None] + cost
        nearest = through.argmin(axis=0)
        least = through[nearest, every]
        nearer = least < distance
        if not nearer.any():
            return []
        distance[nearer] = least[nearer]
        before[nearer] = nearest[nearer]
        if found := _rings(before.tolist()):
            return found
    raise RuntimeError("distances that neither settle nor form a cycle")


def _rings(before: list[int]) -> list[list[int]]:
    """The cycles in a graph in which every node has at most one predecessor."""
    seen = [0] * len(before)
    rings = []
    for start in range(len(before)):
        node, walk = start, []
        while node >= 0 and not seen[node]:
            seen[node] = start + 1
            walk.append(node)
            node = before[node]
        if node >= 0 and walk and seen[node] == start + 1:
            rings.append(walk[walk.index(node) :][::-1])
    return rings


def fewest_arcs(cost: IntArray) -> list[int]:
    """A negative cycle with as few arcs as any has; there must be one.

    Walks of one arc more per round, until one that comes back to its start is negative. A
    closed walk of that few arcs visits no node twice: one of its parts would be negative,
    and shorter.
    """
    count = len(cost)
    walks = [cost]
    reached = cost
    while (closed := reached.diagonal()).min() >= 0:
        reached = np.stack([(row[:, None] + cost).min(axis=0) for row in reached])
        np.minimum(reached, FAR, out=reached)
        walks.append(reached)
        if len(walks) > count:
            raise RuntimeError("a negative cycle that is longer than the graph is large")
    start = node = int(closed.argmin())
    backwards = []
    for earlier, later in zip(reversed(walks[:-1]), reversed(walks[1:]), strict=True):
        came_from = earlier[start] + cost[:, node]
        node = int(np.flatnonzero(came_from == later[start, node])[0])
        backwards.append(node)
    return [start, *backwards[::-1]]
