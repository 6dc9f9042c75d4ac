"""Costs of several ranks: one outweighs all below it, and none overflows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core.flow import as_int64, crossing_costs, filler_arcs, rank_scales
from placement_core.flow.costs import MAX_INT64_COST


def test_the_costs_of_levels_add_up() -> None:
    costs = crossing_costs([3, 10], 1)
    assert costs.dtype == np.int64
    assert costs.tolist() == [0, 3, 13]
    assert crossing_costs([], 1).tolist() == [0]
    # Beyond 64 bits.
    assert crossing_costs([1 << 64, 1], 1).tolist() == [0, 1 << 64, (1 << 64) + 1]


@pytest.mark.parametrize(("weight", "kind"), [((1 << 57) - 1, np.int64), (1 << 57, object)])
def test_weighted_costs_beyond_int64_are_python_integers(weight: int, kind: type) -> None:
    assert crossing_costs([3, 5], weight).dtype == kind


def test_python_integers_become_int64_where_they_fit() -> None:
    costs = as_int64(np.array([1, MAX_INT64_COST - 1], object))
    assert costs.dtype == np.int64
    assert costs.tolist() == [1, MAX_INT64_COST - 1]
    assert as_int64(np.array([1, MAX_INT64_COST], object)).dtype == object
    assert as_int64(np.array([], object)).dtype == np.int64


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize("before", [None, [4, 0]])
def test_cheapest_fillers_leave_the_least_squares(unit: int, before: list[int] | None) -> None:
    limit = np.array([3, 2])
    base = np.array(before or [0, 0])
    member, cost = filler_arcs(limit, None if before is None else base, unit=unit, even=False)
    assert member.tolist() == [0, 0, 0, 1, 1]
    for count in range(6):
        taken = np.bincount(member[np.argsort(cost, kind="stable")[:count]], minlength=2)
        best = min(
            int(((base + unit * (limit - [first, count - first])) ** 2).sum())
            for first in range(count + 1)
            if first <= 3 and count - first <= 2
        )
        assert int(((base + unit * (limit - taken)) ** 2).sum()) == best


def test_even_members_take_one_filler_at_equal_cost() -> None:
    member, cost = filler_arcs(np.array([2, 2, 2]), even=True)
    assert (member.tolist(), cost.tolist()) == ([0, 1, 2], [0, 0, 0])


@given(st.lists(st.integers(1, 50), max_size=5), st.integers(1, 1000))
def test_a_rank_outweighs_all_lower_ranks_of_a_cycle(largest: list[int], cycle: int) -> None:
    scales = rank_scales(largest, cycle)
    for rank, unit in enumerate(scales):
        below = sum(w * maximum for w, maximum in zip(scales[:rank], largest, strict=False))
        assert unit > cycle * below
