"""From units to partitions: who gets exactly which, within what the optimum leaves free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assignors.partition_classes import PartitionClasses
from placement_core.matching import IntArray


@dataclass(frozen=True, slots=True)
class Shares:
    """An optimal flow, in the numbers of the whole group.

    ``cell_kept``: how many of the partitions of each cell stay with their owner.
    ``class_``, ``member``, ``units``: how many of a class's other partitions a member gets.
    """

    cell_kept: IntArray
    class_: IntArray
    member: IntArray
    units: IntArray


def hand_out(table: PartitionClasses, owner: IntArray, shares: Shares) -> IntArray:
    """The member of each partition.

    Of a cell that shrinks, the lowest partitions stay. The rest of a class, in order of topic and
    number, is dealt to its members in turn: neighbours in a topic go to different members,
    so that no member gets a topic that is hotter than others for itself alone.
    """
    kept = _kept(table, shares.cell_kept)
    member = np.where(kept, owner, -1)
    pool = np.flatnonzero(~kept)
    if len(pool):
        by_class = pool[_stable_order(table.of_partition[pool])]
        member[by_class] = _in_turn(shares)
    return member


def _in_turn(shares: Shares) -> IntArray:
    """Who gets the next partition of each class, class by class.

    Each share is spaced evenly over its class: a member that gets few of a class's partitions
    does not get them all from its first topics, and members of equal shares take turns.
    """
    units = shares.units
    share = np.repeat(np.arange(len(units)), units)
    nth = np.arange(len(share)) - np.repeat(np.cumsum(units) - units, units)
    order = np.argsort(shares.class_[share] + (nth + 0.5) / units[share], kind="stable")
    return shares.member[share[order]]


def _kept(table: PartitionClasses, cell_kept: IntArray) -> NDArray[np.bool_]:
    """Flags of the partitions that stay with their owner."""
    cell = table.cell_of_partition
    kept = cell >= 0
    shrinking = cell_kept < table.cell_owned
    if not shrinking.any():
        return kept
    doubtful = np.flatnonzero(kept)
    doubtful = doubtful[shrinking[cell[doubtful]]]
    order = _stable_order(cell[doubtful])
    cells = cell[doubtful][order]
    starts = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    place = np.arange(len(cells)) - np.repeat(starts, np.diff(np.append(starts, len(cells))))
    kept[doubtful[order]] = place < cell_kept[cells]
    return kept


def _stable_order(keys: IntArray) -> IntArray:
    """Stable argsort; numpy sorts 16-bit keys by radix, in linear time."""
    if int(keys.max(initial=0)) < 1 << 16:
        keys = keys.astype(np.uint16)
    order: IntArray = np.argsort(keys, kind="stable")
    return order
