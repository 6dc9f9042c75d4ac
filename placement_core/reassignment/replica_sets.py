"""The replica sets of all partitions, and every exchange of one broker for another in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placement_core.flow import FAR, IntArray
from placement_core.rack_bounds import RackTree

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class ReplicaSets:
    """Which brokers (numbers, not ids) hold each partition; an :class:`~placement_core.flow`
    ``Exchange``.

    chosen
        ``[partition, slot]``: the brokers, in any order; -1 in slots that are not used.
    held
        ``[partition, slot]``: the brokers that hold it today and may keep it; -1 elsewhere.
    share
        Per partition, the row of ``least`` and ``most`` for its replication factor.
    least, most
        ``[share, node]``: the bounds of each node of ``tree``.
    pinned
        Per partition, a broker of ``chosen`` that keeps its replica whatever the loads; -1: none.

    A replica that ``held`` does not have costs 1: it has to be copied.
    """

    tree: RackTree
    chosen: IntArray
    held: IntArray
    share: IntArray
    least: IntArray
    most: IntArray
    pinned: IntArray
    unit: int = 1
    counts: IntArray = field(init=False)
    loads: IntArray = field(init=False)

    def __post_init__(self) -> None:
        brokers, nodes = len(self.tree.leaf), len(self.tree.parent)
        self.counts = np.zeros((len(self.chosen), nodes), np.int64)
        for column in self.chosen.T:
            rows = np.flatnonzero(column >= 0)
            for level in range(self.tree.levels):
                self.counts[rows, self.tree.nodes[self.tree.leaf[column[rows]], level]] += 1
        self.loads = np.bincount(self.chosen[self.chosen >= 0], minlength=brokers)

    def copied(self) -> IntArray:
        """Per partition, the replicas that have to be copied."""
        copied: IntArray = ((self.chosen >= 0) & ~_among(self.chosen, self.held)).sum(axis=1)
        return copied

    def costs(self) -> IntArray:
        """See ``Exchange``: -1, 0 or 1, or FAR.

        An exchange either gives a partition back to a broker that holds it (no copy more), or
        to a broker that does not (a copy more); it saves a copy where the broker that gives was
        to copy. The first kind is read off the lists of holders. The second is open to *every*
        other broker of a rack: those are counted per broker and rack, less, for each broker,
        the partitions that already have to do with it.
        """
        brokers, racks = len(self.tree.leaf), len(self.tree.nodes)
        cost = np.full((brokers, brokers), FAR, np.int64)
        open_to = np.zeros((2, brokers, racks), np.int64)
        taken = np.zeros((2, brokers, brokers), np.int64)
        home = ~_among(self.held, self.chosen)
        gains = self._gains()
        for column in self.chosen.T:
            rows = np.flatnonzero((column >= 0) & (column != self.pinned))
            giver = column[rows]
            fresh = (~_among(giver[:, None], self.held[rows])[:, 0]).astype(np.int64)
            loses = self._loses(rows, giver)
            permitted = np.empty((len(rows), racks), bool)
            for rack in range(racks):
                shared = self.tree.common[self.tree.leaf[giver], rack]
                permitted[:, rack] = loses[np.arange(len(rows)), shared]
                permitted[:, rack] &= gains[rows, rack, shared]
                key = fresh[permitted[:, rack]] * brokers + giver[permitted[:, rack]]
                counted = np.bincount(key, minlength=2 * brokers)
                open_to[:, :, rack] += counted.reshape(2, brokers)
            for others, is_held in ((self.chosen, False), (self.held, True)):
                for slot, other in enumerate(others[rows].T):
                    known = (other >= 0) & permitted[np.arange(len(rows)), self.tree.leaf[other]]
                    if is_held:
                        known &= home[rows, slot]
                    of_giver, of_other, is_fresh = giver[known], other[known], fresh[known]
                    key = (is_fresh * brokers + of_giver) * brokers + of_other
                    taken += np.bincount(key, minlength=taken.size).reshape(taken.shape)
                    if is_held:
                        np.minimum.at(cost, (of_giver, of_other), -is_fresh)
        elsewhere = open_to[:, :, self.tree.leaf] > taken
        for fresh_giver in (0, 1):
            np.minimum(cost, 1 - fresh_giver, out=cost, where=elsewhere[fresh_giver])
        np.fill_diagonal(cost, FAR)
        return cost

    def find(self, source: int, target: int, cost: int, most: int) -> IntArray:
        """See ``Exchange``. The partitions are spread evenly over all that can."""
        slots = np.flatnonzero(self.chosen.reshape(-1) == source)
        rows: IntArray = slots // self.chosen.shape[1]
        rows = rows[(self.pinned[rows] != source) & ~(self.chosen[rows] == target).any(axis=1)]
        saved = (self.held[rows] == source).any(axis=1).astype(np.int64) - 1
        added = 1 - (self.held[rows] == target).any(axis=1).astype(np.int64)
        rows = rows[saved + added == cost]
        rack = self.tree.leaf[target]
        shared = self.tree.common[self.tree.leaf[source], rack]
        giver = np.full(len(rows), source)
        rows = rows[self._loses(rows, giver)[:, shared] & self._gain(rows, rack)[:, shared]]
        if len(rows) <= most:
            return rows
        return rows[np.arange(most) * len(rows) // most]

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """See ``Exchange``."""
        slot = (self.chosen[partitions] == source).argmax(axis=1)
        self.chosen[partitions, slot] = target
        for broker, step in ((source, -1), (target, 1)):
            self.counts[partitions[:, None], self.tree.nodes[self.tree.leaf[broker]]] += step
            self.loads[broker] += step * len(partitions)

    def _loses(self, rows: IntArray, giver: IntArray) -> Flags:
        """``[row, shared]``: may the giver's nodes below the shared levels have one less?"""
        nodes = self.tree.nodes[self.tree.leaf[giver]]
        spare = self.counts[rows[:, None], nodes] > self.least[self.share[rows][:, None], nodes]
        return _from_each_level(spare)

    def _gain(self, rows: IntArray, rack: int) -> Flags:
        """``[row, shared]``: may the rack's nodes below the shared levels have one more?"""
        nodes = self.tree.nodes[rack]
        room = self.counts[rows[:, None], nodes] < self.most[self.share[rows][:, None], nodes]
        return _from_each_level(room)

    def _gains(self) -> Flags:
        rows = np.arange(len(self.chosen))
        return np.stack([self._gain(rows, rack) for rack in range(len(self.tree.nodes))], axis=1)


def _among(values: IntArray, sets: IntArray) -> Flags:
    """Flags of ``values[row, slot]`` that ``sets[row]`` has."""
    return np.stack([(sets == column[:, None]).any(axis=1) for column in values.T], axis=1)


def _from_each_level(permitted: Flags) -> Flags:
    """``[row, l]``: is it permitted at all levels from l on? True beyond the last one."""
    whole = np.ones((len(permitted), permitted.shape[1] + 1), bool)
    whole[:, :-1] = np.logical_and.accumulate(permitted[:, ::-1], axis=1)[:, ::-1]
    return whole
