"""A proof of optimality that does not rest on how the solution was found: linear duality.

Give every class a price w and every hub and member a price v such that no lane leads to a price
above its own (``v_hub <= w_class + cost``) and no seat does (``v_member <= v_hub``). Then no
solution of the network costs less than::

    sum(demand x v_member) - sum(supply x w_class)
        - sum(capacity x max(0, v_member - w_class - cost))

where the last sum runs over the direct arcs. A solution that costs as much is optimal.

Sums are exact whatever the size of the costs: in int64 where that is safe, else in Python
integers.
"""

from __future__ import annotations

import numpy as np

from placement_core.flow.min_cost_flow import Solution
from placement_core.flow.network import CostArray, IntArray
from placement_core.flow.residual import ArcLengths, shortest_paths


def total_cost(solution: Solution) -> int:
    """Return the cost of the solution's flow."""
    network, flow = solution.network, solution.flow
    return _dot(network.lane_cost, flow.lanes) + _dot(network.arc_cost, flow.arcs)


def lower_bound(solution: Solution) -> int:
    """Return the minimum that any solution of the network can cost, by the solution's own prices.

    Prices are the shortest distances in the residual network with every class as a source. The
    solution must have sent everything and met every demand. Raises RuntimeError if the prices
    violate the conditions above, which would be a defect of the solver.
    """
    network, lengths = solution.network, solution.lengths
    all_classes = np.arange(len(network.supply))
    distances = shortest_paths(network, solution.flow, lengths, all_classes)
    # A distance is cost x length_per_cost + hops with hops < length_per_cost.
    w = distances.classes // lengths.length_per_cost
    # A hub without lanes cannot be reached, nor its members if their direct arcs are full. Any
    # price that is high enough for those arcs is valid there.
    ceiling_price = int(w.max()) + int(network.arc_cost.max(initial=0))
    v_hub, v = (_prices(d, lengths, ceiling_price) for d in (distances.hubs, distances.members))
    if (v_hub[network.lane_hub] > w[network.lane_class] + network.lane_cost).any() or (
        v > v_hub[network.member_hub]
    ).any():
        raise RuntimeError("prices that prove nothing: a defect of the solver")
    gain = np.maximum(v[network.arc_member] - w[network.arc_class] - network.arc_cost, 0)
    return _dot(v, network.demand) - _dot(w, network.supply) - _dot(gain, network.arc_capacity)


def _prices(distances: CostArray, lengths: ArcLengths, unreachable: int) -> CostArray:
    """Return the cost part of ``distances``, and ``unreachable`` for nodes that have none."""
    reached = distances < lengths.infinity
    prices: CostArray = np.where(reached, distances // lengths.length_per_cost, unreachable)
    return prices


def _dot(costs: CostArray, units: IntArray) -> int:
    """Return the exact sum of ``costs x units`` as a Python integer."""
    largest = max(int(costs.max(initial=0)), -int(costs.min(initial=0)))
    if largest * max(int(units.sum()), 1) >= 1 << 63:
        costs = costs.astype(object)
    return int((costs * units).sum())
