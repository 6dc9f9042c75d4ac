"""From arrays back to a plan of plain Python values."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assignors.encoding import NOBODY, Group
from assignors.model import Plan
from assignors.partition_classes import PartitionClasses
from placement_core.flow import IntArray


def make_plan(group: Group, member: IntArray, owner: IntArray, unproved: int) -> Plan:
    """The plan that gives each partition to ``member``, with its figures.

    ``unproved`` is how many off-rack partitions fewer the solver's bound does not rule out.
    """
    crossed = np.bincount(
        group.crossed[group.leader_rack, group.member_rack[member]], minlength=group.depth + 1
    )
    # Level j from the top is crossed by what crosses at least depth - j + 1 levels from below.
    crossings = tuple(np.cumsum(crossed[:0:-1]).tolist())
    loads = np.bincount(member, minlength=len(group.members)).tolist()
    ids = [m.id for m in group.members]
    with _no_collection():
        partitions = _partitions(group, ids, member)
    return Plan(
        partitions=partitions,
        off_rack=crossings[-1],
        crossings=crossings,
        optimum=max(0, crossings[-1] - unproved),
        moved=int(((owner != NOBODY) & (owner != member)).sum()),
        loads=dict(zip(ids, loads, strict=True)),
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Put the cycle collector off while a plan's many small lists are made.

    None of them can be garbage yet, and looking through them again and again would take as
    long as a quarter of the whole assignment.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _partitions(group: Group, ids: list[str], member: IntArray) -> dict[str, dict[str, list[int]]]:
    """Member id to topic to sorted partition numbers."""
    plan: dict[str, dict[str, list[int]]] = {}
    if not len(member):
        return {id_: {} for id_ in ids}
    small = len(ids) <= 1 << 16
    order = np.argsort(member.astype(np.uint16) if small else member, kind="stable")
    of_member, of_topic = member[order], group.topic_of[order]
    change = (of_member[1:] != of_member[:-1]) | (of_topic[1:] != of_topic[:-1])
    starts = np.flatnonzero(np.concatenate(([True], change)))
    lists = _lists(order - group.base[of_topic], starts)
    topics = np.array(group.topics, object)[of_topic[starts]].tolist()
    bounds = np.searchsorted(of_member[starts], np.arange(len(ids) + 1)).tolist()
    for id_, start, end in zip(ids, bounds, bounds[1:], strict=False):
        # strict=True would cost a third of the time; both slices are cut alike.
        plan[id_] = dict(zip(topics[start:end], lists[start:end], strict=False))
    return plan


def _lists(values: IntArray, starts: IntArray) -> list[list[int]]:
    """``values`` cut at ``starts``.

    Lists of one length are made at a time: ``tolist`` on a matrix of them is several times
    faster than as many slices, and with topics dealt over members there are many short ones.
    """
    lengths = np.diff(np.append(starts, len(values)))
    distinct = np.flatnonzero(np.bincount(lengths))
    if len(distinct) > 16:
        flat, ends = values.tolist(), (starts + lengths).tolist()
        return [flat[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    lists = np.empty(len(starts), object)
    for length in distinct.tolist():
        places = np.flatnonzero(lengths == length)
        firsts = starts[places]
        if length == 1:
            rows = [[value] for value in values[firsts].tolist()]
        else:
            rows = values[firsts[:, None] + np.arange(length)].tolist()
        lists[places] = np.fromiter(rows, object, len(rows))
    cut: list[list[int]] = lists.tolist()
    return cut


# ---- From units to partitions: who gets exactly which, within what the optimum leaves free.


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
