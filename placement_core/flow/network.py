"""The transportation network that every assignment problem is written as, and a flow in it.

Nodes stand in three layers::

    class --lane--> hub --seat--> member
    class --------direct arc----> member

*Class*
    A set of interchangeable units, such as the partitions of topics with the same subscribers
    whose leaders are in the same rack. ``supply`` is the number of its units.
*Hub*
    A set of members that cost the same to every class: same subscription, same rack.
*Member*
    Takes exactly ``demand`` units.
*Lane*
    From a class to a hub: a cost per unit, no capacity limit.
*Seat*
    From a hub to each of its members: no cost, no limit.
*Direct arc*
    From a class to one member: a cost and a capacity. Direct arcs express what distinguishes a
    member from the others of its hub, such as the partitions that it already owns. Two direct
    arcs between the same class and member must differ in cost.

Hubs keep the network small. A thousand members with one subscription in three racks need 3 x 3
lanes and a thousand seats instead of 3 x 1000 arcs. Which unit of a hub takes which seat is left
open until the end, because it does not change the cost.

A worked example: partitions 0 and 1 have their leaders in rack a, partition 2 in rack b; member m1
is in a, m2 in b, and m1 owned partition 2. Each member gets 2 units, so there is one filler unit.
An off-rack unit costs 20, a moved one 1::

    class      supply   lane to hub a   lane to hub b   direct arcs (capacity, cost)
    leader a   2        1               21
    leader b   1        21              1               m1 (1, 20): kept, but off-rack
    filler     1                                        m1 (1, 0), m2 (1, 0)

The optimum costs 3: m1 takes both units of leader a, m2 the unit of leader b and the filler; all
three partitions are new to their members, none is off-rack. Keeping partition 2 at m1 would cost
20 for it, 1 for a unit of leader a at m1 and 21 for the other at m2: 42.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_core.errors import SolverLimitError

IntArray = NDArray[np.int64]

CostArray = NDArray[Any]
"""Costs or lengths: int64, or Python integers (dtype object) where 64 bits could overflow."""

MAX_UNITS = 1 << 53
"""Units are added in float64 in places (``np.bincount`` with weights), exact below this."""

MAX_INT64_COST = 1 << 60
"""Costs below this are computed in int64, others as Python integers."""

UNLIMITED = 1 << 60
"""The capacity of lanes and seats; no number of units comes near it."""


@dataclass(frozen=True, slots=True)
class Network:
    """A transportation problem. All arrays are int64, costs may also be Python integers.

    ``member_hub`` (per member) must not decrease; lanes are sorted by hub, direct arcs by member.
    ``deferred`` lists the classes that are sent last, after all others: fillers, which only take
    what is left. Costs must not be negative.

    Raises SolverLimitError if units could add up to :data:`MAX_UNITS`, or if a cost is negative,
    which is what a cost beyond int64 turns into.
    """

    supply: IntArray
    demand: IntArray
    member_hub: IntArray
    hub_count: int
    lane_class: IntArray
    lane_hub: IntArray
    lane_cost: CostArray
    arc_class: IntArray
    arc_member: IntArray
    arc_capacity: IntArray
    arc_cost: CostArray
    deferred: IntArray

    def __post_init__(self) -> None:
        for name in ("supply", "demand", "arc_capacity"):
            units = getattr(self, name)
            largest = int(units.max(initial=0))
            if largest * len(units) >= MAX_UNITS:
                raise SolverLimitError(
                    f"{name} has {len(units)} entries of up to {largest}: the solver is exact for "
                    f"totals below 2^53; use a smaller unit"
                )
        for name in ("lane_cost", "arc_cost"):
            lowest = getattr(self, name).min(initial=0)
            if lowest < 0:
                raise SolverLimitError(
                    f"{name} has the negative cost {lowest}: costs are 0 or more; a cost that "
                    "does not fit into int64 has to be given as a Python integer (dtype object)"
                )


@dataclass(slots=True)
class Flow:
    """The units on each lane, direct arc and seat of a network.

    ``units`` has all of them in this order; ``lanes``, ``arcs`` and ``seats`` are its parts.
    ``unsent`` is the part of each class's supply that is not sent yet, ``unmet`` the part of each
    member's demand that is not met yet.
    """

    units: IntArray
    lanes: IntArray
    arcs: IntArray
    seats: IntArray
    unsent: IntArray
    unmet: IntArray

    @classmethod
    def empty(cls, network: Network) -> Flow:
        """Return the flow that sends nothing."""
        lanes = len(network.lane_class)
        arcs_end = lanes + len(network.arc_class)
        units = np.zeros(arcs_end + len(network.demand), np.int64)
        return cls(
            units=units,
            lanes=units[:lanes],
            arcs=units[lanes:arcs_end],
            seats=units[arcs_end:],
            unsent=network.supply.copy(),
            unmet=network.demand.copy(),
        )


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
    costs: CostArray = np.cumsum(np.array([0, *level_scales], object))
    return costs.astype(np.int64) if costs[-1] * max_weight < MAX_INT64_COST else costs


def as_int64(costs: CostArray) -> CostArray:
    """Return ``costs`` (Python integers) as int64 if all are below :data:`MAX_INT64_COST`."""
    return costs.astype(np.int64) if max(costs, default=0) < MAX_INT64_COST else costs


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of equal keys in a sorted array: the start and the key of each run."""

    starts: IntArray
    keys: IntArray

    @classmethod
    def of(cls, ordered: IntArray) -> Segments:
        """Return the runs of ``ordered``; none is empty, which ``ufunc.reduceat`` would misread."""
        changes = np.ones(len(ordered), bool)
        np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
        starts = changes.nonzero()[0]
        return cls(starts, ordered[starts])

    def lengths(self, total: int) -> IntArray:
        """Return the length of each run; ``total`` is that of the array."""
        ends = np.empty_like(self.starts)
        ends[:-1] = self.starts[1:]
        ends[-1:] = total
        return ends - self.starts

    def minimum_at(self, target: CostArray, values: CostArray) -> None:
        """Set ``target[key]`` to the minimum of itself and the key's values, for each key."""
        if len(self.starts):
            smallest = np.minimum.reduceat(values, self.starts)
            if len(self.keys) == len(target):  # every key, in order
                np.minimum(target, smallest, out=target)
            else:
                target[self.keys] = np.minimum(target[self.keys], smallest)


def connected_components(
    rows: IntArray, columns: IntArray, linked: NDArray[np.bool_]
) -> list[tuple[IntArray, IntArray]]:
    """Return the connected components of a bipartite graph, each as its rows and its columns.

    ``linked[row, column]`` is True where two nodes are joined; only the given ``rows`` and
    ``columns`` count. Components are in order of their first column. A row without any column is
    in none of them.
    """
    linked = linked[rows[:, None], columns]
    if len(rows) and linked.all():
        return [(rows, columns)] if len(columns) else []
    found = []
    pending = np.ones(len(columns), bool)
    while pending.any():
        column_flags = np.zeros(len(columns), bool)
        column_flags[int(np.argmax(pending))] = True
        while True:
            row_flags = linked[:, column_flags].any(axis=1)
            extended = column_flags | linked[row_flags].any(axis=0)
            if (extended == column_flags).all():
                break
            column_flags = extended
        found.append((rows[row_flags], columns[column_flags]))
        pending &= ~column_flags
    return found
