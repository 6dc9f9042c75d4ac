"""The least sum of squared loads that subscriptions permit, as the set of all plans that reach it.

Members are given as groups of equal subscription, partitions as classes of topics with the
same subscribers. The result is a list of blocks. A plan has the least sum of squared loads
exactly when the partitions of each block go to members of that block and every load in the
block is its level or one less. (That holds for *every* such plan, so the objectives below
balance may choose among all of them, block by block.)

Why this is right. Take ``2 x level - 1`` as the price of every member and every class in a
block. A member at load ``level - 1`` or ``level`` fits that price: its next unit would cost
``2 x load + 1``, its last cost ``2 x load - 1``. Subscriptions inside a block join equal prices.
Those that lead from one block to another lead from a lower price to a higher, because of how
blocks are split off (below). These are the complementary slackness conditions of the
convex flow problem: a plan is optimal if and only if it meets them.

How blocks are found. Suppose that a set of N members and P partitions is one block: its level
is ``h = ceil(P / N)``, and with ``N x h - P`` fillers, at most one for a member, every member
takes exactly h units. That is a transportation problem without costs. If all can be sent,
it is one block. Otherwise take what the unsent units can reach in the residual network: the
least set that maximises "partitions that only it may take, beyond k for each of its members",
where k is h, or h - 1 if it is only fillers that stay unsent. Being least, each part of it is
loaded above k given the rest, so all levels inside are above k; being a maximum, nothing outside is
above k. No subscription leads out of the reached set, and those that lead into it from
outside lead to a higher level: they are cut, and both sides are treated in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.min_cost_flow import solve
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
    """Split a group into its blocks.

    ``sizes`` holds the partitions of each topic class, ``members`` the (positive) number of
    members of each group, ``subscribed[class, group]`` who may take what; every class that
    has partitions needs a subscriber. Groups that can get nothing are in blocks of level 0.
    Blocks come in an order that depends on the input alone.
    """
    blocks: list[Block] = []
    filled = np.flatnonzero(sizes > 0)
    pending = components(filled, np.arange(len(members)), subscribed)
    while pending:
        classes, groups = pending.pop()
        total, count = int(sizes[classes].sum()), int(members[groups].sum())
        level = -(-total // count)
        reach = subscribed[np.ix_(classes, groups)]
        if reach.all():
            blocks.append(Block(classes, groups, level))
            continue
        inside = _overloaded(sizes[classes], members[groups], reach, level)
        if inside is None:
            blocks.append(Block(classes, groups, level))
            continue
        for of_class, of_group in (inside, (~inside[0], ~inside[1])):
            pending += components(classes[of_class], groups[of_group], subscribed)
    return blocks


def components(
    classes: IntArray, groups: IntArray, subscribed: NDArray[np.bool_]
) -> list[tuple[IntArray, IntArray]]:
    """The connected parts of a set of classes and groups, by their lowest group."""
    reach = subscribed[np.ix_(classes, groups)]
    parts = []
    open_groups = np.ones(len(groups), bool)
    while open_groups.any():
        of_group = np.zeros(len(groups), bool)
        of_group[int(np.argmax(open_groups))] = True
        while True:
            of_class = reach[:, of_group].any(axis=1)
            wider = of_group | reach[of_class].any(axis=0)
            if (wider == of_group).all():
                break
            of_group = wider
        parts.append((classes[of_class], groups[of_group]))
        open_groups &= ~of_group
    return parts


def _overloaded(
    sizes: IntArray, members: IntArray, reach: NDArray[np.bool_], level: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
    """Flags of the classes and groups that must carry more than the rest; None if all is level."""
    count = len(members)
    lane_hub, lane_class = np.nonzero(reach.T)
    every_group = np.arange(count)
    filler = len(sizes)
    fillers = int(members.sum()) * level - int(sizes.sum())
    solution = solve(
        Network(
            supply=np.append(sizes, fillers),
            need=members * level,
            hub=every_group,
            hubs=count,
            lane_class=lane_class,
            lane_hub=lane_hub,
            lane_cost=np.zeros(len(lane_class), np.int64),
            arc_class=np.full(count, filler),
            arc_member=every_group,
            arc_room=members,
            arc_cost=np.zeros(count, np.int64),
            late=np.array([filler]),
        )
    )
    if solution.stuck is None:
        return None
    reached = solution.ruler.unreached
    return solution.stuck.classes[:filler] < reached, solution.stuck.members < reached
