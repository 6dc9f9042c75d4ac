"""Values of the transportation network: limits, and costs beyond int64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from placement_core.errors import SolverLimitError
from placement_core.flow import Network, crossing_costs, lower_bound, solve, total_cost
from placement_core.flow.network import (
    MAX_INT64_COST,
    MAX_UNITS,
    Segments,
    as_int64,
    connected_components,
)

NONE = np.array([], np.int64)
NETWORK = Network(
    supply=np.array([2]),
    demand=np.array([1, 1]),
    member_hub=np.array([0, 0]),
    hub_count=1,
    lane_class=np.array([0]),
    lane_hub=np.array([0]),
    lane_cost=np.array([3]),
    arc_class=NONE,
    arc_member=NONE,
    arc_capacity=NONE,
    arc_cost=NONE,
    deferred=NONE,
)


def test_units_that_do_not_add_up_exactly_are_refused() -> None:
    replace(NETWORK, demand=np.array([MAX_UNITS // 2 - 1, 1]))
    with pytest.raises(SolverLimitError, match="demand has 2 entries of up to 4503599627370496"):
        replace(NETWORK, demand=np.array([MAX_UNITS // 2, 1]))
    with pytest.raises(SolverLimitError, match="supply has 1 entries"):
        replace(NETWORK, supply=np.array([MAX_UNITS]))
    with pytest.raises(SolverLimitError, match="arc_capacity has 1 entries"):
        replace(NETWORK, arc_capacity=np.array([MAX_UNITS]))


def test_negative_costs_are_refused() -> None:
    replace(NETWORK, lane_cost=np.array([0]))
    with pytest.raises(SolverLimitError, match="lane_cost has the negative cost -1"):
        replace(NETWORK, lane_cost=np.array([-1]))
    with pytest.raises(SolverLimitError, match="arc_cost has the negative cost -2"):
        replace(NETWORK, arc_cost=np.array([-2]))


@pytest.mark.parametrize("cost", [3, 1 << 58, 1 << 61, 1 << 62, 10**30])
def test_costs_are_exact_whatever_their_size(cost: int) -> None:
    costs = np.array([cost], object if cost > 1 << 60 else np.int64)
    solution = solve(replace(NETWORK, lane_cost=costs))
    assert total_cost(solution) == lower_bound(solution) == 2 * cost


def test_the_costs_of_levels_add_up() -> None:
    costs = crossing_costs([3, 10], 1)
    assert costs.dtype == np.int64
    assert costs.tolist() == [0, 3, 13]
    assert crossing_costs([], 1).tolist() == [0]
    # Beyond 64 bits.
    assert crossing_costs([1 << 64, 1], 1).tolist() == [0, 1 << 64, (1 << 64) + 1]


@pytest.mark.parametrize(("weight", "kind"), [((1 << 57) - 1, np.int64), (1 << 57, object)])
def test_costs_of_levels_that_weights_bring_beyond_int64_are_python_integers(
    weight: int, kind: type
) -> None:
    assert crossing_costs([3, 5], weight).dtype == kind


def test_python_integers_become_int64_where_they_fit() -> None:
    costs = as_int64(np.array([1, MAX_INT64_COST - 1], object))
    assert costs.dtype == np.int64
    assert costs.tolist() == [1, MAX_INT64_COST - 1]
    assert as_int64(np.array([1, MAX_INT64_COST], object)).dtype == object
    assert as_int64(np.array([], object)).dtype == np.int64


def test_runs_of_equal_keys() -> None:
    runs = Segments.of(np.array([4, 4, 7, 9, 9, 9]))
    assert (runs.starts.tolist(), runs.keys.tolist()) == ([0, 2, 3], [4, 7, 9])
    assert runs.lengths(6).tolist() == [2, 1, 3]
    assert Segments.of(NONE).lengths(0).tolist() == []


def components(linked: list[str], rows: list[int], columns: list[int]) -> list[list[list[int]]]:
    flags = np.array([[mark == "x" for mark in row] for row in linked])
    found = connected_components(np.array(rows, np.int64), np.array(columns, np.int64), flags)
    return [[one.tolist(), other.tolist()] for one, other in found]


def test_components_are_in_order_of_their_first_column() -> None:
    linked = ["x.x.", ".x..", "x...", "...."]
    assert components(linked, [0, 1, 2, 3], [0, 1, 2, 3]) == [
        [[0, 2], [0, 2]],
        [[1], [1]],
        [[], [3]],
    ]
    # Without column 0, rows 0 and 2 are apart, and row 2 is in no component.
    assert components(linked, [0, 1, 2], [1, 2]) == [[[1], [1]], [[0], [2]]]


def test_a_graph_in_which_all_are_joined_is_one_component() -> None:
    assert components(["xx", "xx"], [0, 1], [0, 1]) == [[[0, 1], [0, 1]]]
    assert components(["xx", "xx"], [0, 1], []) == []
    assert components(["xx", "xx"], [], [0, 1]) == [[[], [0]], [[], [1]]]
