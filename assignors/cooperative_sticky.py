"""The sticky assignor: balanced, then local, then at rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from assignors.decoding import Shares, hand_out, make_plan
from assignors.encoding import Group, read_group, read_owners
from assignors.model import LeaderRacks, Member, Plan, Weights, checked_imbalance, most_units
from assignors.partition_classes import PartitionClasses, classify, traffic_steps
from placement_core.flow import (
    Block,
    IntArray,
    Network,
    Solution,
    balanced_blocks,
    components,
    cost_of,
    crossing_costs,
    lower_bound,
    narrowed,
    solve,
    units_of_rank,
)

# ---- The transportation network of one block of a group, for all objectives below balance.


@dataclass(frozen=True, slots=True)
class BlockNetwork:
    """A network, and what its numbers stand for.

    ``classes`` and ``members`` are the numbers in the whole group of the network's classes and
    members; ``cells`` are those of the direct arcs ``cell_arcs``. ``off_rack_unit`` is the cost
    of crossing the narrowest level once, with a weight of one step.
    """

    network: Network
    classes: IntArray
    members: IntArray
    cells: IntArray
    cell_arcs: IntArray
    off_rack_unit: int


def block_network(
    group: Group,
    table: PartitionClasses,
    topic_classes: IntArray,
    subscriptions: IntArray,
    most: IntArray,
    even: bool,
) -> BlockNetwork:
    """Write a block as a network in which every member is filled to ``most`` (per member).

    With ``even``, ``most`` is the block's level and a member may be one below it: who is does not
    matter. Without, a member may be any number below, and the sum of squared loads ranks between
    crossings and moves.

    Costs, highest rank first: crossings of each level in steps of weight, widest level first;
    squared loads (unless even); a unit that its member does not own yet.
    """
    classes = np.flatnonzero(_among(table.topic_class, topic_classes))
    members, hub, hub_subscription, hub_rack = _hubs(group, table, subscriptions)
    reach = table.subscribed[table.topic_class[classes][:, None], hub_subscription[None, :]]
    lane_hub, lane_class = np.nonzero(reach.T)
    need = most[members]
    cells, cell_class, cell_member = _cells_within(table, classes, members)
    fillers = int(need.sum() - table.sizes[classes].sum())
    below = np.ones_like(need) if even else need

    cycle = min(len(classes) + 1, len(hub_subscription) + len(members)) + 1
    heaviest = int(table.steps[classes].max(initial=1))
    ranks = [1] if even else [1, 2 * int(need.max(initial=0)) + 1]
    worth = units_of_rank([*ranks, *[heaviest] * group.depth], cycle)
    of_crossing = crossing_costs(worth[len(ranks) :], heaviest)
    lane_cost = (
        of_crossing[table.crossed[table.rack[classes[lane_class]], hub_rack[lane_hub]]]
        * table.steps[classes[lane_class]]
        + 1
    )
    cell_cost = (
        of_crossing[table.crossed[table.rack[classes[cell_class]], hub_rack[hub[cell_member]]]]
        * table.steps[classes[cell_class]]
    )
    # Filler k of a member takes its load from most - k + 1 to most - k: the square falls by
    # 2 (most - k) + 1, less for each. All plans have as many fillers, so a constant on top
    # keeps costs from being negative.
    filler_member = np.repeat(np.arange(len(members)), below)
    nth = np.arange(len(filler_member)) - np.repeat(np.cumsum(below) - below, below) + 1
    falls = 2 * (need[filler_member] - nth) + 1
    filler_cost = np.zeros(len(nth), np.int64)
    if not even:
        filler_cost = narrowed((int(falls.max(initial=0)) - falls).astype(object) * worth[1])

    arc_member = np.concatenate((cell_member, filler_member))
    order = np.argsort(arc_member, kind="stable")
    arc_class = np.concatenate((cell_class, np.full(len(nth), len(classes))))
    arc_room = np.concatenate((table.cell_owned[cells], np.ones(len(nth), np.int64)))
    arc_cost = np.concatenate((cell_cost, filler_cost))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return BlockNetwork(
        network=Network(
            supply=np.append(table.sizes[classes], fillers),
            need=need,
            hub=hub,
            hubs=len(hub_subscription),
            lane_class=lane_class,
            lane_hub=lane_hub,
            lane_cost=lane_cost,
            arc_class=arc_class[order],
            arc_member=arc_member[order],
            arc_room=arc_room[order],
            arc_cost=arc_cost[order],
            late=np.array([len(classes)]),
        ),
        classes=classes,
        members=members,
        cells=cells,
        cell_arcs=place[: len(cells)],
        off_rack_unit=worth[len(ranks)],
    )


def _among(values: IntArray, wanted: IntArray) -> IntArray:
    flags = np.zeros(int(values.max(initial=-1)) + 1, bool)
    flags[wanted[wanted < len(flags)]] = True
    return flags[values]


def _hubs(
    group: Group, table: PartitionClasses, subscriptions: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """The block's members in order of their hubs, their hubs, and each hub's set and rack."""
    members = np.flatnonzero(_among(group.subscription, subscriptions))
    racks = table.crossed.shape[1]
    key = group.subscription[members] * racks + table.member_rack[members]
    order = np.argsort(key, kind="stable")
    members = members[order]
    hubs, hub = np.unique(key[order], return_inverse=True)
    return members, hub, hubs // racks, hubs % racks


def _cells_within(
    table: PartitionClasses, classes: IntArray, members: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The cells inside the block, and their class and member in the block's own numbers."""
    class_place = np.full(len(table.sizes), -1, np.int64)
    class_place[classes] = np.arange(len(classes))
    member_place = np.full(len(table.member_rack), -1, np.int64)
    member_place[members] = np.arange(len(members))
    cell_class, cell_member = class_place[table.cell_class], member_place[table.cell_member]
    cells = np.flatnonzero((cell_class >= 0) & (cell_member >= 0))
    return cells, cell_class[cells], cell_member[cells]


