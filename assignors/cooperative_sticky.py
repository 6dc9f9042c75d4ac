"""The sticky assignor: balanced, then local, then with as few moves as possible.

The objectives are lexicographic and the result is exact. :mod:`placement_core.flow` has the
argument; the steps here are:

1. Encode the group as arrays (:mod:`assignors.group`).
2. Compress it (`classify`). Partitions that are alike to every member form a class: same
   subscribers, same leader's rack, same weight. An assignment is then a small matrix: how many
   partitions of each class each member gets. What members own is counted per pair of a class and a
   member: of these partitions the member can keep as many as it gets of the class.
3. Find the blocks: sets of members and topics whose loads differ by at most one in every balanced
   assignment (:func:`placement_core.flow.balanced_blocks`). Blocks are independent of each other.
4. Write each block as a transportation network whose costs are crossings, then moves, and solve it
   (`block_network`). With ``max_imbalance``, members of a connected component may exceed their
   block's level, and the sum of squared loads ranks between crossings and moves.
5. Choose the partitions within what the optimum leaves free (`allocate`): of a class a member
   keeps the first partitions that it owns; the others are distributed to members in turn.

Example. Partitions 0 to 5 of one topic are led in racks a a a a b b; m1 (rack a) owns 0 and 1, m2
(rack b) owns 2 to 5. The classes are {0, 1, 2, 3} and {4, 5}. The balanced load is 3 and 3. m1 gets
three of the first class, two of which it owns, and m2 one of the first and two of the second, all
its own: one partition is off-rack, and one is moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assignors.even_bytes import assign_evenly
from assignors.group import UNASSIGNED, Group, distinct_rows
from assignors.model import LeaderRacks, Member, Plan, WeightSource, load_factor, validate_balance
from assignors.weights import TrafficWeights, traffic_weights
from placement_core.flow import (
    CostArray,
    IntArray,
    Network,
    Segments,
    balanced_blocks,
    connected_components,
    crossing_costs,
    filler_arcs,
    rank_scales,
    stable_order,
)


class LeaderRackAwareCooperativeSticky:
    """Assign every partition to one member. The plan is the best by these objectives, in order:

    1. the minimum sum of squared loads that the subscriptions permit;
    2. the fewest partitions read across racks (with levels: across the widest level, then the
       next; with traffic weights: the minimum weight instead of the fewest partitions);
    3. the fewest partitions taken from an owner that is still in the group and subscribed.

    Within what these leave open, each topic is spread over members. The plan does not depend on
    the order of the input.

    ``max_imbalance`` (a share, 0 by default) lets a member exceed its balanced load if that makes
    the group more local: a balanced load of ``n`` may become ``floor(n x (1 + max_imbalance))``,
    and below that limit crossings rank before the sum of squared loads. If no load is high enough
    for the share to make a whole partition, nothing changes.

    ``balance="bytes"`` makes members even in their traffic weights instead of their numbers of
    partitions: no load exceeds the mean by the weight of the heaviest partition or more, if
    subscriptions are equal (:mod:`assignors.even_bytes`). That is all that is proved: locality may
    not be the best, and ``optimum`` is None. Where all weights are equal, or there
    are none, it changes nothing.

    Source: the proposal for leader-rack-aware assignors (KAFKA-17755); cooperative rebalancing as
    in KIP-429.
    """

    def __init__(self, *, max_imbalance: float = 0.0, balance: str = "partitions") -> None:
        """Raise InvalidOptionError if ``max_imbalance`` is not a number from 0 to 3, or ``balance``
        is neither "partitions" nor "bytes"."""
        validate_balance(balance)
        self.balance = balance
        self.max_imbalance = max_imbalance
        self._load_factor = load_factor(max_imbalance)

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,
        weights: WeightSource | None = None,
    ) -> Plan:
        """Return the best plan for ``members``.

        ``leader_racks``: topic to the rack of each partition's leader. Topics that are missing
        from it are not assigned. ``weights``: the traffic of each partition in any one unit, as
        a mapping or a function.

        Raises InvalidGroupError if two members have the same id, and whatever ``weights`` raises.
        Invalid claims are ignored, and unknown racks cost locality.
        """
        group = Group.of(members, leader_racks)
        owner = group.owners()
        if not len(owner):
            return group.plan(owner, owner)
        traffic = traffic_weights(group, weights)
        if self.balance == "bytes" and len(traffic.units) > 1:
            even = assign_evenly(group, traffic, owner, self._load_factor)
            return replace(group.plan(even, owner), optimum=None)
        classes = classify(group, traffic, owner)
        blocks = self._networks(group, classes)
        for block in blocks:
            block.network.solve()
        assigned = allocate(classes, owner, blocks)
        gap = sum(block.network.optimality_gap() // block.off_rack_cost for block in blocks)
        return group.plan(assigned, owner, gap)

    def _networks(self, group: Group, classes: PartitionClasses) -> list[BlockNetwork]:
        """Return a network per block, or per component in which a member may exceed its level."""
        sizes = np.bincount(classes.topic_class, classes.sizes, len(classes.subscribed))
        sizes = sizes.astype(np.int64)
        members = np.bincount(group.subscription, minlength=group.subscribed.shape[1])
        blocks = balanced_blocks(sizes, members, classes.subscribed)
        level = np.zeros(len(members), np.int64)
        for block in blocks:
            level[block.groups] = block.level
        limit = np.array([int(load * self._load_factor) for load in level.tolist()], np.int64)
        uneven = np.zeros(len(members), bool)
        networks = []
        if (limit > level).any():
            filled = np.flatnonzero(sizes)
            for topics, groups in connected_components(
                filled, np.arange(len(members)), classes.subscribed
            ):
                if len(topics) and (limit[groups] > level[groups]).any():
                    uneven[groups] = True
                    cap = np.minimum(limit, sizes[topics].sum())[group.subscription]
                    networks.append(block_network(group, classes, topics, groups, cap, even=False))
        return networks + [
            block_network(
                group, classes, block.classes, block.groups, level[group.subscription], even=True
            )
            for block in blocks
            if len(block.classes) and not uneven[block.groups[0]]
        ]


# ---- Classes of partitions that are alike to every member.


@dataclass(frozen=True, slots=True)
class PartitionClasses:
    """Classes of partitions, and pairs (class, member) of which the member owns some of the class.

    class_of
        Per partition, its class.
    topic_class, rack, weight, sizes
        Per class, its topics' class, the row of its leaders' rack in ``crossing_rank``, the weight
        of one of its partitions, and the number of its partitions.
    subscribed
        ``[topic class, subscription]``.
    crossing_rank
        ``[leader rack, member rack]`` for the racks of this table. Leader racks that are equally
        far from every member are row 0, at no cost.
    member_rack
        Per member, a column of ``crossing_rank``; racks at equal cost everywhere share a column.
    owned_pair_of
        Per partition, the pair of its class and its owner; -1 if it has no owner.
    owned_class, owned_member, owned_count
        Per pair, sorted by class and member: how many partitions of the class the member owns.
    """

    class_of: IntArray
    topic_class: IntArray
    rack: IntArray
    weight: CostArray
    sizes: IntArray
    subscribed: NDArray[np.bool_]
    crossing_rank: IntArray
    member_rack: IntArray
    owned_pair_of: IntArray
    owned_class: IntArray
    owned_member: IntArray
    owned_count: IntArray


def classify(group: Group, weights: TrafficWeights, owner: IntArray) -> PartitionClasses:
    """Return the partition classes of ``group``; ``owner`` is per partition.

    Classes of heavier partitions come first: the solver then gives these the nearest members.
    """
    topic_class, subscribed = group.topic_classes()
    crossing_rank, row_of, column_of = _distinct_racks(group.crossing_rank)
    racks, members = len(crossing_rank), len(group.members)
    alike = len(subscribed) * racks
    key = np.repeat(topic_class, group.sizes) * racks + row_of[group.leader_rack]
    keys, class_of, sizes = _factorize(weights.index * alike + key, len(weights.units) * alike)
    has_owner = (owner != UNASSIGNED).nonzero()[0]
    pairs, pair_of, owned_count = _factorize(
        class_of[has_owner] * members + owner[has_owner], len(keys) * members
    )
    owned_pair_of = np.full(len(owner), -1, np.int64)
    owned_pair_of[has_owner] = pair_of
    class_weight, class_key = np.divmod(keys, alike)
    return PartitionClasses(
        class_of=class_of,
        topic_class=class_key // racks,
        rack=class_key % racks,
        weight=weights.units[class_weight],
        sizes=sizes,
        subscribed=subscribed,
        crossing_rank=crossing_rank,
        member_rack=column_of[group.member_rack],
        owned_pair_of=owned_pair_of,
        owned_class=pairs // members,
        owned_member=pairs % members,
        owned_count=owned_count,
    )


def _factorize(keys: IntArray, bound: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the sorted distinct ``keys`` (all below ``bound``), each key's index, the counts."""
    if bound > 4 * len(keys) + 65_536:
        distinct, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return distinct, index, counts
    counts = np.bincount(keys, minlength=bound)
    distinct = counts.nonzero()[0]
    index_of = np.empty(bound, np.int64)
    index_of[distinct] = np.arange(len(distinct))
    return distinct, index_of[keys], counts[distinct]


