"""From arrays back to a plan of plain Python values."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from assignors.intake import Group
from assignors.model import Plan
from assignors.ownership import NOBODY
from placement_core.matching import IntArray


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
