"""What a choice of leaders costs beyond its changes, as arcs from brokers to racks and a sink.

A leader's unit runs from its broker to the rack, and on to the sink. On the way it costs,
higher rank first: a partition that is not read locally; the growth of the sum of squared leaders
per broker. (Changes of leader cost where brokers are exchanged; they rank last.)

For one set of readers the arcs are exact: below its lowest quota a rack passes units on for
nothing; up to the highest, through a node that all racks share and that passes on what is
left of the partitions when all lowest quotas are taken; whatever else is not local.

For several sets of readers, each partition's one leader serves all of them, and such shared nodes
cannot be added up. But costs that depend on one rack's leaders alone can: the *surplus* over
highest quotas, or the *shortage* below lowest ones. Either is at most what cannot be local, and
is that where highest and lowest quotas agree (:mod:`~placement_core.leaders.branches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placement_core.exchange import FAR
from placement_core.leaders.quotas import Quotas
from placement_core.matching import IntArray


@dataclass(frozen=True, slots=True)
class Ranks:
    """What a partition that is not local, and one unit of the squares, are worth."""

    local: int
    square: int

    @classmethod
    def of(cls, brokers: int, largest: int) -> Ranks:
        """Such that no simple cycle's lower ranks outweigh a higher one.

        A cycle changes at most one leader per broker, and passes each broker's arc to its rack at
        most once; ``largest`` bounds the leaders of a broker.
        """
        square = brokers + 2
        return cls(local=(brokers + 1) * (2 * largest + 2) * square + brokers + 2, square=square)


@dataclass(frozen=True, slots=True)
class LeaderCosts:
    """The outer costs of a choice of leaders.

    ``rack`` is each broker's, ``base`` the leaders that it has besides. ``exact`` is the one
    set of readers that is counted exactly; ``surplus`` and ``shortage`` are those that are
    counted as their name says.
    """

    rack: IntArray
    base: IntArray
    ranks: Ranks
    racks: int
    exact: Quotas | None = None
    surplus: Sequence[Quotas] = ()
    shortage: Sequence[Quotas] = ()

    def leaders(self, loads: IntArray) -> IntArray:
        """Leaders per rack."""
        counted = np.zeros(self.racks, np.int64)
        np.add.at(counted, self.rack, loads)
        return counted

    def costs(self, loads: IntArray) -> IntArray:
        """See ``Outer``: nodes are brokers, racks, the shared node, the sink."""
        brokers = len(loads)
        shared, sink = brokers + self.racks, brokers + self.racks + 1
        cost = np.full((sink + 1, sink + 1), FAR, np.int64)
        every, racks = np.arange(brokers), np.arange(brokers, shared)
        total = loads + self.base
        cost[every, brokers + self.rack] = (2 * total + 1) * self.ranks.square
        back = np.where(loads > 0, (1 - 2 * total) * self.ranks.square, FAR)
        cost[brokers + self.rack, every] = back
        led = self.leaders(loads)
        if self.exact is not None:
            self._exact(cost, led, self.exact, racks)
            return cost
        cost[racks, sink] = self._marginal(led)
        cost[sink, racks] = -self._marginal(led - 1)
        return cost

    def _marginal(self, led: IntArray) -> IntArray:
        """What one more leader costs in each rack."""
        added = np.zeros(self.racks, np.int64)
        for quotas in self.surplus:
            added += quotas.steps * (led + quotas.elsewhere >= quotas.high)
        for quotas in self.shortage:
            added -= quotas.steps * (led + quotas.elsewhere < quotas.low)
        return added * self.ranks.local

    def _exact(self, cost: IntArray, led: IntArray, quotas: Quotas, racks: IntArray) -> None:
        shared, sink = int(racks[-1]) + 1, int(racks[-1]) + 2
        total = led + quotas.elsewhere
        worth = quotas.steps * self.ranks.local
        rest = quotas.partitions - int(quotas.low.sum())
        low = np.minimum(total, quotas.low)
        between = np.minimum(total - low, quotas.high - quotas.low)
        passed = np.diff(np.minimum(np.cumsum(between), rest), prepend=0)
        beyond = total - low - passed
        cost[racks, sink] = np.where(low < quotas.low, 0, worth)
        cost[sink, racks] = np.where(beyond > 0, -worth, np.where(low > 0, 0, FAR))
        cost[racks[passed < quotas.high - quotas.low], shared] = 0
        cost[shared, racks[passed > 0]] = 0
        if passed.sum() < rest:
            cost[shared, sink] = 0
        if passed.sum() > 0:
            cost[sink, shared] = 0
