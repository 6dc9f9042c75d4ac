"""A proof of optimality that does not rest on how the solution was found: linear duality.

Give every class a price w and every hub and member a price v such that no lane leads to a
price above its own (``v_hub <= w_class + cost``) and no seat does (``v_member <= v_hub``).
Then no solution whatever costs less than::

    sum(need x v_member) - sum(supply x w_class) - sum(room x max(0, v_member - w_class - cost))

where the last sum runs over the direct arcs. A solution that costs as much is optimal.
"""

from __future__ import annotations

import numpy as np

from placement_core.flow.min_cost_flow import Solution
from placement_core.flow.network import Lengths
from placement_core.flow.residual import Ruler, measure


def cost_of(solution: Solution) -> int:
    """What the solution's flow costs."""
    network, flow = solution.network, solution.flow
    return int((network.lane_cost * flow.lanes).sum() + (network.arc_cost * flow.arcs).sum())


def lower_bound(solution: Solution) -> int:
    """The least that any solution of the network can cost, by the solution's own prices.

    Prices are the shortest distances in the residual network with every class as a source.
    Only for solutions that send everything and fill every need. Raises RuntimeError where
    the prices break the conditions above, that is, where the solver is at fault.
    """
    network, ruler = solution.network, solution.ruler
    everything = np.arange(len(network.supply))
    distances = measure(network, solution.flow, ruler, everything)
    # A distance is cost x scale + hops with hops < scale, so its cost is what division leaves.
    w = distances.classes // ruler.scale
    # No way leads to a hub without lanes, nor to a member of it whose direct arcs are all
    # full: they may ask any price that is high enough for those arcs.
    dear = int(w.max()) + int(network.arc_cost.max(initial=0))
    v_hub, v = (_prices(d, ruler, dear) for d in (distances.hubs, distances.members))
    if (v_hub[network.lane_hub] > w[network.lane_class] + network.lane_cost).any() or (
        v > v_hub[network.hub]
    ).any():
        raise RuntimeError("prices that prove nothing")
    gain = np.maximum(v[network.arc_member] - w[network.arc_class] - network.arc_cost, 0)
    return int(
        (network.need * v).sum() - (network.supply * w).sum() - (network.arc_room * gain).sum()
    )


def _prices(distances: Lengths, ruler: Ruler, unreached: int) -> Lengths:
    """What lies at ``distances`` costs, and ``unreached`` where there is no way."""
    reached = distances < ruler.unreached
    prices: Lengths = np.where(reached, distances // ruler.scale, unreached)
    return prices
