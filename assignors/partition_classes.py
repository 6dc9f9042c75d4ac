"""Partitions that are alike to every member, counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assignors.encoding import NOBODY, Group, same_subscribers
from assignors.model import Weights
from placement_core.flow import IntArray


@dataclass(frozen=True, slots=True)
class PartitionClasses:
    """Classes of partitions, and the cells (class, member) of what members own.

    of_partition
        The class of each partition.
    topic_class, rack, steps, sizes
        Per class: its topics' class, its leaders' row in ``crossed``, the weight of one of
        its partitions, and how many it has.
    subscribed
        ``[topic class, subscription]``.
    crossed
        ``[rack, member rack]`` for the racks of this table: leader racks that cost every
        member the same are row 0, and costs are relative to that.
    member_rack
        Per member; members whose racks cost the same everywhere share a number.
    cell_class, cell_member, cell_owned
        Per cell, in order of class, then member: how many partitions of the class the member
        owns. ``cell_of_partition`` is -1 for partitions that nobody owns.
    """

    of_partition: IntArray
    topic_class: IntArray
    rack: IntArray
    steps: IntArray
    sizes: IntArray
    subscribed: NDArray[np.bool_]
    crossed: IntArray
    member_rack: IntArray
    cell_class: IntArray
    cell_member: IntArray
    cell_owned: IntArray
    cell_of_partition: IntArray


def classify(group: Group, steps: IntArray, owner: IntArray) -> PartitionClasses:
    """Compress ``group``; ``steps`` and ``owner`` are per partition."""
    topic_class, subscribed = same_subscribers(group)
    crossed, rack_of, member_rack_of = _distinct(group.crossed)
    widest = int(steps.max(initial=1)) + 1
    key = np.repeat(topic_class, group.sizes) * len(crossed) + rack_of[group.leader_rack]
    keys, of_partition, sizes = _number(
        key * widest + steps, len(subscribed) * len(crossed) * widest
    )
    owned = np.flatnonzero(owner != NOBODY)
    count = len(group.members)
    cells, of_owned, cell_owned = _number(
        of_partition[owned] * count + owner[owned], len(keys) * count
    )
    cell_of_partition = np.full(len(owner), -1, np.int64)
    cell_of_partition[owned] = of_owned
    class_key, class_steps = np.divmod(keys, widest)
    return PartitionClasses(
        of_partition=of_partition,
        topic_class=class_key // len(crossed),
        rack=class_key % len(crossed),
        steps=class_steps,
        sizes=sizes,
        subscribed=subscribed,
        crossed=crossed,
        member_rack=member_rack_of[group.member_rack],
        cell_class=cells // max(count, 1),
        cell_member=cells % max(count, 1),
        cell_owned=cell_owned,
        cell_of_partition=cell_of_partition,
    )


def _number(keys: IntArray, bound: int) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct ``keys`` (all below ``bound``) in order, each key's place, and their counts."""
    if bound > 4 * len(keys) + 65_536:
        distinct, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return distinct, place, counts
    counts = np.bincount(keys, minlength=bound)
    distinct = np.flatnonzero(counts)
    place_of = np.empty(bound, np.int64)
    place_of[distinct] = np.arange(len(distinct))
    return distinct, place_of[keys], counts[distinct]


def _distinct(crossed: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """``crossed`` without repeated rows and columns, and each row's and column's place in it.

    A row that is the same everywhere costs the same in every plan: it becomes row 0, zeros.
    """
    relevant = np.where((crossed == crossed[:, :1]).all(axis=1, keepdims=True), 0, crossed)
    columns, column_of = np.unique(relevant, axis=1, return_inverse=True)
    rows, row_of = np.unique(columns, axis=0, return_inverse=True)
    return rows, row_of.reshape(-1), column_of.reshape(-1)


# ---- Traffic weights as small whole numbers.

WEIGHT_STEPS = 100
"""The heaviest partition weighs this many steps; a plan is exact for weights in steps."""


def traffic_steps(group: Group, weights: Weights | None) -> IntArray:
    """Each partition's weight, 1 to :data:`WEIGHT_STEPS`; 1 for all without weights.

    A weight that is missing, negative, infinite or not a number counts as the mean of the
    others. Even a partition without traffic weighs a step, so that it is local where that
    costs nothing else.
    """
    if weights is None:
        return np.ones(int(group.base[-1]), np.int64)
    known = np.full(int(group.base[-1]), np.nan)
    for t, topic in enumerate(group.topics):
        row = _numbers(weights.get(topic, ()))[: group.sizes[t]]
        known[group.base[t] : group.base[t] + len(row)] = row
    known[~np.isfinite(known) | (known < 0)] = np.nan
    if np.isnan(known).all():
        return np.ones(len(known), np.int64)
    heaviest = np.nanmax(known)
    if heaviest <= 0:
        return np.ones(len(known), np.int64)
    shares = known / heaviest
    shares[np.isnan(shares)] = np.nanmean(shares)
    steps = np.rint(shares * WEIGHT_STEPS)
    whole: IntArray = np.maximum(steps, 1).astype(np.int64)
    return whole


def _numbers(row: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The weights of a topic; what is no number becomes NaN."""
    try:
        return np.asarray(row, np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        return np.zeros(0)
