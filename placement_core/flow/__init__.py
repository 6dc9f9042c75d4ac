"""The exact solver that assignors, leader layouts and reassignments share.

The problem. Units (partitions) are to be given to members so that, in this order, loads are as
even as the subscriptions permit, as little as possible crosses racks, and as little as possible
moves. Greedy assignors get the later objectives wrong as soon as the earlier ones leave a choice.
Choosing *one* balanced plan and improving it afterwards is wrong too: the best local plan may
belong to another balanced one. So the work is divided in a way that loses nothing:

1. **Compress.** Units that cost the same to every member form a class. A plan is then a small
   matrix: the number of units of each class that each member gets. A member can keep
   ``min(got, owned)`` of the units that it owned in every class at once, so the number of moved
   units can be read off the matrix too. (:mod:`~placement_core.flow.network`)
2. **Balance, as a set of plans.** The plans with the minimum sum of squared loads are those in
   which each *block* of members serves its own classes, at loads of the block's level or one less.
   (:mod:`~placement_core.flow.balance`, with the argument)
3. **All objectives below balance, in one flow per block.** Fillers, at most one per member, turn
   "level or one less" into "exactly level": a transportation problem. Objectives of several ranks
   become one integer cost in which a rank outweighs all ranks below it.
   (:mod:`~placement_core.flow.costs`)
4. **Solve** by successive shortest paths. (:mod:`~placement_core.flow.network`)

Why the solver is exact. A flow has the minimum cost among those that send as much if and only if
its residual network has no cycle of negative cost. The empty flow qualifies, since costs are not
negative. Adding units along a shortest path keeps it so: such a cycle would have to use a reversed
arc of the path, and would have made a shorter path before. When all units are sent, the flow is an
optimum.

The assignors report with each plan a lower bound that does not trust this argument
(:meth:`~placement_core.flow.network.Network.lower_bound`).

Layouts start from a feasible choice, the present one, and improve it by canceling negative cycles
in a graph of brokers (:mod:`~placement_core.flow.cycle_canceling`).

Sources: R. Ahuja, T. Magnanti, J. Orlin, *Network Flows* (1993), chapters 9 (successive shortest
paths, cycle canceling, reduced costs) and 14 (convex costs); E. Dinic (1970) for blocking flows.
"""

from placement_core.flow.balance import Block, balanced_blocks, connected_components
from placement_core.flow.costs import as_int64, crossing_costs, filler_arcs, rank_scales
from placement_core.flow.cycle_canceling import (
    INF,
    ExchangeGraph,
    LoadCosts,
    SquaredLoads,
    cancel_negative_cycles,
    level_loads,
)
from placement_core.flow.network import CostArray, IntArray, Network, Segments, stable_order

__all__ = [
    "INF",
    "Block",
    "CostArray",
    "ExchangeGraph",
    "IntArray",
    "LoadCosts",
    "Network",
    "Segments",
    "SquaredLoads",
    "as_int64",
    "balanced_blocks",
    "cancel_negative_cycles",
    "connected_components",
    "crossing_costs",
    "filler_arcs",
    "level_loads",
    "rank_scales",
    "stable_order",
]
