"""Cancel negative cycles until there are none: from any choice to one that costs the least."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from placement_core.exchange.cycles import FAR, fewest_arcs, negative_cycles
from placement_core.matching import IntArray


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
