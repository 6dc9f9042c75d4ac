"""Where the search for a target starts: all that can stay stays, the rest where load is least."""

from __future__ import annotations

import numpy as np

from placement_core.matching import IntArray
from placement_core.rack_shares import RackTree


def first_choice(
    tree: RackTree,
    held: IntArray,
    replicas: IntArray,
    share: IntArray,
    bounds: tuple[IntArray, IntArray],
    base: IntArray,
    first: IntArray,
) -> IntArray:
    """Replica sets that meet the bounds with as few copies as loads left aside permit.

    Arguments as in :class:`~placement_core.reassignment.replica_sets.ReplicaSets`; ``base`` is
    what brokers carry besides. ``first`` is, per partition, a holder that stays wherever it can,
    -1 for none. Sets that can be extended to lawful ones form a matroid (the
    bounds are nested), so that taking holders one by one keeps as many as can be kept; the
    least loaded come first, since a partition that loses a replica should lose the one
    that its broker can least afford.
    """
    chosen = np.full((len(held), int(replicas.max(initial=0))), -1)
    counts = np.zeros((len(held), len(tree.parent)), np.int64)
    filled = np.zeros(len(held), np.int64)
    least, most = (bound[share] for bound in bounds)
    present = base + np.bincount(held[held >= 0], minlength=len(base))
    weight = np.where((held >= 0) & (held != first[:, None]), present[held], -1)
    ordered = np.take_along_axis(held, np.argsort(weight, axis=1, kind="stable"), axis=1)
    for broker in ordered.T:
        rows = np.flatnonzero((broker >= 0) & (filled < replicas))
        nodes = tree.nodes[tree.leaf[broker[rows]]]
        wider = counts[rows]
        wider[np.arange(len(rows))[:, None], nodes] += 1
        stays = tree.extendable(wider, least[rows], most[rows], replicas[rows])
        rows, wider = rows[stays], wider[stays]
        counts[rows] = wider
        chosen[rows, filled[rows]] = broker[rows]
        filled[rows] += 1
    loads = base + np.bincount(chosen[chosen >= 0], minlength=len(base))
    _fill(tree, chosen, counts, filled, (replicas, least, most), loads)
    return chosen


def _fill(
    tree: RackTree,
    chosen: IntArray,
    counts: IntArray,
    filled: IntArray,
    rules: tuple[IntArray, IntArray, IntArray],
    loads: IntArray,
) -> None:
    """Give every partition what it lacks, a few at a time, from the racks of least load."""
    replicas, least, most = rules
    in_rack = [np.flatnonzero(tree.leaf == rack) for rack in range(len(tree.nodes))]
    together = max(1, len(loads) // 3)
    waiting = np.flatnonzero(filled < replicas)
    while len(waiting):
        rows, waiting = waiting[:together], waiting[together:]
        mean = np.array([loads[brokers].mean() for brokers in in_rack])
        rack_of = np.full(len(rows), -1)
        for rack in np.argsort(mean, kind="stable")[::-1].tolist():
            wider = counts[rows]
            wider[:, tree.nodes[rack]] += 1
            fits = tree.extendable(wider, least[rows], most[rows], replicas[rows])
            rack_of[fits] = rack
        for rack in np.unique(rack_of).tolist():
            here = rows[rack_of == rack]
            for row in here.tolist():
                brokers = in_rack[rack][~np.isin(in_rack[rack], chosen[row])]
                broker = brokers[loads[brokers].argmin()]
                chosen[row, filled[row]] = broker
                loads[broker] += 1
            filled[here] += 1
            counts[here[:, None], tree.nodes[rack]] += 1
        waiting = np.concatenate((rows[filled[rows] < replicas[rows]], waiting))