def _distinct_racks(crossing_rank: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return ``crossing_rank`` without repeated rows and columns, and the index of each of them.

    A row that is the same everywhere costs the same in every plan: it becomes row 0, zeros.
    """
    constant = (crossing_rank == crossing_rank[:, :1]).all(axis=1, keepdims=True)
    columns, column_of = distinct_rows(np.where(constant, 0, crossing_rank).T)
    rows, row_of = distinct_rows(columns.T)
    return rows, row_of, column_of


# ---- The transportation network of one block, for all objectives below balance.


@dataclass(frozen=True, slots=True)
class BlockNetwork:
    """A network, and what its nodes and arcs stand for.

    ``classes`` and ``members`` are the group's numbers of the network's classes and members,
    ``owned_pairs`` those of the direct arcs. ``arc_class`` has the network's classes of the
    class-to-hub arcs. ``off_rack_cost`` is the cost of one off-rack partition that has a weight of
    1 and crosses no wider level.
    """

    network: Network
    classes: IntArray
    members: IntArray
    owned_pairs: IntArray
    arc_class: IntArray
    off_rack_cost: int


def block_network(
    group: Group,
    table: PartitionClasses,
    topics: IntArray,
    subscriptions: IntArray,
    limit: IntArray,
    *,
    even: bool,
) -> BlockNetwork:
    """Write the topic classes ``topics`` and the members of ``subscriptions`` as a network.

    Every member is filled to its ``limit`` (per member of the group), by partitions and by
    *fillers*. With ``even``, the limit is the block's level and a member takes at most one filler;
    which members do is free. Otherwise a member may take any number of fillers.

    The costs, highest rank first: crossings by weight, widest level first; squared loads
    (unless ``even``); partitions that their member does not own yet.
    """
    classes = _flags(topics, len(table.subscribed))[table.topic_class].nonzero()[0]
    members, hub, hub_subscription, hub_rack = _hubs(group, table, subscriptions)
    reachable = table.subscribed[table.topic_class[classes], hub_subscription[:, None]]
    arc_hub, arc_class = reachable.nonzero()
    pairs, pair_class, pair_member = _owned_within(table, classes, members)
    load = limit[members]
    filler_member, filler_cost = filler_arcs(load, even=even)

    cycle = min(len(classes) + 1, len(hub_subscription) + len(members)) + 1
    heaviest = int(table.weight[classes].max(initial=1))
    ranks = max(1, int(table.crossing_rank.max(initial=0)))
    _, square, *crossings = rank_scales(
        [1, int(filler_cost.max(initial=0)), *[heaviest] * ranks], cycle
    )
    cost_of_rank = crossing_costs(crossings, heaviest)

    def crossing_cost(of_class: IntArray, of_hub: IntArray) -> CostArray:
        rank = table.crossing_rank[table.rack[classes[of_class]], hub_rack[of_hub]]
        cost: CostArray = cost_of_rank[rank] * table.weight[classes[of_class]]
        return cost

    pair_cost = crossing_cost(pair_class, hub[pair_member])
    return BlockNetwork(
        network=Network(
            supply=table.sizes[classes],
            demand=load,
            member_hub=hub,
            to_hub=(arc_class, arc_hub, crossing_cost(arc_class, arc_hub) + 1),
            direct=(pair_class, pair_member, table.owned_count[pairs], pair_cost),
            fillers=(
                filler_member,
                np.ones_like(filler_member),
                filler_cost.astype(object) * square if filler_cost.any() else filler_cost,
            ),
        ),
        classes=classes,
        members=members,
        owned_pairs=pairs,
        arc_class=arc_class,
        off_rack_cost=crossings[0],
    )


def _hubs(
    group: Group, table: PartitionClasses, subscriptions: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the members sorted by hub, their hubs, and each hub's subscription and rack.

    Members of one subscription and one rack share a hub.
    """
    chosen = _flags(subscriptions, group.subscribed.shape[1])
    members = chosen[group.subscription].nonzero()[0]
    racks = table.crossing_rank.shape[1]
    key = group.subscription[members] * racks + table.member_rack[members]
    order = np.argsort(key, kind="stable")
    hubs = Segments.of(key[order])
    hub = np.repeat(np.arange(len(hubs.keys)), hubs.lengths(len(members)))
    return members[order], hub, hubs.keys // racks, hubs.keys % racks


def _flags(indexes: IntArray, count: int) -> NDArray[np.bool_]:
    """Return ``count`` flags, True at ``indexes``."""
    flags = np.zeros(count, bool)
    flags[indexes] = True
    return flags


def _owned_within(
    table: PartitionClasses, classes: IntArray, members: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the pairs of these classes and members, and their class and member as indexes."""
    class_index = np.full(len(table.sizes), -1, np.int64)
    class_index[classes] = np.arange(len(classes))
    member_index = np.full(len(table.member_rack), -1, np.int64)
    member_index[members] = np.arange(len(members))
    pair_class, pair_member = class_index[table.owned_class], member_index[table.owned_member]
    pairs = ((pair_class >= 0) & (pair_member >= 0)).nonzero()[0]
    return pairs, pair_class[pairs], pair_member[pairs]


# ---- From optimal flows to partitions.


def allocate(table: PartitionClasses, owner: IntArray, solved: list[BlockNetwork]) -> IntArray:
    """Return the member of each partition.

    A member that loses partitions of a class keeps the lowest. The others of a class, sorted by
    topic and number, are distributed to its members in turn: neighbours in a topic go to different
    members, so that no member gets all partitions of a topic with much traffic.
    """
    pair_stays = np.zeros_like(table.owned_count)
    for block in solved:
        pair_stays[block.owned_pairs] = block.network.direct_units
    stays = _staying(table, pair_stays)
    assigned = np.where(stays, owner, UNASSIGNED)
    pool = (~stays).nonzero()[0]
    if len(pool):
        by_class = pool[stable_order(table.class_of[pool])]
        assigned[by_class] = _distribute(solved)
    return assigned


def _staying(table: PartitionClasses, pair_stays: IntArray) -> NDArray[np.bool_]:
    """Return whether each partition stays with its owner; ``pair_stays`` of each pair do."""
    stays = table.owned_pair_of >= 0
    shrinks = pair_stays < table.owned_count
    if not shrinks.any():
        return stays
    candidates = stays.nonzero()[0]
    candidates = candidates[shrinks[table.owned_pair_of[candidates]]]
    candidates = candidates[stable_order(table.owned_pair_of[candidates])]
    pairs = table.owned_pair_of[candidates]
    runs = Segments.of(pairs)
    nth = np.arange(len(pairs)) - np.repeat(runs.starts, runs.lengths(len(pairs)))
    stays[candidates] = nth < pair_stays[pairs]
    return stays


def _distribute(solved: list[BlockNetwork]) -> IntArray:
    """Return the members of the partitions that do not stay, class by class.

    A share is a number of partitions of one class for one member. Each share is spaced evenly over
    its class: a member that gets few of a class does not get all of them from its first topics,
    and members with equal shares take turns.
    """
    shares = [_shares(block) for block in solved]
    class_, member, units = map(np.concatenate, zip(*shares, strict=True))
    share = np.repeat(np.arange(len(units)), units)
    nth = np.arange(len(share)) - np.repeat(units.cumsum() - units, units)
    order = np.argsort(class_[share] + (nth + 0.5) / units[share], kind="stable")
    return member[share[order]]


def _shares(block: BlockNetwork) -> tuple[IntArray, IntArray, IntArray]:
    """Return the class, the member and the units of each share of a block.

    Any way to distribute a hub's units to its members is as good as any other. The units on arcs
    from classes and on arcs to members both fill the same row of units, hub after hub: a share ends
    where either ends.
    """
    class_ends = block.network.hub_units.cumsum()
    member_ends = block.network.member_units.cumsum()
    ends = np.concatenate(([0], class_ends, member_ends))
    ends.sort()
    units = ends[1:] - ends[:-1]
    shares = units.nonzero()[0]
    ends, units = ends[shares + 1], units[shares]
    class_ = block.classes[block.arc_class[class_ends.searchsorted(ends)]]
    member = block.members[member_ends.searchsorted(ends)]
    return class_, member, units
