"""Who gets what, exactly: the solver that assignors and leader layouts share.

The problem. Units (partitions) are to be given to members so that, in this order, loads are
as even as the subscriptions permit, as little as possible crosses racks, and as little as
possible moves. Greedy assignors get the later objectives wrong as soon as the earlier ones
leave a choice, and choosing *one* balanced plan first and improving it afterwards is
wrong too: the best local plan may belong to another balanced one. So the work is cut in a way
that loses nothing:

1. **Compress.** Units that are alike to every member form a class. A plan is then a
   small matrix: how many units of each class each member gets. Of the units that a member
   already owns it can keep ``min(got, owned)`` in every class at once, so that moves, too,
   can be read off the matrix. (:mod:`~placement_core.flow.network`)
2. **Balance, as a set of plans.** The plans with the least sum of squared loads are those in which
   each *block* of members serves its own classes, at loads of the block's level or one less.
   (:mod:`~placement_core.flow.balance`, with the argument.)
3. **Everything below balance, in one flow per block.** A filler, at most one for a member,
   turns "level or one less" into "exactly level": a transportation problem. Objectives of
   several ranks become one integer cost in which a rank outweighs all below it
   (:mod:`~placement_core.flow.network`).
4. **Solve** by successive shortest paths (:mod:`~placement_core.flow.min_cost_flow`).

Why the solver is exact. A flow costs the least among those that send as much if and only if
its residual network has no cycle of negative cost. The empty flow qualifies, since costs are
not negative. Adding units along a shortest path keeps it so: such a cycle would have to use a
reversed arc of the path, and would have made a shorter path before. Each phase finds the
distances by Bellman-Ford (:mod:`~placement_core.flow.residual`), takes the arcs that lie
on shortest paths and pushes until they carry no more (:mod:`~placement_core.flow.residual`;
whole arrays at once for the paths of one step, :mod:`~placement_core.flow.min_cost_flow`). Lengths
count hops below cost, so the shortest paths form a graph without cycles and each phase's paths
are longer than the one's before: the number of phases is bounded. When all units are sent, the
flow is an optimum.

How it is checked. Linear duality gives a lower bound on the cost of any solution from the
solver's final distances; where bound and cost agree, the solution is proved optimal without
trusting how it was found (:mod:`~placement_core.flow.certificate`). The assignors report
that bound with each plan.

Sources: R. Ahuja, T. Magnanti, J. Orlin, *Network Flows* (1993), chapters 9 (successive
shortest paths, reduced costs) and 14 (convex costs); E. Dinic (1970) for blocking flows.
"""

from placement_core.flow.balance import Block, balanced_blocks, components
from placement_core.flow.certificate import cost_of, lower_bound
from placement_core.flow.cycle_canceling import FAR, Exchange, Outer, SquaredLoads, even_out, settle
from placement_core.flow.min_cost_flow import Solution, solve
from placement_core.flow.network import (
    Flow,
    IntArray,
    Lengths,
    Network,
    crossing_costs,
    narrowed,
    units_of_rank,
)

__all__ = [
    "FAR",
    "Block",
    "Exchange",
    "Flow",
    "IntArray",
    "Lengths",
    "Network",
    "Outer",
    "Solution",
    "SquaredLoads",
    "balanced_blocks",
    "components",
    "cost_of",
    "crossing_costs",
    "even_out",
    "lower_bound",
    "narrowed",
    "settle",
    "solve",
    "units_of_rank",
]
