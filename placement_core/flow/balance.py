"""The minimum sum of squared loads that subscriptions permit, as the set of all plans with it.

Members come as groups of equal subscription, partitions as classes of topics with the same
subscribers. The result is a list of :class:`Block`: a plan has the minimum sum of squared loads if
and only if the partitions of each block go to members of that block and every load in the block is
its level or one less. Since that holds for *every* such plan, the objectives below balance can
choose among all of them, block by block.

Worked example. Members m1, m2, m3 subscribe to {x}, {x, y} and {x, y, z}; the topics x, y, z have
10, 40 and 90 partitions. The mean is below 47, but only m3 may take z, so m3 gets all of z and
nothing else, m2 all of y, m1 all of x: three blocks of level 10, 40 and 90. With 90, 40 and 10
partitions instead, x fills up the other two: one block of level 47, with loads 47, 47 and 46.

Why this is right. Take ``2 x level - 1`` as the price of every member and every class in a block.
A member at load ``level - 1`` or ``level`` fits that price: its next unit would cost
``2 x load + 1``, its last cost ``2 x load - 1``. Subscriptions inside a block join equal prices.
Those from one block to another lead from a lower price to a higher one, because of how blocks are
split off (below). These are the complementary slackness conditions of the convex flow problem: a
plan is optimal if and only if it meets them.

How blocks are found. Suppose that N members and P partitions are one block: its level is
``h = ceil(P / N)``, and with ``N x h - P`` fillers, at most one per member, every member takes
exactly h units. That is a transportation problem without costs. If all units can be sent, it is
one block. Otherwise take what the unsent units can reach in the residual network: the minimal set
that maximises "partitions that only this set may take, beyond k for each of its members", where k
is h, or h - 1 if only fillers stay unsent. It is minimal, so each part of it is loaded above k
given the rest, and all levels inside are above k. It is a maximum, so nothing outside is above k.
No subscription leads out of the reached set, and those that lead into it lead to a higher level:
they are cut, and both sides are treated in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.network import IntArray, Network


@dataclass(frozen=True, slots=True)
class Block:
    """Topic classes (rows) and member groups (columns) whose loads are ``level`` or one less."""

    classes: IntArray
    groups: IntArray
    level: int


def balanced_blocks(
    sizes: IntArray, members: IntArray, subscribed: NDArray[np.bool_]
) -> list[Block]:
    """Return the blocks of a consumer group, in an order that depends on the input alone.

    ``sizes`` is the number of partitions per topic class, ``members`` the (positive) number of
    members per group, ``subscribed[class, group]`` which group subscribes to which class. Every
    class with partitions needs a subscriber. Groups that cannot get any partition are in blocks of
    level 0.
    """
    blocks: list[Block] = []
    non_empty = (sizes > 0).nonzero()[0]
    pending = connected_components(non_empty, np.arange(len(members)), subscribed)
    while pending:
        classes, groups = pending.pop()
        partitions, count = int(sizes[classes].sum()), int(members[groups].sum())
        level = -(-partitions // count)
        within = subscribed[classes[:, None], groups]
        split = None
        if not within.all():
            split = _overloaded(sizes[classes], members[groups], within, level)
        if split is None:
            blocks.append(Block(classes, groups, level))
            continue
        for of_class, of_group in (split, (~split[0], ~split[1])):
            pending += connected_components(classes[of_class], groups[of_group], subscribed)
    return blocks


def _overloaded(
    sizes: IntArray, members: IntArray, subscribed: NDArray[np.bool_], level: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Return flags of the classes and groups that must carry more than the rest.

    None if loads of ``level`` and ``level - 1`` are possible for all.
    """
    groups = np.arange(len(members))
    hub, class_ = subscribed.T.nonzero()
    network = Network(
        supply=sizes,
        demand=members * level,
        member_hub=groups,
        to_hub=(class_, hub, np.zeros(len(hub), np.int64)),
        fillers=(groups, members, np.zeros(len(groups), np.int64)),
    )
    return network.solve().min_cut


def connected_components(
    rows: IntArray, columns: IntArray, linked: NDArray[np.bool_]
) -> list[tuple[IntArray, IntArray]]:
    """Return the connected components of a bipartite graph, each as its rows and its columns.

    ``linked[row, column]`` is True where two nodes are joined; only the given ``rows`` and
    ``columns`` count. Components are in order of their first column. A row without any column is
    in none of them.
    """
    linked = linked[rows[:, None], columns]
    if len(rows) and linked.all():
        return [(rows, columns)] if len(columns) else []
    found = []
    pending = np.ones(len(columns), bool)
    while pending.any():
        column_flags = np.zeros(len(columns), bool)
        column_flags[int(np.argmax(pending))] = True
        while True:
            row_flags = linked[:, column_flags].any(axis=1)
            extended = column_flags | linked[row_flags].any(axis=0)
            if (extended == column_flags).all():
                break
            column_flags = extended
        found.append((rows[row_flags], columns[column_flags]))
        pending &= ~column_flags
    return found
