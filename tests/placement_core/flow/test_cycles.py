"""negative_cycles and fewest_arcs against an enumeration of walks."""

from __future__ import annotations

import numpy as np
import pytest

from placement_core.errors import SolverLimitError
from placement_core.flow import IntArray
from placement_core.flow.cycle_canceling import INF, fewest_arcs, negative_cycles


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


@pytest.mark.parametrize("seed", range(300))
def test_cycles_are_returned_if_and_only_if_one_exists(seed: int) -> None:
    cost = random_costs(seed)
    cycles, arcs = negative_cycles(cost), fewest(cost)
    assert bool(cycles) == (arcs is not None)
    nodes = [node for cycle in cycles for node in cycle]
    assert len(nodes) == len(set(nodes)), "two cycles share a node"
    for cycle in cycles:
        assert length_of(cost, cycle) < 0
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


def test_without_a_negative_cycle_there_is_no_shortest_one() -> None:
    with pytest.raises(AssertionError, match="longer than the graph"):
        fewest_arcs(np.array([[INF, 2], [-1, INF]]))
