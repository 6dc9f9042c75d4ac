"""What makes the solvers fast: loads near their mean, cycles repeated at once, direct filling.

The optimum does not depend on it: a fault here would only cost time, which no other test sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from placement_core.flow import (
    INF,
    Flow,
    IntArray,
    Network,
    SquaredLoads,
    cancel_negative_cycles,
    level_loads,
    solve,
)
from placement_core.flow.min_cost_flow import water_fill
from placement_core.flow.residual import LevelGraph


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


def test_loads_are_levelled_among_brokers_that_can_exchange_units() -> None:
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


def test_a_cycle_is_carried_out_as_often_as_its_scarcest_move_permits() -> None:
    free = FreeExchange.of([9, 0, 0], {(0, 1): 1, (1, 2): 1})
    exchange = ScarceExchange(free.loads, free.price, left={(0, 1): 8, (1, 2): 1})
    # Broker 1 has as much that cannot move as broker 0 has in all.
    moved = cancel_negative_cycles(exchange, SquaredLoads(np.array([0, 9, 0]), 5))
    assert exchange.applied == [(0, 1, 4), (1, 0, 4), (0, 1, 1), (1, 2, 1)]
    assert exchange.loads.tolist() == [8, 0, 1]
    assert moved == 2


@pytest.mark.parametrize("seed", range(200))
def test_vessels_are_filled_to_one_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 50, int(rng.integers(1, 8)))
    gaps = np.array([int(rng.integers(0, size + 1)) for size in sizes])
    amount = int(rng.integers(0, int(gaps.sum()) + 3))
    taken = water_fill(amount, gaps.copy(), sizes)
    assert int(taken.sum()) == min(amount, int(gaps.sum()))
    assert (taken >= 0).all()
    assert (taken <= gaps).all()
    # Up to a unit of rounding, none that took some is fuller than any other.
    left = gaps - taken
    fullest = min(((left + 1) / sizes)[taken > 0], default=1.0)
    assert ((left - 1) / sizes <= fullest).all()


@pytest.fixture
def without_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a unit is sent along a path that had to be searched for."""

    def build(*_: object) -> LevelGraph:
        raise AssertionError("a search for paths")

    monkeypatch.setattr(LevelGraph, "build", build)


def sent(
    supply: list[int],
    demand: list[int],
    hubs: list[int],
    lanes: list[tuple[int, int, int]],
    arcs: Sequence[tuple[int, int, int, int]] = (),
) -> Flow:
    """Return the flow in a network of ``lanes`` (class, hub, cost; by hub) and ``arcs`` (class,
    member, capacity, cost; by member); ``hubs`` are those of the members."""
    lane = np.array(lanes, np.int64).reshape(-1, 3).T
    arc = np.array(arcs, np.int64).reshape(-1, 4).T
    network = Network(
        supply=np.array(supply),
        demand=np.array(demand),
        member_hub=np.array(hubs),
        hub_count=max(hubs) + 1,
        lane_class=lane[0],
        lane_hub=lane[1],
        lane_cost=lane[2],
        arc_class=arc[0],
        arc_member=arc[1],
        arc_capacity=arc[2],
        arc_cost=arc[3],
        deferred=np.array([], np.int64),
    )
    return solve(network).flow


@pytest.mark.usefixtures("without_search")
def test_classes_with_one_hub_each_are_sent_directly() -> None:
    """The lanes are in order of the hubs, not of the classes."""
    flow = sent([3, 2, 1], [2, 1, 3], [0, 0, 1], [(2, 0, 0), (1, 0, 0), (0, 1, 0)])
    assert flow.lanes.tolist() == [1, 2, 3]
    assert flow.seats.tolist() == [2, 1, 3]
    assert not flow.unsent.any()


def test_what_the_nearest_hub_cannot_take_goes_directly_to_the_next() -> None:
    flow = sent([2, 2], [3, 4], [0, 1], [(0, 0, 1), (1, 0, 1), (0, 1, 5), (1, 1, 5)])
    assert flow.lanes.tolist() == [2, 1, 0, 1]
    assert flow.unmet.tolist() == [0, 3]


@pytest.mark.usefixtures("without_search")
def test_a_class_is_spread_over_its_hubs_and_their_members_evenly() -> None:
    lanes = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    flow = sent([4, 4], [4, 4, 8], [0, 0, 1], lanes)
    assert flow.lanes.tolist() == [2, 2, 2, 2]
    assert flow.seats.tolist() == [2, 2, 4]


@pytest.mark.usefixtures("without_search")
def test_direct_arcs_are_filled_up_to_capacity_demand_and_supply() -> None:
    arcs = [(0, 0, 2, 0), (1, 0, 2, 0), (0, 1, 3, 0), (1, 2, 9, 0)]
    flow = sent([4, 6], [3, 3, 9], [0, 1, 2], [], arcs)
    assert flow.arcs.tolist() == [2, 1, 2, 5]
    assert flow.unmet.tolist() == [0, 1, 4]


@pytest.mark.usefixtures("without_search")
def test_a_direct_arc_is_preferred_to_a_dearer_lane_and_conversely() -> None:
    flow = sent([3], [3], [0], [(0, 0, 4)], [(0, 0, 3, 1)])
    assert (flow.arcs.tolist(), flow.lanes.tolist()) == ([3], [0])
    flow = sent([3], [3], [0], [(0, 0, 1)], [(0, 0, 3, 4)])
    assert (flow.arcs.tolist(), flow.lanes.tolist()) == ([0], [3])
