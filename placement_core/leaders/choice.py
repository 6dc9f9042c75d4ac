"""Who leads each partition, and every exchange of one leader for another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from placement_core.exchange import FAR
from placement_core.matching import IntArray


@dataclass(slots=True)
class LeaderChoice:
    """The leader (a broker's number, not its id) of each partition; an ``Exchange``.

    options
        ``[partition, slot]``: the brokers that may lead it; -1 in slots that are not used.
    before
        Per partition, who leads it today; -1 where that one may not. Others cost 1: a change.
    chosen
        Per partition, one of its options.
    """

    options: IntArray
    before: IntArray
    chosen: IntArray
    brokers: int
    unit: int = 1
    loads: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.loads = np.bincount(self.chosen, minlength=self.brokers)

    @classmethod
    def of(cls, options: IntArray, before: IntArray, brokers: int) -> LeaderChoice:
        """Today's leaders where they may stay, the first that may elsewhere (there must be one)."""
        first = options[np.arange(len(options)), (options >= 0).argmax(axis=1)]
        stays = (options == before[:, None]).any(axis=1) & (before >= 0)
        before = np.where(stays, before, -1)
        return cls(options, before, np.where(stays, before, first), brokers)

    def changed(self) -> int:
        """The partitions that another leads than before, where that one could stay."""
        return int(((self.chosen != self.before) & (self.before >= 0)).sum())

    def take(self, chosen: IntArray) -> None:
        """Choose ``chosen`` instead."""
        self.chosen = chosen
        self.loads = np.bincount(chosen, minlength=self.brokers)

    def costs(self) -> IntArray:
        """See ``Exchange``: -1, 0 or 1, or FAR."""
        cost = np.full((self.brokers, self.brokers), FAR, np.int64)
        saved = (self.chosen != self.before).astype(np.int64)
        for column in self.options.T:
            rows = np.flatnonzero((column >= 0) & (column != self.chosen))
            price = (column[rows] != self.before[rows]) - saved[rows]
            pair = self.chosen[rows] * self.brokers + column[rows]
            for value in (1, 0, -1):
                there = np.bincount(pair[price == value], minlength=cost.size).reshape(cost.shape)
                np.minimum(cost, value, out=cost, where=there > 0)
        return cost

    def find(self, source: int, target: int, cost: int, most: int) -> IntArray:
        """See ``Exchange``. The partitions are spread evenly over all that can."""
        rows: IntArray = np.flatnonzero(self.chosen == source)
        rows = rows[(self.options[rows] == target).any(axis=1)]
        before = self.before[rows]
        rows = rows[(before != target).astype(np.int64) - (before != source) == cost]
        if len(rows) <= most:
            return rows
        return rows[np.arange(most) * len(rows) // most]

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """See ``Exchange``."""
        self.chosen[partitions] = target
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)
