"""Several objectives, in order of rank, as one integer cost per unit.

Let ``cycle`` bound how often one simple cycle of the residual network can take a unit, and give
one back: each at most once for every class that it visits, and as often as it visits a hub
or member. If no cycle can change the objectives below a rank by as much as one unit of that
rank is worth, then a cycle that improves the ranks in order also lowers the sum, and a solution
of least sum is a solution that is best in order of rank. Two solutions differ by
simple cycles, so it is enough to look at those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_core.matching.network import Lengths

SAFE = 1 << 60
"""Costs below this fit 64 bits with room to spare; others are kept as Python integers."""


def units_of_rank(largest: Sequence[int], cycle: int) -> list[int]:
    """What one unit of each objective is worth, lowest rank first (worth 1).

    ``largest`` holds, lowest rank first, the most that a single unit of flow can count for.

    >>> units_of_rank([1, 1], cycle=10)
    [1, 11]
    """
    worth: list[int] = []
    below = 0
    for most in largest:
        worth.append(cycle * below + 1)
        below += most * worth[-1]
    return worth


def crossing_costs(worth: Sequence[int], heaviest: int) -> Lengths:
    """What it costs to cross no level, the narrowest, the two narrowest, and so on.

    ``worth`` is what each level is worth, narrowest first. int64 where ``heaviest`` times the
    dearest is :data:`SAFE`, else Python integers.
    """
    costs: Lengths = np.cumsum(np.array([0, *worth], object))
    return costs.astype(np.int64) if costs[-1] * heaviest < SAFE else costs


def narrowed(costs: Lengths) -> Lengths:
    """``costs`` (Python integers) as int64 where they are :data:`SAFE`."""
    return costs.astype(np.int64) if max(costs, default=0) < SAFE else costs
