"""The transportation solver against OR-tools, and its proofs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement_core.flow import Solution, cost_of, lower_bound, solve
from tests.support.networks import check_flow, most_for_least, random_network

CHUNK = 500


@pytest.mark.parametrize("first", range(0, 2_000, CHUNK))
def test_as_much_as_can_be_sent_at_the_least_cost(first: int) -> None:
    for seed in range(first, first + CHUNK):
        network = random_network(seed)
        solution = solve(network)
        check_flow(network, solution.flow)
        sent = int((network.supply - solution.flow.left).sum())
        most, least = most_for_least(network)
        # Where not all can be sent, late classes give way to the others whatever the cost.
        if not len(network.late) or solution.stuck is None:
            assert (sent, cost_of(solution)) == (most, least), seed
        assert (solution.stuck is None) == (sent == network.supply.sum()), seed


@pytest.mark.parametrize("first", range(0, 8_000, 2_000))
def test_the_bound_proves_the_optimum(first: int) -> None:
    proved = 0
    for seed in range(first, first + 2_000):
        solution = solve(random_network(seed, filled=True))
        if solution.stuck is None:
            assert lower_bound(solution) == cost_of(solution), seed
            proved += 1
    assert proved > 120


def test_the_bound_does_not_prove_what_is_dearer_than_need_be() -> None:
    """Two classes, two members, swapped: the bound stays below the cost."""
    network = replace(
        random_network(0),
        supply=np.array([1, 1]),
        need=np.array([1, 1]),
        hub=np.array([0, 1]),
        hubs=2,
        lane_class=np.array([0, 1, 0, 1]),
        lane_hub=np.array([0, 0, 1, 1]),
        lane_cost=np.array([0, 1, 1, 0]),
        **{name: np.zeros(0, np.int64) for name in ("arc_class", "arc_member", "late")},
        arc_room=np.zeros(0, np.int64),
        arc_cost=np.zeros(0, np.int64),
    )
    best = solve(network)
    assert (cost_of(best), lower_bound(best)) == (0, 0)
    best.flow.lanes[:] = [0, 1, 1, 0]
    with pytest.raises(RuntimeError, match="negative cost"):
        lower_bound(best)


@pytest.mark.parametrize("seed", range(100))
def test_costs_beyond_64_bits_are_as_exact(seed: int) -> None:
    network = random_network(seed, filled=True)
    factor = 10**25
    huge = replace(
        network,
        lane_cost=network.lane_cost.astype(object) * factor,
        arc_cost=network.arc_cost.astype(object) * factor,
    )
    small, large = solve(network), solve(huge)
    assert (large.stuck is None) == (small.stuck is None)
    if large.stuck is None:
        assert cost_of(large) == cost_of(small) * factor
        assert lower_bound(large) == cost_of(large)


def test_the_same_network_has_the_same_flow() -> None:
    def flows(solution: Solution) -> list[list[int]]:
        flow = solution.flow
        return [flow.lanes.tolist(), flow.arcs.tolist(), flow.seats.tolist()]

    for seed in range(50):
        assert flows(solve(random_network(seed))) == flows(solve(random_network(seed)))
