"""Cycle canceling: from any feasible choice to one of minimum cost.

Goal. Partitions hold units on brokers (a replica, or the leader), and a unit can move from broker
u to broker v if some partition permits it, at a cost of its own (a copy, a change of leader).
Loads cost something too: the sum of squares, or what consumers cannot read locally. Find the
choice for which the sum of both is minimal.

Algorithm. All single moves form a dense graph between brokers, with the cheapest partition for each
pair as the arc (:class:`ExchangeGraph`); the cost of loads is written as arcs between brokers and a
few further nodes (:class:`LoadCosts`). A choice has the minimum cost if and only if that graph has
no cycle of negative cost. So:

1. :func:`level_loads` brings loads near their mean by direct moves, the cheapest first. It does
   most of the work and need not be exact.
2. :func:`cancel_negative_cycles` finds cycles of negative cost, carries each out as often as it
   pays, and ends when none is left.

Worked example: brokers 0, 1, 2 hold 4, 2 and 0 units, and a move costs 1. With squared loads times
a scale of 5, the arc from broker u to the hub (one unit more on u) costs ``5 (2 load + 1)`` and the
arc back ``5 (1 - 2 load)``. The cycle 0 -> 2 -> hub -> 0 costs 1 + 5 x 1 + 5 x (-7) = -29 the first
time and 1 + 5 x 3 + 5 x (-5) = -9 the second time. A third time it would cost 1 + 5 x 5 - 5 x 3 =
11, so it is carried out twice: loads 2, 2, 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from placement_core.errors import SolverLimitError
from placement_core.flow.balance import connected_components
from placement_core.flow.network import IntArray

INF = 1 << 60
"""The cost of an arc that does not exist: more than any path of arcs that do."""


class ExchangeGraph(Protocol):
    """The choice of all partitions, and the moves of single units that it permits."""

    loads: IntArray
    """Units on each broker."""

    cost_scale: int
    """The factor of :meth:`costs` beside the costs of loads."""

    def costs(self) -> IntArray:
        """Return ``[u, v]``: the minimum cost of moving a unit from u to v; INF if none can."""

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        """Return up to ``limit`` partitions that can move a unit from ``source`` to ``target``.

        Each does so at exactly ``cost``, and whatever the others do.
        """

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """Move one unit of each of ``partitions`` from ``source`` to ``target``."""


class LoadCosts(Protocol):
    """The cost of loads, as arcs between the brokers (first) and further nodes, and among these."""

    def costs(self, loads: IntArray) -> IntArray:
        """Return the marginal cost of every arc at ``loads``; INF if the arc does not exist.

        Sums of these costs along a cycle must not fall as the cycle is repeated.
        """


@dataclass(frozen=True, slots=True)
class SquaredLoads:
    """The sum of squared loads, times ``scale``, through one hub.

    ``base`` is the load of each broker that is not subject to exchange.
    """

    base: IntArray
    scale: int

    def costs(self, loads: IntArray) -> IntArray:
        """Return the arcs from each broker to the hub (one unit more) and back (one unit less)."""
        count = len(loads)
        total = loads + self.base
        cost = np.full((count + 1, count + 1), INF, np.int64)
        cost[:count, count] = (2 * total + 1) * self.scale
        cost[count, :count] = np.where(loads > 0, (1 - 2 * total) * self.scale, INF)
        return cost


def level_loads(exchange: ExchangeGraph, base: IntArray, areas: IntArray | None = None) -> None:
    """Bring loads near their mean by moves of single units, the cheapest first.

    The mean is that of ``base`` plus loads over all brokers that can exchange units, in either
    direction, directly or through others. ``areas`` (a number per broker) restricts moves to one
    area. What stays uneven, or was not done at minimum cost, is left to
    :func:`cancel_negative_cycles`.
    """
    every = np.arange(len(base))
    while True:
        cost = exchange.costs()
        if areas is not None:
            cost[areas[:, None] != areas[None, :]] = INF
        linked = (cost < INF) | (cost < INF).T | np.eye(len(base), dtype=bool)
        total = exchange.loads + base
        mean = np.empty(len(base))
        for brokers, _ in connected_components(every, every, linked):
            mean[brokers] = total[brokers].mean()
        above = np.minimum(total - np.ceil(mean).astype(np.int64), exchange.loads)
        below = np.floor(mean).astype(np.int64) - total
        if not _level_once(exchange, cost, above, below):
            return


def _level_once(exchange: ExchangeGraph, cost: IntArray, above: IntArray, below: IntArray) -> bool:
    """Move units once over all pairs of brokers, cheapest first; return True if any was moved."""
    any_moved = False
    sources, targets = np.flatnonzero(above > 0), np.flatnonzero(below > 0)
    pairs = cost[np.ix_(sources, targets)]
    for price in np.unique(pairs[pairs < INF]).tolist():
        for source, row in zip(sources.tolist(), pairs == price, strict=True):
            for target in targets[row].tolist():
                limit = int(min(above[source], below[target]))
                if above[source] <= 0:
                    break
                if limit <= 0:
                    continue
                found = exchange.find(source, target, price, limit)
                exchange.apply(found, source, target)
                above[source] -= len(found)
                below[target] -= len(found)
                any_moved |= len(found) > 0
    return any_moved


def cancel_negative_cycles(exchange: ExchangeGraph, load_costs: LoadCosts) -> None:
    """Change ``exchange`` into a choice of minimum cost.

    Raises SolverLimitError if costs add up beyond int64.
    """
    while True:
        inner = exchange.costs()
        cost = _joined(exchange, load_costs, inner)
        cycles = negative_cycles(cost)
        if not cycles:
            return
        # Computing the matrix of moves takes most of the time, and a cycle changes little of it. So
        # it is used on, without the arcs that turn out to be gone; new arcs are left to the next
        # pass.
        left, any_moved = inner.copy(), False
        while cycles:
            for cycle in cycles:
                any_moved |= _cancel(exchange, load_costs, left, cycle)
            cycles = negative_cycles(_joined(exchange, load_costs, left))
        if not any_moved:
            # A cycle that needs one partition for two of its arcs may be infeasible. A cycle with
            # the fewest arcs never is.
            any_moved = _cancel(exchange, load_costs, inner, fewest_arcs(cost))
            assert any_moved, "a negative cycle that cannot be carried out"


def _joined(exchange: ExchangeGraph, load_costs: LoadCosts, inner: IntArray) -> IntArray:
    """Return the whole graph: the costs of loads, and the moves ``inner`` between brokers."""
    cost = load_costs.costs(exchange.loads)
    brokers = len(inner)
    exists = inner < INF
    cost[:brokers, :brokers][exists] = inner[exists] * exchange.cost_scale
    return cost


def _cancel(
    exchange: ExchangeGraph, load_costs: LoadCosts, inner: IntArray, cycle: list[int]
) -> bool:
    """Carry ``cycle`` out as often as it pays and partitions permit; return whether that is ever.

    If it is not, the arc that failed is removed from ``inner``.
    """
    brokers = len(inner)
    arcs = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    steps = [(u, v, int(inner[u, v])) for u, v in arcs if u < brokers and v < brokers]
    load_arcs = [(u, v) for u, v in arcs if u >= brokers or v >= brokers]
    own_cost = sum(cost for _, _, cost in steps) * exchange.cost_scale
    times = _repetitions(exchange, load_costs, steps, load_arcs, own_cost)
    while times:
        done: list[tuple[IntArray, int, int]] = []
        for u, v, cost in steps:
            found = exchange.find(u, v, cost, times)
            if len(found) < times:
                break
            exchange.apply(found, u, v)
            done.append((found, u, v))
        else:
            return True
        for partitions, source, target in reversed(done):
            exchange.apply(partitions, target, source)
        if not len(found):
            inner[u, v] = INF
        times = len(found)
    return False


def _repetitions(
    exchange: ExchangeGraph,
    load_costs: LoadCosts,
    steps: list[tuple[int, int, int]],
    load_arcs: list[tuple[int, int]],
    own_cost: int,
) -> int:
    """Return how often the cycle pays: the largest number whose last repetition still does."""
    change = np.zeros_like(exchange.loads)
    for u, v, _ in steps:
        change[u] -= 1
        change[v] += 1

    def pays(nth: int) -> bool:
        loads = exchange.loads + change * (nth - 1)
        if loads.min() < 0:
            return False
        cost = load_costs.costs(loads)
        return own_cost + sum(int(cost[u, v]) for u, v in load_arcs) < 0

    limit = max((int(exchange.loads[u]) for u, _, _ in steps), default=0)
    low, high = 0, 1
    while high <= limit and pays(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pays(middle) else (low, middle)
    return low


def negative_cycles(cost: IntArray) -> list[list[int]]:
    """Return cycles of negative cost that share no node; empty if and only if there is none.

    Bellman-Ford from all nodes at once. A cycle in the graph of predecessors is negative: a node
    only takes a predecessor that brings it strictly nearer. Distances that converge are potentials
    for which every arc's reduced cost is non-negative, so there is no negative cycle.

    Raises SolverLimitError if a path costs less than -INF / 2, beyond which sums would not fit into
    int64.
    """
    count = len(cost)
    every = np.arange(count)
    distance = np.zeros(count, np.int64)
    predecessor = np.full(count, -1)
    for _ in range(count + 1):
        through = distance[:, None] + cost
        nearest = through.argmin(axis=0)
        shortest = through[nearest, every]
        improved = shortest < distance
        if not improved.any():
            return []
        distance[improved] = shortest[improved]
        predecessor[improved] = nearest[improved]
        if cycles := _cycles(predecessor.tolist()):
            return cycles
        if distance.min() < -INF // 2:
            raise SolverLimitError(
                f"the costs of {count} brokers and racks add up to {-distance.min()}, more than "
                "int64 arithmetic is safe for: plan fewer topics at a time"
            )
    raise AssertionError("distances that neither converge nor form a cycle")


def _cycles(predecessor: list[int]) -> list[list[int]]:
    """Return the cycles of a graph in which every node has at most one predecessor (else -1)."""
    seen_from = [0] * len(predecessor)
    cycles = []
    for start in range(len(predecessor)):
        node, walk = start, []
        while node >= 0 and not seen_from[node]:
            seen_from[node] = start + 1
            walk.append(node)
            node = predecessor[node]
        if node >= 0 and walk and seen_from[node] == start + 1:
            cycles.append(walk[walk.index(node) :][::-1])
    return cycles


def fewest_arcs(cost: IntArray) -> list[int]:
    """Return a negative cycle with the fewest arcs; there must be one.

    Walks of one arc more per round, until one that returns to its start is negative. A closed walk
    of that few arcs visits no node twice: one of its parts would be negative, and shorter.
    """
    count = len(cost)
    walks = [cost]
    shortest = cost
    while (closed := shortest.diagonal()).min() >= 0:
        shortest = np.stack([(row[:, None] + cost).min(axis=0) for row in shortest])
        np.minimum(shortest, INF, out=shortest)
        walks.append(shortest)
        assert len(walks) <= count, "a negative cycle that is longer than the graph is large"
    start = node = int(closed.argmin())
    backwards = []
    for earlier, later in zip(reversed(walks[:-1]), reversed(walks[1:]), strict=True):
        through = earlier[start] + cost[:, node]
        node = int(np.flatnonzero(through == later[start, node])[0])
        backwards.append(node)
    return [start, *backwards[::-1]]
