"""The transportation solver against OR-tools, and its proofs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ortools.graph.python import min_cost_flow

from placement_core.flow import (
    Flow,
    Network,
    Solution,
    crossing_costs,
    lower_bound,
    rank_scales,
    solve,
    total_cost,
)
from tests.support.random_groups import first_quick

CHUNK = 500
NO_LIMIT = 10**6


def random_network(seed: int, *, filled: bool = False) -> Network:
    """Return a small network; with ``filled``, the sums of supply and demand are equal."""
    rng = np.random.default_rng(seed)
    classes, hubs = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    members = int(rng.integers(hubs, 12))
    hub = np.sort(np.concatenate((np.arange(hubs), rng.integers(0, hubs, members - hubs))))
    lane_hub, lane_class = np.nonzero(rng.random((hubs, classes)) < 0.6)
    arc_member, arc_class = np.nonzero(rng.random((members, classes)) < 0.2)
    demand = rng.integers(0, 9, members)
    supply = rng.integers(0, 12, classes)
    if filled:
        supply = np.bincount(rng.integers(0, classes, int(demand.sum())), minlength=classes)
    return Network(
        supply=supply,
        demand=demand,
        member_hub=hub,
        hub_count=hubs,
        lane_class=lane_class,
        lane_hub=lane_hub,
        lane_cost=rng.integers(0, 6, len(lane_class)),
        arc_class=arc_class,
        arc_member=arc_member,
        arc_capacity=rng.integers(0, 5, len(arc_class)),
        arc_cost=rng.integers(0, 6, len(arc_class)),
        deferred=np.arange(1 if rng.random() < 0.3 else 0),
    )


def max_flow_at_min_cost(network: Network) -> tuple[int, int]:
    """Return the maximum number of units that can be sent, and the minimum cost of that many."""
    solver = min_cost_flow.SimpleMinCostFlow()
    classes, hubs, members = len(network.supply), network.hub_count, len(network.demand)
    source = classes + hubs + members
    add = solver.add_arc_with_capacity_and_unit_cost
    for i, units in enumerate(network.supply.tolist()):
        add(source, i, units, 0)
    lanes = zip(network.lane_class, network.lane_hub, network.lane_cost, strict=True)
    for i, hub, cost in lanes:
        add(int(i), classes + int(hub), NO_LIMIT, int(cost))
    for member in range(members):
        node = classes + hubs + member
        add(classes + int(network.member_hub[member]), node, NO_LIMIT, 0)
        add(node, source + 1, int(network.demand[member]), 0)
    arcs = zip(
        network.arc_class, network.arc_member, network.arc_capacity, network.arc_cost, strict=True
    )
    for i, member, capacity, cost in arcs:
        add(int(i), classes + hubs + int(member), int(capacity), int(cost))
    total = int(network.supply.sum())
    solver.set_node_supply(source, total)
    solver.set_node_supply(source + 1, -total)
    assert solver.solve_max_flow_with_min_cost() == solver.OPTIMAL
    return solver.maximum_flow(), solver.optimal_cost()


def check_flow(network: Network, flow: Flow) -> None:
    """Assert that the flow respects every capacity and conserves units."""
    classes, members = len(network.supply), len(network.demand)
    for amounts in (flow.lanes, flow.arcs, flow.seats, flow.unsent, flow.unmet):
        assert (amounts >= 0).all()
    assert (flow.arcs <= network.arc_capacity).all()
    sent = np.bincount(network.lane_class, flow.lanes, classes)
    sent = sent + np.bincount(network.arc_class, flow.arcs, classes)
    assert (sent == network.supply - flow.unsent).all()
    into = np.bincount(network.lane_hub, flow.lanes, network.hub_count)
    assert (into == np.bincount(network.member_hub, flow.seats, network.hub_count)).all()
    received = flow.seats + np.bincount(network.arc_member, flow.arcs, members)
    assert (received == network.demand - flow.unmet).all()


@pytest.mark.parametrize("first", first_quick(range(0, 2_000, CHUNK)))
def test_the_maximum_flow_at_minimum_cost(first: int) -> None:
    for seed in range(first, first + CHUNK):
        network = random_network(seed)
        solution = solve(network)
        check_flow(network, solution.flow)
        sent = int((network.supply - solution.flow.unsent).sum())
        maximum, cost = max_flow_at_min_cost(network)
        # If not all units can be sent, as many as possible are, at any cost.
        if solution.min_cut is not None:
            assert sent == maximum or len(network.deferred), seed
        else:
            assert (sent, total_cost(solution)) == (maximum, cost), seed
        assert (solution.min_cut is None) == (sent == network.supply.sum()), seed


@pytest.mark.parametrize("first", first_quick(range(0, 8_000, 2_000)))
def test_the_bound_proves_the_optimum(first: int) -> None:
    proved = 0
    for seed in range(first, first + 2_000):
        solution = solve(random_network(seed, filled=True))
        if solution.min_cut is None:
            assert lower_bound(solution) == total_cost(solution), seed
            proved += 1
    assert proved > 120


def test_no_bound_for_a_flow_that_is_not_optimal() -> None:
    """Two classes, two members, swapped: the bound stays below the cost."""
    network = replace(
        random_network(0),
        supply=np.array([1, 1]),
        demand=np.array([1, 1]),
        member_hub=np.array([0, 1]),
        hub_count=2,
        lane_class=np.array([0, 1, 0, 1]),
        lane_hub=np.array([0, 0, 1, 1]),
        lane_cost=np.array([0, 1, 1, 0]),
        **{name: np.zeros(0, np.int64) for name in ("arc_class", "arc_member", "deferred")},
        arc_capacity=np.zeros(0, np.int64),
        arc_cost=np.zeros(0, np.int64),
    )
    best = solve(network)
    assert (total_cost(best), lower_bound(best)) == (0, 0)
    best.flow.lanes[:] = [0, 1, 1, 0]
    with pytest.raises(RuntimeError, match="negative cost"):
        lower_bound(best)


@pytest.mark.parametrize("seed", range(100))
def test_costs_beyond_64_bits_are_exact(seed: int) -> None:
    network = random_network(seed, filled=True)
    factor = 10**25
    huge = replace(
        network,
        lane_cost=network.lane_cost.astype(object) * factor,
        arc_cost=network.arc_cost.astype(object) * factor,
    )
    small, large = solve(network), solve(huge)
    assert (large.min_cut is None) == (small.min_cut is None)
    if large.min_cut is None:
        assert total_cost(large) == total_cost(small) * factor
        assert lower_bound(large) == total_cost(large)


@pytest.mark.parametrize("levels", [2, 17, 18, 40, 100])
def test_costs_of_many_rack_levels_are_exact(levels: int) -> None:
    """Lane costs are Python integers beyond 64 bits, while the network has no direct arcs."""
    costs = crossing_costs(rank_scales([1] * levels, cycle_units=20), max_weight=100)
    assert (costs.dtype == object) == (levels > 2)
    proved = 0
    for seed in range(100):
        network = random_network(seed, filled=True)
        crossed = np.random.default_rng(seed).integers(0, levels + 1, len(network.lane_class))
        none = np.zeros(0, np.int64)
        solution = solve(
            replace(
                network,
                lane_cost=costs[crossed],
                arc_class=none,
                arc_member=none,
                arc_capacity=none,
                arc_cost=none,
            )
        )
        if solution.min_cut is None:
            assert lower_bound(solution) == total_cost(solution), seed
            proved += 1
    assert proved > 5


def test_the_same_network_has_the_same_flow() -> None:
    def flows(solution: Solution) -> list[list[int]]:
        flow = solution.flow
        return [flow.lanes.tolist(), flow.arcs.tolist(), flow.seats.tolist()]

    for seed in range(50):
        assert flows(solve(random_network(seed))) == flows(solve(random_network(seed)))
