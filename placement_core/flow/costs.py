"""Objectives of several ranks as one integer cost per unit of a network's flow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_core.flow.network import CostArray, IntArray

MAX_INT64_COST = 1 << 60
"""Costs below this are computed in int64, others as Python integers."""


def rank_scales(max_unit_costs: Sequence[int], cycle_units: int) -> list[int]:
    """Return the factor of each objective in the combined cost, lowest rank first (factor 1).

    ``max_unit_costs`` holds, lowest rank first, the maximum that one unit of flow can add to each
    objective. ``cycle_units`` is the maximum number of units that a simple cycle adds.

    Two solutions of equal size differ by simple cycles of the residual network. A simple cycle
    visits each class, hub and member once, so it adds at most as many units as it visits nodes, and
    removes as many. If one unit of a rank costs more than such a cycle can change all lower ranks
    by, a cycle that improves the ranks in order also lowers the sum. So a solution with the minimum
    sum is optimal rank by rank.

    >>> rank_scales([1, 1], 10)
    [1, 11]
    """
    scales: list[int] = []
    below = 0
    for unit_cost in max_unit_costs:
        scales.append(cycle_units * below + 1)
        below += unit_cost * scales[-1]
    return scales


def crossing_costs(level_scales: Sequence[int], max_weight: int) -> CostArray:
    """Return the cost of crossing no rack level, the narrowest, the two narrowest, and so on.

    ``level_scales`` are the factors of the levels, narrowest first. The array is int64 if
    ``max_weight`` times the highest cost stays below :data:`MAX_INT64_COST`, else Python integers.
    """
    return as_int64(np.cumsum(np.array([0, *level_scales], object)), max_weight)


def as_int64(costs: CostArray, max_weight: int = 1) -> CostArray:
    """Return ``costs`` (Python integers) as int64 if all, ``max_weight`` times, are below
    :data:`MAX_INT64_COST`."""
    fits = max(costs, default=0) * max_weight < MAX_INT64_COST
    return costs.astype(np.int64) if fits else costs


def filler_arcs(
    limit: IntArray, before: IntArray | None = None, *, unit: int = 1, even: bool
) -> tuple[IntArray, IntArray]:
    """Return the member and the cost of every filler that a member may take.

    A member is filled to its ``limit``: by fillers and by units of the other classes, each of which
    adds ``unit`` to its load, which is ``before`` without any (default: 0). With ``even``, it takes
    at most one filler, otherwise up to its limit.

    The costs are those of squared loads, up to a factor: the k-th filler of a member lowers its
    load from ``before + unit x (limit - k + 1)`` by ``unit``, and the square of it by less for each
    filler. All solutions have the same number of fillers, so adding a constant to each keeps costs
    from being negative.
    """
    fillers = np.ones_like(limit) if even else limit
    member = np.repeat(np.arange(len(limit)), fillers)
    nth = np.arange(len(member)) - np.repeat(fillers.cumsum() - fillers, fillers) + 1
    decrease = unit * (2 * (limit[member] - nth) + 1)
    if before is not None:
        decrease += 2 * before[member]
    cost = decrease.max(initial=0) - decrease
    return member, cost // max(int(np.gcd.reduce(cost, initial=0)), 1)
