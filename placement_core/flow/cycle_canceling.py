"""Cancel negative cycles until there are none: from any choice to one that costs the least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from placement_core.flow.network import IntArray

# ---- Cycles of negative cost in a dense graph.

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


class Exchange(Protocol):
    """The choices of all partitions, and how they can change."""

    loads: IntArray
    """Units on each broker."""

    unit: int
    """What a cost of 1 in :meth:`costs` is worth beside the outer costs."""

    def costs(self) -> IntArray:
        """``[u, v]``: the least cost of taking a unit from u to v; FAR where no partition can."""

    def find(self, source: int, target: int, cost: int, most: int) -> IntArray:
        """Up to ``most`` partitions that can take a unit from ``source`` to ``target``.

        Each at exactly ``cost``, and each whatever the others do.
        """

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """Take one unit of each of ``partitions`` from ``source`` to ``target``."""


class Outer(Protocol):
    """What loads cost: arcs between brokers (first) and further nodes, and among these."""

    def costs(self, loads: IntArray) -> IntArray:
        """The arcs' marginal costs at ``loads``; FAR where there is none.

        Sums of these costs along a cycle must not fall as the cycle is repeated.
        """


def settle(exchange: Exchange, outer: Outer) -> int:
    """Change ``exchange`` into a choice of least cost; how many units had to be exchanged."""
    exchanged = 0
    while True:
        inner = exchange.costs()
        cost = _joined(inner, exchange.unit, outer.costs(exchange.loads))
        if not negative_cycles(cost):
            return exchanged
        done = _one_pass(exchange, outer, inner.copy())
        if not done:
            done = _cancel(exchange, outer, inner, fewest_arcs(cost))
            if not done:
                raise RuntimeError("a negative cycle that cannot be carried out")
        exchanged += done


def _one_pass(exchange: Exchange, outer: Outer, inner: IntArray) -> int:
    """Cancel cycles for as long as ``inner`` shows any; how many units that exchanged.

    Making that matrix is what takes time, and a cycle changes little of it. So it is used on,
    without the arcs that turn out to be gone; new ones are for the next pass to find.
    """
    exchanged = 0
    while cycles := negative_cycles(_joined(inner, exchange.unit, outer.costs(exchange.loads))):
        for cycle in cycles:
            exchanged += _cancel(exchange, outer, inner, cycle)
    return exchanged


def _joined(inner: IntArray, unit: int, outer: IntArray) -> IntArray:
    cost = outer.copy()
    brokers = len(inner)
    there = inner < FAR
    cost[:brokers, :brokers][there] = inner[there] * unit
    return cost


def _cancel(exchange: Exchange, outer: Outer, inner: IntArray, cycle: list[int]) -> int:
    """Carry ``cycle`` out as often as it pays; how many units that exchanged.

    Where it cannot be carried out at all, the arc that failed is struck from ``inner``.
    """
    brokers = len(inner)
    arcs = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    steps = [(u, v, int(inner[u, v])) for u, v in arcs if u < brokers and v < brokers]
    others = [(u, v) for u, v in arcs if u >= brokers or v >= brokers]
    own = sum(cost for _, _, cost in steps) * exchange.unit
    times = _worthwhile(exchange, outer, steps, others, own)
    while times:
        failed, found = _carry_out(exchange, steps, times)
        if failed is None:
            return times * len(steps)
        if not found:
            inner[failed] = FAR
        times = found
    return 0


def _worthwhile(
    exchange: Exchange,
    outer: Outer,
    steps: list[tuple[int, int, int]],
    others: list[tuple[int, int]],
    own: int,
) -> int:
    """How often the cycle pays: the largest number whose last repetition still does."""
    change = np.zeros_like(exchange.loads)
    for u, v, _ in steps:
        change[u] -= 1
        change[v] += 1

    def pays(nth: int) -> bool:
        loads = exchange.loads + change * (nth - 1)
        if loads.min() < 0:
            return False
        cost = outer.costs(loads)
        return own + sum(int(cost[u, v]) for u, v in others) < 0

    most = max((int(exchange.loads[u]) for u, _, _ in steps), default=0)
    low, high = 0, 1
    while high <= most and pays(high):
        low, high = high, high * 2
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    return low


def _carry_out(
    exchange: Exchange, steps: list[tuple[int, int, int]], times: int
) -> tuple[tuple[int, int] | None, int]:
    """Take ``times`` units along each step; or leave everything as it was, and return a step that
    does not have so many, and how many it has."""
    done: list[tuple[IntArray, int, int]] = []
    for u, v, cost in steps:
        found = exchange.find(u, v, cost, times)
        if len(found) < times:
            for partitions, source, target in reversed(done):
                exchange.apply(partitions, target, source)
            return (u, v), len(found)
        exchange.apply(found, u, v)
        done.append((found, u, v))
    return None, times


# ---- The bulk of the work: units straight from brokers above the level to brokers below.


def even_out(exchange: Exchange, base: IntArray, areas: IntArray | None = None) -> None:
    """Bring loads near their level by single exchanges, the cheapest first.

    The level is the mean of ``base`` plus loads over the brokers that can exchange units, in
    either direction, through others. ``areas`` (a number per broker) keeps to exchanges within
    an area. What is left uneven, or was not done at least cost, is for
    :func:`~placement_core.flow.cycle_canceling.settle`: nothing here has to be exact.
    """
    while True:
        cost = exchange.costs()
        if areas is not None:
            cost[areas[:, None] != areas[None, :]] = FAR
        part = _parts(cost < FAR)
        total = exchange.loads + base
        mean = np.bincount(part, total) / np.maximum(np.bincount(part), 1)
        above = np.minimum(total - np.ceil(mean[part]).astype(np.int64), exchange.loads)
        below = np.floor(mean[part]).astype(np.int64) - total
        if not _one_leveling_pass(exchange, cost, above, below):
            return


def _one_leveling_pass(
    exchange: Exchange, cost: IntArray, above: IntArray, below: IntArray
) -> bool:
    """One pass over the pairs of brokers, cheapest first; whether it exchanged anything."""
    any_done = False
    givers, takers = np.flatnonzero(above > 0), np.flatnonzero(below > 0)
    pairs = cost[np.ix_(givers, takers)]
    for price in np.unique(pairs[pairs < FAR]).tolist():
        for giver, row in zip(givers.tolist(), pairs == price, strict=True):
            for taker in takers[row].tolist():
                most = int(min(above[giver], below[taker]))
                if above[giver] <= 0:
                    break
                if most <= 0:
                    continue
                found = exchange.find(giver, taker, price, most)
                exchange.apply(found, giver, taker)
                above[giver] -= len(found)
                below[taker] -= len(found)
                any_done |= len(found) > 0
    return any_done


def _parts(linked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> IntArray:
    """The connected part of each broker, as a number."""
    part = np.full(len(linked), -1)
    either = linked | linked.T
    for broker in range(len(linked)):
        if part[broker] >= 0:
            continue
        inside = np.zeros(len(linked), bool)
        inside[broker] = True
        while True:
            wider = inside | either[inside].any(axis=0)
            if (wider == inside).all():
                break
            inside = wider
        part[inside] = broker
    return part


# ---- Even loads as outer costs: the sum of squared loads, through one hub.


@dataclass(frozen=True, slots=True)
class SquaredLoads:
    """The sum of squared loads, ``worth`` per unit.

    ``base`` is what each broker carries besides what is exchanged.
    """

    base: IntArray
    worth: int

    def costs(self, loads: IntArray) -> IntArray:
        """Arcs from each broker to a hub (one unit more) and back (one less)."""
        count = len(loads)
        total = loads + self.base
        cost = np.full((count + 1, count + 1), FAR, np.int64)
        cost[:count, count] = (2 * total + 1) * self.worth
        cost[count, :count] = np.where(loads > 0, (1 - 2 * total) * self.worth, FAR)
        return cost
