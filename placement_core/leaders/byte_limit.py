"""A limit of bytes per broker: leaders move off brokers that serve too many.

What a partition's leader serves is what is written to it and what each group reads from it. To keep
all brokers below a limit is bin packing, which is NP-hard. There are two steps:

1. Single leaders move off brokers above the limit: each time the move that adds the fewest bytes
   across racks, and among these the one that takes off the most.
2. If that is not enough, leaders are chosen anew, the heaviest partition first and on the broker
   with the most room, with backtracking (MAX_TRIES: all choices of 8 partitions with 3 replicas).

Then single leaders move within the limit, while that makes bytes local.
"""

from __future__ import annotations

import numpy as np

from placement_core.flow import INF, IntArray
from placement_core.leaders.bound import Relaxation

MAX_TRIES = 20_000
"""The maximum number of leaders that the second step tries."""


def keep_byte_limit(
    problem: Relaxation, chosen: IntArray, size: IntArray, room: IntArray
) -> IntArray:
    """Return leaders within the limit if found, else with fewer bytes above it than ``chosen``.

    Per partition, ``chosen`` is its leader and ``size`` what that serves; per broker, ``room`` is
    what its leaders may serve. Limits of the number of leaders are kept as well.
    """
    moved = _move_singly(problem, chosen, size, room, off_brokers=True)
    if (byte_excess(moved, size, room) > 0).any():
        anew = _choose_anew(problem, size, room)
        if anew is None:
            return moved
        moved = anew
    elif (moved == chosen).all():
        return chosen
    return _move_singly(problem, moved, size, room, off_brokers=False)


def byte_excess(chosen: IntArray, size: IntArray, room: IntArray) -> IntArray:
    """Return per broker what it serves above ``room``; below it, negative numbers."""
    served = np.zeros_like(room)
    np.add.at(served, chosen, size)
    excess: IntArray = served - room
    return excess


def _move_singly(
    problem: Relaxation, chosen: IntArray, size: IntArray, room: IntArray, *, off_brokers: bool
) -> IntArray:
    """Move single leaders: off brokers above ``room``, or to where more is local within it."""
    chosen = chosen.copy()
    excess = byte_excess(chosen, size, room)
    leaders = np.bincount(chosen, minlength=len(room))
    counts = np.zeros((len(problem.reads), problem.rack_slots), np.int64)
    np.add.at(counts, (problem.class_of, problem.rack_of[chosen]), 1)
    while True:
        rows = np.flatnonzero(excess[chosen] > 0) if off_brokers else np.arange(len(chosen))
        source, target = chosen[rows, None], problem.brokers[rows]
        allowed = (target >= 0) & (target != source)
        if problem.room is not None:
            allowed &= (leaders < problem.room)[target]
        weight = size[rows, None]
        less = np.minimum(weight, np.maximum(excess[source], 0))
        less = less - np.clip(excess[target] + weight, 0, weight)
        own = problem.own_cost[rows]
        cost = own - np.take_along_axis(own, (target == source).argmax(axis=1)[:, None], axis=1)
        of_class = _exchange_costs(problem, counts)
        cost += of_class[
            problem.class_of[rows, None], problem.rack_of[source], problem.rack_of[target]
        ]
        allowed &= (less > 0) if off_brokers else (less >= 0) & (cost < 0)
        if not allowed.any():
            return chosen
        cost[~allowed] = INF
        less[cost > cost.min()] = -INF
        row, slot = np.unravel_index(int(less.argmax()), less.shape)
        partition, old, new = int(rows[row]), int(source[row, 0]), int(target[row, slot])
        chosen[partition] = new
        for broker, sign in ((old, -1), (new, 1)):
            leaders[broker] += sign
            excess[broker] += sign * size[partition]
            counts[problem.class_of[partition], problem.rack_of[broker]] += sign


def _exchange_costs(problem: Relaxation, counts: IntArray) -> IntArray:
    """Return ``[class, from, to]``: what is read across more if a leader changes its rack."""
    quotas, racks = problem.quotas, problem.rack_slots
    low, high, others = problem.quota_arrays()
    leaders = problem.reads.T.astype(np.int64) @ counts + others
    surplus, shortage = np.maximum(leaders - high, 0), np.maximum(low - leaders, 0)
    after = [
        bound.sum(axis=1)[:, None, None] - minus[:, :, None] + plus[:, None, :]
        for bound, minus, plus in (
            (surplus, leaders > high, leaders >= high),
            (shortage, -(leaders <= low).astype(np.int64), -(leaders < low).astype(np.int64)),
        )
    ]
    weight = np.array([each.weight for each in quotas], np.int64)[:, None, None]
    before = np.maximum(surplus.sum(axis=1), shortage.sum(axis=1))[:, None, None]
    change = (np.maximum(*after) - before) * weight
    change[:, np.arange(racks), np.arange(racks)] = 0
    of_class: IntArray = problem.reads @ change.reshape(len(quotas), racks * racks)
    return of_class.reshape(len(counts), racks, racks)


def _choose_anew(problem: Relaxation, size: IntArray, room: IntArray) -> IntArray | None:
    """Return leaders within all limits; None if none were found."""
    order = np.argsort(-size, kind="stable").tolist()
    left = room.tolist()
    free = [len(order)] * len(left) if problem.room is None else problem.room.tolist()
    options = [[b for b in row if b >= 0] for row in problem.brokers.tolist()]
    weight = size.tolist()
    led: list[int] = []  # By the first partitions of the order.
    untried: list[list[int]] = []  # For these, and for the next one.
    for _ in range(MAX_TRIES + 2 * len(order)):
        if len(led) == len(order):
            chosen = np.zeros(len(order), np.int64)
            chosen[order] = led
            return chosen
        partition = order[len(led)]
        if len(untried) == len(led):
            untried.append(
                sorted(
                    (b for b in options[partition] if left[b] >= weight[partition] and free[b] > 0),
                    key=left.__getitem__,
                )
            )
        if untried[-1]:
            broker = untried[-1].pop()
            led.append(broker)
            left[broker] -= weight[partition]
            free[broker] -= 1
        elif led:
            untried.pop()
            broker = led.pop()
            left[broker] += weight[order[len(led)]]
            free[broker] += 1
        else:
            return None
    return None
