"""The transportation network that every matching problem is written as, and a flow in it.

Three kinds of nodes, in layers::

    class --lane--> hub --seat--> member
    class --------direct arc----> member

* A *class* is a set of interchangeable units (partitions of topics with the same
  subscribers whose leaders are in the same rack); ``supply`` says how many.
* A *hub* is a set of members that are alike to every class (same subscription, same rack).
* A *member* takes exactly ``need`` units.

A *lane* has no capacity limit and a cost per unit; a *seat* (each member's one arc from
its hub) has no limit and no cost; a *direct arc* has both a capacity and a cost: it is what
makes one member of a hub differ from the others, such as the partitions it already owns.
Two direct arcs between the same class and member must differ in cost.

Hubs keep the network small: a thousand members of one subscription in three racks have
3 x 3 lanes and a thousand seats instead of 3 x 1000 arcs, and which unit of a hub goes to
which of its seats is left open until the end, because it does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Lengths = NDArray[Any]
"""int64, or Python integers (dtype object) where a length could pass 64 bits."""


@dataclass(frozen=True, slots=True)
class Network:
    """A transportation problem; all arrays are int64, costs are not negative.

    ``hub`` (per member) does not decrease; lanes are in order of their hub, direct arcs in
    order of their member. ``late`` names the classes that are sent last, after all others
    (fillers, which only take up what is left).
    """

    supply: IntArray
    need: IntArray
    hub: IntArray
    hubs: int
    lane_class: IntArray
    lane_hub: IntArray
    lane_cost: Lengths
    arc_class: IntArray
    arc_member: IntArray
    arc_room: IntArray
    arc_cost: Lengths
    late: IntArray


@dataclass(slots=True)
class Flow:
    """Units on each lane, direct arc and seat.

    ``left`` is the supply of each class not yet sent, ``need`` what members still lack.
    """

    lanes: IntArray
    arcs: IntArray
    seats: IntArray
    left: IntArray
    need: IntArray

    @classmethod
    def empty(cls, network: Network) -> Flow:
        """The flow that sends nothing."""
        return cls(
            lanes=np.zeros(len(network.lane_class), np.int64),
            arcs=np.zeros(len(network.arc_class), np.int64),
            seats=np.zeros(len(network.need), np.int64),
            left=network.supply.copy(),
            need=network.need.copy(),
        )


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of equal keys in a sorted array: where each starts, and its key."""

    starts: IntArray
    keys: IntArray

    @classmethod
    def of(cls, ordered: IntArray) -> Segments:
        """The runs of ``ordered``. None is empty: ``ufunc.reduceat`` misreads empty ones."""
        if not len(ordered):
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        return cls(starts, ordered[starts])

    def lower(self, target: Lengths, values: Lengths) -> None:
        """``target[key] = min(target[key], least of the key's values)``."""
        if len(self.starts):
            least = np.minimum.reduceat(values, self.starts)
            target[self.keys] = np.minimum(target[self.keys], least)


# ---- Several objectives, in order of rank, as one integer cost per unit.
#
# Let ``cycle`` bound how often one simple cycle of the residual network can take a unit, and give
# one back: each at most once for every class that it visits, and as often as it visits a hub
# or member. If no cycle can change the objectives below a rank by as much as one unit of that
# rank is worth, then a cycle that improves the ranks in order also lowers the sum, and a solution
# of least sum is a solution that is best in order of rank. Two solutions differ by
# simple cycles, so it is enough to look at those.

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
