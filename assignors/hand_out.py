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
    Lanes (class, hub, units) say how many of a class's other partitions go to a hub, seats
    (member, hub, units; in order of the hub) how many a member takes from it.
    """

    cell_kept: IntArray
    lane_class: IntArray
    lane_hub: IntArray
    lane_units: IntArray
    seat_member: IntArray
    seat_hub: IntArray
    seat_units: IntArray


def hand_out(table: PartitionClasses, owner: IntArray, shares: Shares) -> IntArray:
    """The member of each partition.

    Of a cell that shrinks, the lowest partitions stay. The rest of a class is dealt to its
    hubs in turn, in proportion, and what a hub gets, in order of topic and number, to its members
    in turn: neighbours in a topic go to different members, so that no member gets a topic
    that is hotter than others for itself alone.
    """
    kept = _kept(table, shares.cell_kept)
    member = np.where(kept, owner, -1)
    pool = np.flatnonzero(~kept)
    if len(pool):
        by_hub, hub = _deal_to_hubs(table.of_partition, pool, shares)
        seats = _seats_in_turn(shares)
        member[by_hub[_stable_order(hub)]] = seats
    return member


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


def _deal_to_hubs(
    of_partition: IntArray, pool: IntArray, shares: Shares
) -> tuple[IntArray, IntArray]:
    """The pool in ascending order, and the hub of each of its partitions."""
    used = np.flatnonzero(shares.lane_units)
    used = used[np.argsort(shares.lane_class[used], kind="stable")]
    units, classes = shares.lane_units[used], shares.lane_class[used]
    lane = np.repeat(np.arange(len(used)), units)
    if (classes[1:] == classes[:-1]).any():
        nth = np.arange(len(lane)) - np.repeat(np.cumsum(units) - units, units)
        # Evenly spaced within its class. The lanes of a class are sorted runs already, which
        # a stable sort merges.
        lane = lane[np.argsort(classes[lane] + (nth + 0.5) / units[lane], kind="stable")]
    hub = np.empty(len(pool), np.int64)
    hub[_stable_order(of_partition[pool])] = shares.lane_hub[used][lane]
    return pool, hub


def _seats_in_turn(shares: Shares) -> IntArray:
    """The member of each seat, hub by hub, in rounds over the hub's members."""
    units = shares.seat_units
    seat = np.repeat(np.arange(len(units)), units)
    turn = np.arange(len(seat)) - np.repeat(np.cumsum(units) - units, units)
    order = _stable_order(turn)
    order = order[_stable_order(shares.seat_hub[seat[order]])]
    return shares.seat_member[seat[order]]


def _stable_order(keys: IntArray) -> IntArray:
    """Stable argsort; numpy sorts 16-bit keys by radix, in linear time."""
    if int(keys.max(initial=0)) < 1 << 16:
        keys = keys.astype(np.uint16)
    order: IntArray = np.argsort(keys, kind="stable")
    return order
