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
    brokers = len(exchange.loads)
    exchanged = 0
    while True:
        inner = exchange.costs()
        cost = _joined(inner, exchange.unit, outer.costs(exchange.loads))
        cycles = negative_cycles(cost)
        if not cycles:
            return exchanged
        done = sum(_cancel(exchange, outer, inner, cycle, brokers) for cycle in cycles)
        if not done:
            done = _cancel(exchange, outer, inner, fewest_arcs(cost), brokers)
            if not done:
                raise RuntimeError("a negative cycle that cannot be carried out")
        exchanged += done


def _joined(inner: IntArray, unit: int, outer: IntArray) -> IntArray:
    cost = outer.copy()
    brokers = len(inner)
    there = inner < FAR
    cost[:brokers, :brokers][there] = inner[there] * unit
    return cost


def _cancel(
    exchange: Exchange, outer: Outer, inner: IntArray, cycle: list[int], brokers: int
) -> int:
    """Carry ``cycle`` out as often as it pays; how many units that exchanged."""
    arcs = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    steps = [(u, v, int(inner[u, v])) for u, v in arcs if u < brokers and v < brokers]
    others = [(u, v) for u, v in arcs if u >= brokers or v >= brokers]
    own = sum(cost for _, _, cost in steps) * exchange.unit
    times = _worthwhile(exchange, outer, steps, others, own)
    while times:
        if _carry_out(exchange, steps, times):
            return times * len(steps)
        times //= 2
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


def _carry_out(exchange: Exchange, steps: list[tuple[int, int, int]], times: int) -> bool:
    """Take ``times`` units along each step, or leave everything as it was."""
    done: list[tuple[IntArray, int, int]] = []
    for u, v, cost in steps:
        found = exchange.find(u, v, cost, times)
        if len(found) < times:
            for partitions, source, target in reversed(done):
                exchange.apply(partitions, target, source)
            return False
        exchange.apply(found, u, v)
        done.append((found, u, v))
    return True
