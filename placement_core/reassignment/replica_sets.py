"""The replica sets of all partitions, and every exchange of one broker for another in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_core.flow import INF, IntArray
from placement_core.rack_bounds import RackTree
from placement_core.racks import RackPath

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class ReplicaSets:
    """Which brokers hold each partition; an :class:`~placement_core.flow.ExchangeGraph`.

    Brokers are numbers, not ids. A replica that is not in ``held`` has to be copied; it costs 1.

    chosen
        ``[partition, slot]``: the brokers, in any order; -1 in unused slots.
    held
        ``[partition, slot]``: the brokers that hold it at present and stay; -1 elsewhere.
    replicas
        Per partition, the replication factor of the target.
    bounds_of
        Per partition, the row of ``lower`` and ``upper`` for its replication factor.
    lower, upper
        ``[row, node]``: the bounds of each node of ``tree`` (:mod:`placement_core.racks`).
    pinned
        Per partition, a broker of ``chosen`` that keeps its replica whatever the loads; -1: none.
    counts
        ``[partition, node]``: the replicas of ``chosen`` below each node.
    """

    tree: RackTree
    chosen: IntArray
    held: IntArray
    replicas: IntArray
    bounds_of: IntArray
    lower: IntArray
    upper: IntArray
    pinned: IntArray
    counts: IntArray
    loads: IntArray
    cost_scale: int = 1

    @classmethod
    def of(cls, racks: Sequence[RackPath], held: IntArray, replicas: IntArray) -> ReplicaSets:
        """Return empty sets; ``racks`` has the rack of each broker."""
        tree = RackTree.of(racks)
        factors, bounds_of = np.unique(replicas, return_inverse=True)
        bounds = [tree.bounds(factor) for factor in factors.tolist()]
        lower, upper = (np.stack(rows) for rows in zip(*bounds, strict=True))
        return cls(
            tree=tree,
            chosen=np.full((len(held), int(replicas.max(initial=0))), -1),
            held=held,
            replicas=replicas,
            bounds_of=bounds_of,
            lower=lower,
            upper=upper,
            pinned=np.full(len(held), -1),
            counts=np.zeros((len(held), len(tree.parent)), np.int64),
            loads=np.zeros(len(racks), np.int64),
        )

    def is_short(self, rows: IntArray | slice = slice(None)) -> Flags:
        """Return whether each partition has fewer replicas than it shall have."""
        short: Flags = (self.chosen[rows] >= 0).sum(axis=1) < self.replicas[rows]
        return short

    def can_add(self, rows: IntArray, racks: IntArray) -> Flags:
        """Return whether each partition may get a replica in its rack, and then all others."""
        extended, bounds = self.counts[rows], self.bounds_of[rows]
        extended[np.arange(len(rows))[:, None], self.tree.nodes[racks]] += 1
        return self.tree.can_extend(
            extended, self.lower[bounds], self.upper[bounds], self.replicas[rows]
        )

    def add(self, rows: IntArray, brokers: IntArray) -> None:
        """Add one broker to each set."""
        self.chosen[rows, (self.chosen[rows] >= 0).sum(axis=1)] = brokers
        self.counts[rows[:, None], self.tree.nodes[self.tree.rack_of[brokers]]] += 1
        np.add.at(self.loads, brokers, 1)

    def copied(self) -> IntArray:
        """Return per partition the number of replicas that have to be copied."""
        copied: IntArray = ((self.chosen >= 0) & ~_among(self.chosen, self.held)).sum(axis=1)
        return copied

    def costs(self) -> IntArray:
        """See ``ExchangeGraph``: -1, 0 or 1, or INF.

        An exchange goes to a broker that holds the partition (no copy) or to one that does not (a
        copy); it saves a copy if the broker that gives was to copy. The first kind is read off the
        lists of holders. The second is open to *every* other broker of a rack: the partitions for
        it are counted per broker and rack, less, for each broker, those that it has or holds.
        """
        brokers, racks = len(self.tree.rack_of), len(self.tree.nodes)
        cost = np.full((brokers, brokers), INF, np.int64)
        open_to = np.zeros((2, brokers, racks), np.int64)
        excluded = np.zeros((2, brokers, brokers), np.int64)
        absent = ~_among(self.held, self.chosen)
        can_gain = self._can_gain_by_rack()
        for column in self.chosen.T:
            rows = np.flatnonzero((column >= 0) & (column != self.pinned))
            giver = column[rows]
            fresh = (~_among(giver[:, None], self.held[rows])[:, 0]).astype(np.int64)
            can_lose = self._can_lose(rows, giver)
            permitted = np.empty((len(rows), racks), bool)
            for rack in range(racks):
                shared = self.tree.common_levels[self.tree.rack_of[giver], rack]
                permitted[:, rack] = can_lose[np.arange(len(rows)), shared]
                permitted[:, rack] &= can_gain[rows, rack, shared]
                key = fresh[permitted[:, rack]] * brokers + giver[permitted[:, rack]]
                counted = np.bincount(key, minlength=2 * brokers)
                open_to[:, :, rack] += counted.reshape(2, brokers)
            for others, is_held in ((self.chosen, False), (self.held, True)):
                for slot, other in enumerate(others[rows].T):
                    known = (other >= 0) & permitted[np.arange(len(rows)), self.tree.rack_of[other]]
                    if is_held:
                        known &= absent[rows, slot]
                    of_giver, of_other, is_fresh = giver[known], other[known], fresh[known]
                    key = (is_fresh * brokers + of_giver) * brokers + of_other
                    excluded += np.bincount(key, minlength=excluded.size).reshape(excluded.shape)
                    if is_held:
                        np.minimum.at(cost, (of_giver, of_other), -is_fresh)
        by_copy = open_to[:, :, self.tree.rack_of] > excluded
        for fresh_giver in (0, 1):
            np.minimum(cost, 1 - fresh_giver, out=cost, where=by_copy[fresh_giver])
        np.fill_diagonal(cost, INF)
        return cost

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        """See ``ExchangeGraph``. The partitions are spread evenly over all that qualify."""
        slots = np.flatnonzero(self.chosen.reshape(-1) == source)
        rows: IntArray = slots // self.chosen.shape[1]
        rows = rows[(self.pinned[rows] != source) & ~(self.chosen[rows] == target).any(axis=1)]
        saved = (self.held[rows] == source).any(axis=1).astype(np.int64) - 1
        added = 1 - (self.held[rows] == target).any(axis=1).astype(np.int64)
        rows = rows[saved + added == cost]
        rack = self.tree.rack_of[target]
        shared = self.tree.common_levels[self.tree.rack_of[source], rack]
        giver = np.full(len(rows), source)
        can_lose, can_gain = self._can_lose(rows, giver), self._can_gain(rows, rack)
        rows = rows[can_lose[:, shared] & can_gain[:, shared]]
        if len(rows) <= limit:
            return rows
        return rows[np.arange(limit) * len(rows) // limit]

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """See ``ExchangeGraph``."""
        slot = (self.chosen[partitions] == source).argmax(axis=1)
        self.chosen[partitions, slot] = target
        for broker, step in ((source, -1), (target, 1)):
            self.counts[partitions[:, None], self.tree.nodes[self.tree.rack_of[broker]]] += step
            self.loads[broker] += step * len(partitions)

    def _can_lose(self, rows: IntArray, giver: IntArray) -> Flags:
        """Return ``[row, shared]``: may the giver's nodes below the shared levels have one less?"""
        nodes = self.tree.nodes[self.tree.rack_of[giver]]
        lower = self.lower[self.bounds_of[rows][:, None], nodes]
        return _from_each_level(self.counts[rows[:, None], nodes] > lower)

    def _can_gain(self, rows: IntArray, rack: int) -> Flags:
        """Return ``[row, shared]``: may the rack's nodes below the shared levels have one more?"""
        nodes = self.tree.nodes[rack]
        upper = self.upper[self.bounds_of[rows][:, None], nodes]
        return _from_each_level(self.counts[rows[:, None], nodes] < upper)

    def _can_gain_by_rack(self) -> Flags:
        """Return ``[row, rack, shared]``: :meth:`_can_gain` for every rack."""
        rows = np.arange(len(self.chosen))
        racks = range(len(self.tree.nodes))
        return np.stack([self._can_gain(rows, rack) for rack in racks], axis=1)


def _among(values: IntArray, sets: IntArray) -> Flags:
    """Return ``[row, slot]``: is ``values[row, slot]`` in ``sets[row]``?"""
    return np.stack([(sets == column[:, None]).any(axis=1) for column in values.T], axis=1)


def _from_each_level(permitted: Flags) -> Flags:
    """Return ``[row, l]``: is it permitted at all levels from l on? True beyond the last one."""
    result = np.ones((len(permitted), permitted.shape[1] + 1), bool)
    result[:, :-1] = np.logical_and.accumulate(permitted[:, ::-1], axis=1)[:, ::-1]
    return result
