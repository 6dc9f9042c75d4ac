"""Cycle canceling: negative cycles against an enumeration of walks, and what makes it fast.

The optimum does not depend on how loads are leveled and how often a cycle is repeated at once: a
fault there would only cost time, which no other test sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from placement_core.errors import SolverLimitError
from placement_core.flow import (
    INF,
    IntArray,
    SquaredLoads,
    cancel_negative_cycles,
    level_loads,
)
from placement_core.flow.cycle_canceling import fewest_arcs, negative_cycles


def random_costs(seed: int) -> IntArray:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 9))
    cost = rng.integers(-2 if seed % 2 else -9, 10, (count, count))
    cost[rng.random((count, count)) < rng.uniform(0.1, 0.8)] = INF
    np.fill_diagonal(cost, INF)
    return cost.astype(np.int64)


def length_of(cost: IntArray, cycle: list[int]) -> int:
    return sum(int(cost[u, v]) for u, v in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def fewest(cost: IntArray) -> int | None:
    """Return the number of arcs of the shortest negative closed walk; None if there is none."""
    count = len(cost)
    walk = [[0 if u == v else INF for v in range(count)] for u in range(count)]
    for arcs in range(1, count + 1):
        walk = [
            [min(min(row[m] + int(cost[m, v]), INF) for m in range(count)) for v in range(count)]
            for row in walk
        ]
        if any(walk[u][u] < 0 for u in range(count)):
            return arcs
    return None


@pytest.mark.parametrize("block", range(6))
def test_cycles_are_returned_if_and_only_if_one_exists(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        cost = random_costs(seed)
        cycles, arcs = negative_cycles(cost), fewest(cost)
        assert bool(cycles) == (arcs is not None), seed
        nodes = [node for cycle in cycles for node in cycle]
        assert len(nodes) == len(set(nodes)), "two cycles share a node"
        assert all(length_of(cost, cycle) < 0 for cycle in cycles), seed
        if arcs is not None:
            shortest = fewest_arcs(cost)
            assert len(shortest) == len(set(shortest)) == arcs
            assert length_of(cost, shortest) < 0


def test_costs_that_int64_cannot_add_up_safely_are_refused() -> None:
    cost = np.full((2, 2), INF)
    cost[0, 1] = -(INF // 2)
    assert negative_cycles(cost) == []
    cost[0, 1] -= 1
    with pytest.raises(SolverLimitError, match="costs of 2 brokers and racks add up to 57646075"):
        negative_cycles(cost)


@dataclass
class FreeExchange:
    """An exchange graph in which every unit can make every move, at the ``price`` of its arc.

    The first ``refusals`` searches return nothing. ``left`` limits the units that can make a move.
    """

    loads: IntArray
    price: IntArray
    refusals: int = 0
    left: dict[tuple[int, int], int] = field(default_factory=dict)
    cost_scale: int = 1
    applied: list[tuple[int, int, int]] = field(default_factory=list)
    """Source, target and number of units."""

    @classmethod
    def of(cls, loads: list[int], prices: dict[tuple[int, int], int] | None = None) -> FreeExchange:
        """Return a graph with the given arcs; all arcs, at a price of 1, if there are none."""
        price = np.full((len(loads), len(loads)), 1 if prices is None else INF, np.int64)
        for arc, cost in (prices or {}).items():
            price[arc] = cost
        np.fill_diagonal(price, INF)
        return cls(np.array(loads, np.int64), price)

    def costs(self) -> IntArray:
        cost = self.price.copy()
        for arc, units in self.left.items():
            cost[arc] = cost[arc] if units else INF
        return cost

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        assert cost == self.price[source, target] < INF
        self.refusals -= 1
        limit = min(limit, self.left.get((source, target), limit))
        return np.arange(0 if self.refusals >= 0 else min(limit, int(self.loads[source])))

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)
        self.applied.append((source, target, len(partitions)))
        for arc, sign in (((source, target), -1), ((target, source), 1)):
            if arc in self.left:
                self.left[arc] += sign * len(partitions)


def level(exchange: FreeExchange, base: list[int], areas: list[int] | None = None) -> list[int]:
    level_loads(exchange, np.array(base), None if areas is None else np.array(areas))
    loads: list[int] = exchange.loads.tolist()
    return loads


def squares(brokers: int, scale: int | None = None) -> SquaredLoads:
    return SquaredLoads(np.zeros(brokers, np.int64), scale or brokers + 2)


def test_loads_are_moved_until_none_is_beyond_the_mean_rounded() -> None:
    exchange = FreeExchange.of([9, 0, 0, 0])
    assert level(exchange, [0, 0, 0, 0]) == [3, 2, 2, 2]
    assert exchange.applied == [(0, 1, 2), (0, 2, 2), (0, 3, 2)]


def test_what_cannot_move_counts_in_the_mean() -> None:
    assert level(FreeExchange.of([6, 0, 0]), [0, 3, 0]) == [3, 0, 3]
    # More than what can move is not taken.
    assert level(FreeExchange.of([1, 0]), [9, 0]) == [0, 1]


def test_the_cheapest_moves_are_made_first() -> None:
    exchange = FreeExchange.of([3, 0, 0], {(0, 1): 5, (0, 2): 2})
    assert level(exchange, [0, 0, 0]) == [1, 1, 1]
    assert exchange.applied == [(0, 2, 1), (0, 1, 1)]


def test_a_broker_gives_only_what_is_above_the_mean() -> None:
    exchange = FreeExchange.of([5, 4, 0, 0, 1])
    assert level(exchange, [0] * 5) == [2, 2, 2, 2, 2]
    assert exchange.applied == [(0, 2, 2), (0, 3, 1), (1, 3, 1), (1, 4, 1)]


def test_loads_are_leveled_among_brokers_that_can_exchange() -> None:
    # 0 and 1 can, in one direction; 2 and 3 can; the means are 2 and 4.
    exchange = FreeExchange.of([4, 0, 1, 7], {(0, 1): 1, (3, 2): 1})
    assert level(exchange, [0, 0, 0, 0]) == [2, 2, 4, 4]
    # Moves stay within an area.
    exchange = FreeExchange.of([4, 0, 8, 0])
    assert level(exchange, [0, 0, 0, 0], areas=[0, 0, 1, 1]) == [2, 2, 4, 4]
    assert exchange.applied == [(0, 1, 2), (2, 3, 4)]


@pytest.mark.parametrize(
    ("loads", "expected", "most"), [([4, 2, 0], [2, 2, 2], 1), ([400, 2, 0], [134, 134, 134], 30)]
)
def test_a_cycle_is_carried_out_as_often_as_it_pays_at_once(
    loads: list[int], expected: list[int], most: int
) -> None:
    """The first is the worked example of cycle_canceling."""
    exchange = FreeExchange.of(loads)
    cancel_negative_cycles(exchange, squares(3, 5))
    assert exchange.loads.tolist() == expected
    assert len(exchange.applied) <= most


@pytest.mark.parametrize(("base", "scale"), [(0, 1), (7, 3), (-5, 1)])
def test_every_repetition_that_pays_is_made_at_once(base: int, scale: int) -> None:
    """Moves of one unit from broker 0, which has ``base`` more, to broker 1."""
    for units in range(2, 60):
        exchange = FreeExchange.of([units, 0])
        exchange.cost_scale = 2
        cancel_negative_cycles(exchange, SquaredLoads(np.array([base, 0]), scale))
        costs = [
            scale * ((units + base - moved) ** 2 + moved**2) + 2 * moved
            for moved in range(units + 1)
        ]
        best = costs.index(min(costs))
        assert exchange.applied == ([(0, 1, best)] if best else []), units


def test_the_scarcest_move_limits_how_often_a_cycle_is_made() -> None:
    exchange = FreeExchange.of([9, 0, 0], {(0, 1): 1, (1, 2): 1})
    exchange.left = {(0, 1): 8, (1, 2): 1}
    # Broker 1 has as much that cannot move as broker 0 has in all.
    cancel_negative_cycles(exchange, SquaredLoads(np.array([0, 9, 0]), 5))
    assert exchange.applied == [(0, 1, 4), (1, 0, 4), (0, 1, 1), (1, 2, 1)]
    assert exchange.loads.tolist() == [8, 0, 1]


@pytest.mark.parametrize("refusals", range(4))
def test_other_arcs_are_used_after_a_refusal(refusals: int) -> None:
    """If a negative cycle is not feasible, one with the fewest arcs is canceled instead."""
    for loads, expected in (([5, 1], [3, 3]), ([9, 0, 0, 0], [2, 2, 2, 3])):
        exchange = FreeExchange.of(loads)
        exchange.refusals = refusals
        if len(loads) == 2 and refusals >= 2:
            # The pass and the cycle with the fewest arcs are both refused: no cycle is left.
            with pytest.raises(AssertionError, match="cannot be carried out"):
                cancel_negative_cycles(exchange, squares(2))
            continue
        cancel_negative_cycles(exchange, squares(len(loads)))
        assert sorted(exchange.loads.tolist()) == expected
