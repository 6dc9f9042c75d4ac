"""The transportation solver against OR-tools, and its proofs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement_core.flow import (
    Solution,
    crossing_costs,
    lower_bound,
    rank_scales,
    solve,
    total_cost,
)
from tests.support.networks import check_flow, max_flow_at_min_cost, random_network

CHUNK = 500


@pytest.mark.parametrize("first", range(0, 2_000, CHUNK))
def test_the_maximum_flow_at_minimum_cost(first: int) -> None:
    for seed in range(first, first + CHUNK):
        network = random_network(seed)
        solution = solve(network)
        check_flow(network, solution.flow)
        sent = int((network.supply - solution.flow.unsent).sum())
        maximum, cost = max_flow_at_min_cost(network)
        # If not all units can be sent, deferred classes come last at any cost.
        if not len(network.deferred) or solution.min_cut is None:
            assert (sent, total_cost(solution)) == (maximum, cost), seed
        assert (solution.min_cut is None) == (sent == network.supply.sum()), seed


@pytest.mark.parametrize("first", range(0, 8_000, 2_000))
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
