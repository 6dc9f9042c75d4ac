"""What makes the solvers fast: loads near their mean, and cycles repeated at once.

The optimum does not depend on it: a fault here would only cost time, which no other test sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from placement_core.flow import (
    INF,
    IntArray,
    SquaredLoads,
    cancel_negative_cycles,
    level_loads,
)


@dataclass
class FreeExchange:
    """An exchange graph in which every unit can make every move, at the ``price`` of its arc."""

    loads: IntArray
    price: IntArray
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
        return self.price.copy()

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        assert cost == self.price[source, target] < INF
        return np.arange(min(limit, int(self.loads[source])))

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)
        self.applied.append((source, target, len(partitions)))


def level(exchange: FreeExchange, base: list[int], areas: list[int] | None = None) -> list[int]:
    level_loads(exchange, np.array(base), None if areas is None else np.array(areas))
    return [int(load) for load in exchange.loads]


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


def test_one_broker_gives_what_it_has_too_much_and_no_more() -> None:
    exchange = FreeExchange.of([5, 4, 0, 0, 1])
    assert level(exchange, [0] * 5) == [2, 2, 2, 2, 2]
    assert exchange.applied == [(0, 2, 2), (0, 3, 1), (1, 3, 1), (1, 4, 1)]


def test_loads_are_levelled_among_brokers_that_can_exchange() -> None:
    # 0 and 1 can, in one direction; 2 and 3 can; the means are 2 and 4.
    exchange = FreeExchange.of([4, 0, 1, 7], {(0, 1): 1, (3, 2): 1})
    assert level(exchange, [0, 0, 0, 0]) == [2, 2, 4, 4]


def test_moves_stay_within_an_area() -> None:
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
    moved = cancel_negative_cycles(exchange, SquaredLoads(np.zeros(3, np.int64), 5))
    assert exchange.loads.tolist() == expected
    assert moved == sum(units for *_, units in exchange.applied)
    assert len(exchange.applied) <= most


@pytest.mark.parametrize("units", range(2, 60))
@pytest.mark.parametrize(("base", "scale"), [(0, 1), (7, 3), (-5, 1)])
def test_every_repetition_that_pays_is_made_at_once(units: int, base: int, scale: int) -> None:
    """Moves of one unit from broker 0, which has ``base`` more, to broker 1."""
    exchange = FreeExchange.of([units, 0])
    exchange.cost_scale = 2
    cancel_negative_cycles(exchange, SquaredLoads(np.array([base, 0]), scale))
    squares = [
        scale * ((units + base - moved) ** 2 + moved**2) + 2 * moved for moved in range(units + 1)
    ]
    best = squares.index(min(squares))
    assert exchange.applied == ([(0, 1, best)] if best else [])


@dataclass
class ScarceExchange(FreeExchange):
    """An exchange graph in which only some units of a broker can make a move: ``left``."""

    left: dict[tuple[int, int], int] = field(default_factory=dict)

    def costs(self) -> IntArray:
        cost = super().costs()
        for arc, units in self.left.items():
            if units == 0:
                cost[arc] = INF
        return cost

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        return super().find(source, target, cost, min(limit, self.left[source, target]))

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        super().apply(partitions, source, target)
        forwards, sign = ((source, target), -1) if source < target else ((target, source), 1)
        self.left[forwards] += sign * len(partitions)


def test_the_scarcest_move_limits_how_often_a_cycle_is_made() -> None:
    free = FreeExchange.of([9, 0, 0], {(0, 1): 1, (1, 2): 1})
    exchange = ScarceExchange(free.loads, free.price, left={(0, 1): 8, (1, 2): 1})
    # Broker 1 has as much that cannot move as broker 0 has in all.
    moved = cancel_negative_cycles(exchange, SquaredLoads(np.array([0, 9, 0]), 5))
    assert exchange.applied == [(0, 1, 4), (1, 0, 4), (0, 1, 1), (1, 2, 1)]
    assert exchange.loads.tolist() == [8, 0, 1]
    assert moved == 2
