"""The sticky assignor: balanced, then local, then at rest."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from assignors.block_network import BlockNetwork, block_network
from assignors.hand_out import Shares, hand_out
from assignors.intake import Group, read_group
from assignors.model import LeaderRacks, Member, Plan, Weights
from assignors.options import checked_imbalance, most_units
from assignors.ownership import read_owners
from assignors.partition_classes import PartitionClasses, classify
from assignors.plans import make_plan
from assignors.traffic_steps import traffic_steps
from placement_core.matching import (
    Block,
    IntArray,
    Solution,
    balanced_blocks,
    components,
    cost_of,
    lower_bound,
    solve,
)


class LeaderRackAwareCooperativeSticky:
    """Gives every partition to one member, the best plan by these objectives, in this order:

    1. the least sum of squared loads that the subscriptions permit;
    2. the fewest partitions read across racks (with levels: across the widest level, then the
       next; with traffic weights: the least weight instead of the fewest partitions);
    3. the fewest partitions taken from an owner that is still in the group and subscribed.

    What these leave open: each topic is dealt over members, and the plan is the same
    whatever the order of the input. Exact: :mod:`placement_core.matching` says why.

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