class LeaderRackAwareCooperativeSticky:
    """Gives every partition to one member, the best plan by these objectives, in this order:

    1. the least sum of squared loads that the subscriptions permit;
    2. the fewest partitions read across racks (with levels: across the widest level, then the
       next; with traffic weights: the least weight instead of the fewest partitions);
    3. the fewest partitions taken from an owner that is still in the group and subscribed.

    What these leave open: each topic is dealt over members, and the plan is the same
    whatever the order of the input. Exact: :mod:`placement_core.flow` says why.

    ``max_imbalance`` (a share, 0 by default) lets a member exceed its balanced ceiling by that
    share where that makes the group more local: the loads' cap is
    ``floor(ceiling x (1 + max_imbalance))``, and below it crossings rank before the sum of squared
    loads. Where no ceiling is high enough for the share to make a whole partition, nothing changes.

    Source: the proposal for leader-rack-aware assignors (KAFKA-17755); cooperative
    rebalancing as of KIP-429.
    """

    def __init__(self, *, max_imbalance: float = 0.0) -> None:
        """Raises InvalidOptionError where ``max_imbalance`` is not a share from 0 to 3."""
        self.max_imbalance = checked_imbalance(max_imbalance)

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,
        weights: Weights | None = None,
    ) -> Plan:
        """The best plan for ``members``.

        ``leader_racks``: topic to the racks of its partitions' leaders, index = partition.
        Topics that are missing from it are not assigned. ``weights``: traffic per partition in any
        one unit. Raises InvalidGroupError where two members have one id, and nothing else for
        what members say of themselves: unknown racks cost locality, stale claims count for nothing.
        """
        group = read_group(members, leader_racks)
        owner = read_owners(group)
        if not len(owner):
            return make_plan(group, owner, owner, 0)
        table = classify(group, traffic_steps(group, weights), owner)
        solved = [(block, solve(block.network)) for block in self._networks(group, table)]
        member = hand_out(table, owner, _shares(table, solved))
        unproved = sum(
            (cost_of(solution) - lower_bound(solution)) // block.off_rack_unit
            for block, solution in solved
        )
        return make_plan(group, member, owner, unproved)

    def _networks(self, group: Group, table: PartitionClasses) -> list[BlockNetwork]:
        sizes = np.bincount(table.topic_class, table.sizes, len(table.subscribed)).astype(np.int64)
        count = np.bincount(group.subscription, minlength=group.subscribed.shape[1])
        blocks = balanced_blocks(sizes, count, table.subscribed)
        level = np.zeros(len(count), np.int64)
        for block in blocks:
            level[block.groups] = block.level
        most = most_units(level, self.max_imbalance)
        if (most == level).all():
            return [_even(group, table, block, level) for block in blocks if len(block.classes)]
        networks = []
        for classes, groups in components(
            np.flatnonzero(sizes), np.arange(len(count)), table.subscribed
        ):
            if not len(classes):
                continue
            if (most[groups] > level[groups]).any():
                cap = np.minimum(most, sizes[classes].sum())[group.subscription]
                networks.append(block_network(group, table, classes, groups, cap, even=False))
            else:
                networks += [
                    _even(group, table, block, level)
                    for block in blocks
                    if len(block.classes) and block.groups[0] in groups
                ]
        return networks


def _even(group: Group, table: PartitionClasses, block: Block, level: IntArray) -> BlockNetwork:
    cap = level[group.subscription]
    return block_network(group, table, block.classes, block.groups, cap, even=True)


def _shares(table: PartitionClasses, solved: list[tuple[BlockNetwork, Solution]]) -> Shares:
    """The blocks' flows in the numbers of the whole group, hubs resolved.

    Any way to seat a hub's units is as good as any other. Lanes and seats both fill the same
    row of units, hub after hub: where either ends, a share ends.
    """
    cell_kept = np.zeros_like(table.cell_owned)
    classes, members, units = [], [], []
    for block, solution in solved:
        network, flow = solution.network, solution.flow
        cell_kept[block.cells] = flow.arcs[block.cell_arcs]
        lane_ends, seat_ends = np.cumsum(flow.lanes), np.cumsum(flow.seats)
        ends = np.union1d(lane_ends, seat_ends)
        ends = ends[ends > 0]
        classes.append(block.classes[network.lane_class[np.searchsorted(lane_ends, ends)]])
        members.append(block.members[np.searchsorted(seat_ends, ends)])
        units.append(np.diff(ends, prepend=0))
    return Shares(cell_kept, *map(np.concatenate, (classes, members, units)))
