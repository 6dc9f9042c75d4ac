"""The range assignor: co-partitioned topics stay together, balanced, then local.

Topics with the same subscribers and the same number of partitions are assigned as one: index i of
all of them goes to one member. Such groups of topics are solved one after the other, in order of
their first name, each as a transportation network of indexes and members; the loads of the groups
before count in the costs.

Example. Topics t and u have three partitions, led in racks a b b and a b a, and the members are m1
(rack a), m2 and m3 (rack b). Each member gets one index. Index 0 costs m1 nothing and the others
two off-rack partitions; index 1 costs m2 and m3 nothing; index 2 costs each member one. The minimum
is one off-rack partition: m1 gets index 0, m2 index 1, m3 index 2.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from assignors.group import Group, distinct_rows
from assignors.model import LeaderRacks, Member, Plan, WeightSource, load_factor
from assignors.weights import traffic_weights
from placement_core.flow import (
    CostArray,
    IntArray,
    Network,
    crossing_costs,
    filler_arcs,
    rank_scales,
)


class LeaderRackAwareRange:
    """Assign index i of all topics with the same subscribers and partition count to one member.

    Each group of topics in turn, sorted by first name, is assigned the best by these objectives,
    in order:

    1. every member gets the floor or the ceiling of indexes / members;
    2. the fewest partitions read across racks (with levels: across the widest level, then the
       next; with traffic weights: the minimum weight instead of the fewest partitions);
    3. the minimum sum of squared total loads, given the groups before;
    4. within what these leave open: contiguous runs of indexes, as far as racks permit.

    If racks cannot make a difference to a group of topics (no member or no leader has one, or
    all are the same), it is assigned exactly as by Apache's RangeAssignor: members sorted by
    instance id, then member id, contiguous blocks, one more for the first members.

    ``co_partitioned=False`` assigns every topic on its own. ``max_imbalance`` (a share, 0 by
    default) lets a member have up to ``floor(ceiling x (1 + max_imbalance))`` indexes of a group
    of topics if that makes it more local.

    Source: the proposal for leader-rack-aware assignors (KAFKA-17755); co-partitioning as
    in KIP-881.
    """

    def __init__(self, *, co_partitioned: bool = True, max_imbalance: float = 0.0) -> None:
        """Raise InvalidOptionError if ``max_imbalance`` is not a number from 0 to 3."""
        self.co_partitioned = co_partitioned
        self.max_imbalance = max_imbalance
        self._load_factor = load_factor(max_imbalance)

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,
        weights: WeightSource | None = None,
    ) -> Plan:
        """Return the best plan for ``members``.

        Arguments and errors are those of the sticky assignor. What members own has no influence;
        it is only counted in ``Plan.moved``.
        """
        group = Group.of(members, leader_racks)
        owner = group.owners()
        traffic = traffic_weights(group, weights)
        weight = traffic.of_partition
        assigned = np.zeros(len(owner), np.int64)
        totals = np.zeros(len(group.members), np.int64)
        optimality_gap = 0
        local_rack = _local_racks(group)
        topic_sets = co_partitioned_topics(group, co_partitioned=self.co_partitioned)
        subscribers_of = _subscribers(group)
        for topics in topic_sets:
            first = int(group.base[topics[0]])
            count = int(group.base[topics[0] + 1]) - first
            if not count:
                continue
            subscribers = subscribers_of[topics[0]]
            partitions = group.base[topics][:, None] + np.arange(count)
            if _racks_make_no_difference(group, partitions, subscribers):
                shares = np.diff(np.arange(len(subscribers) + 1) * count // len(subscribers))
                member = np.repeat(subscribers, np.sort(shares)[::-1])
            elif len(topics) == 1 and local_rack is not None and self._is_even(count, subscribers):
                of_topic = slice(first, first + count)
                member = subscribers[
                    _assign_topic(
                        local_rack[group.leader_rack[of_topic]],
                        traffic.index[of_topic],
                        group.member_rack[subscribers],
                        totals[subscribers],
                    )
                ]
            else:
                member, gap = self._solve(
                    group, partitions, subscribers, weight[partitions], totals[subscribers]
                )
                optimality_gap += gap
            assigned[partitions] = member
            totals += len(topics) * np.bincount(member, minlength=len(totals))
        return group.plan(assigned, owner, optimality_gap)

    def _limits(self, count: int, subscribers: IntArray) -> tuple[int, int]:
        """Return the balanced maximum of ``count`` indexes per member, and the permitted one."""
        ceiling = -(-count // len(subscribers))
        return ceiling, min(int(ceiling * self._load_factor), count)

    def _is_even(self, count: int, subscribers: IntArray) -> bool:
        ceiling, limit = self._limits(count, subscribers)
        return limit == ceiling

    def _solve(
        self,
        group: Group,
        partitions: IntArray,
        subscribers: IntArray,
        weight: CostArray,
        totals: IntArray,
    ) -> tuple[IntArray, int]:
        """Return the member of each index, and its optimality gap in off-rack partitions.

        ``partitions`` and ``weight`` are ``[topic, index]``; ``totals`` are each subscriber's
        partitions in the groups of topics before.

        The units of the network are indexes. Each member is filled to its limit, by indexes and by
        *fillers*: at most one if the limit is the ceiling of the average, otherwise any number.
        """
        topics, count = partitions.shape
        ceiling, limit = self._limits(count, subscribers)
        # Members in the same rack share a hub.
        order = np.argsort(group.member_rack[subscribers], kind="stable")
        members = subscribers[order]
        racks, member_hub = np.unique(group.member_rack[members], return_inverse=True)
        demand = np.full(len(members), limit)
        filler_member, filler_cost = filler_arcs(
            demand, totals[order], unit=topics, even=limit == ceiling
        )
        # The costs, highest rank first: crossings by weight, widest level first; the squares of
        # the members' totals.
        cycle = min(count + 1, len(racks) + len(members)) + 1
        heaviest = topics * int(weight.max(initial=1))
        scales = rank_scales([int(filler_cost.max(initial=0)), *[heaviest] * group.ranks], cycle)
        rank = group.crossing_rank[group.leader_rack[partitions]][:, :, racks]
        cost = (crossing_costs(scales[1:], heaviest)[rank] * weight[:, :, None]).sum(axis=0)
        # Indexes that cost every member the same are a class.
        classes, class_of = distinct_rows(cost)
        arc_class = np.tile(np.arange(len(classes)), len(racks))
        arc_hub = np.repeat(range(len(racks)), len(classes))
        network = Network(
            supply=np.bincount(class_of, minlength=len(classes)),
            demand=demand,
            member_hub=member_hub,
            to_hub=(arc_class, arc_hub, classes.T.reshape(-1)),
            fillers=(filler_member, np.ones_like(filler_member), filler_cost),
        ).solve()
        # The hub of each index: classes in order, of each class the lowest indexes first.
        units = network.hub_units
        used = np.flatnonzero(units)
        used = used[np.argsort(arc_class[used], kind="stable")]
        hub = np.empty(count, np.int64)
        hub[np.argsort(class_of, kind="stable")] = np.repeat(arc_hub[used], units[used])
        # The member of each index: hubs in order, of each hub the lowest indexes first.
        member = np.empty(count, np.int64)
        member[np.argsort(hub, kind="stable")] = np.repeat(members, network.member_units)
        # scales[1] is the cost of one off-rack partition of weight 1 that crosses no wider level.
        return member, network.optimality_gap() // scales[1]


# ---- A single topic, without levels of racks.


def _local_racks(group: Group) -> IntArray | None:
    """Return the local rack of members per rack of leaders, -1 if none; None with levels."""
    if group.ranks > 1:
        return None
    local = group.crossed == 0
    local[0] = False
    return np.where(local.any(axis=1), local.argmax(axis=1), -1)


def _assign_topic(
    local_rack: IntArray, weight_rank: IntArray, racks: IntArray, totals: IntArray
) -> IntArray:
    """Return the member of each index of one topic, as a number among its subscribers.

    ``local_rack`` and ``weight_rank`` are the members' rack in which each index is local (-1: none)
    and the rank of its weight, heaviest first; ``racks`` and ``totals`` are each member's.

    Every member gets the floor of its share. The ceilings go, one by one, to where the next index
    saves most: in each rack, first its heaviest local partitions, and to the members with the
    fewest partitions first. Within a rack that order has rising costs in both objectives, so taking
    the cheapest over all racks is optimal.
    """
    count, members = len(local_rack), len(racks)
    share, rest = divmod(count, members)
    size = max(int(racks.max()), int(local_rack.max())) + 2
    by_weight = np.lexsort((weight_rank, local_rack))
    local_count = np.bincount(local_rack + 1, minlength=size)
    start = local_count.cumsum() - local_count
    members_in = np.bincount(racks + 1, minlength=size)
    by_total = np.lexsort((totals, racks))
    rack = racks[by_total] + 1
    nth = np.arange(members) - (members_in.cumsum() - members_in)[rack] + share * members_in[rack]
    is_local = nth < local_count[rack]
    saved = np.full(members, count + int(weight_rank.max()) + 1)
    saved[is_local] = weight_rank[by_weight[(start[rack] + nth)[is_local]]]
    loads = np.full(members, share)
    loads[by_total[np.lexsort((totals[by_total], saved))[:rest]]] += 1

    # The rack of each index: the heaviest local ones stay, the others fill what is left.
    room = np.bincount(racks + 1, loads, size).astype(np.int64)
    rack = local_rack[by_weight] + 1
    stays = np.arange(count) - start[rack] < room[rack]
    rack_of = np.empty(count, np.int64)
    rack_of[by_weight[stays]] = rack[stays]
    room -= np.bincount(rack[stays], minlength=size)
    rack_of[np.sort(by_weight[~stays])] = np.repeat(np.arange(size), room)
    member = np.empty(count, np.int64)
    by_rack = np.argsort(racks, kind="stable")
    member[np.argsort(rack_of, kind="stable")] = np.repeat(by_rack, loads[by_rack])
    return member


def co_partitioned_topics(group: Group, *, co_partitioned: bool) -> list[IntArray]:
    """Return the topics that are assigned together, sorted by first name.

    These have the same subscribers and partition count. Unless ``co_partitioned``, each topic is
    on its own.
    """
    if not co_partitioned:
        return [np.array([t]) for t in range(len(group.topics))]
    classes, _ = group.topic_classes()
    together: dict[tuple[int, int], list[int]] = {}
    for t, key in enumerate(zip(classes.tolist(), group.sizes.tolist(), strict=True)):
        together.setdefault(key, []).append(t)
    return [np.array(topics) for topics in together.values()]


def _subscribers(group: Group) -> dict[int, IntArray]:
    """Return the subscribers of each topic, in the order of Apache's RangeAssignor."""
    order = _apache_order(group)
    classes, subscribed = group.topic_classes()
    of_class = [order[row[group.subscription[order]]] for row in subscribed]
    return {t: of_class[number] for t, number in enumerate(classes.tolist())}


def _apache_order(group: Group) -> IntArray:
    """Return members with an instance id first, sorted by that; then the others, by member id."""
    members = group.members
    keys = [
        (instance_id is None, instance_id or member_id, member_id)
        for member_id, instance_id in zip(members.ids, members.instance_ids, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _racks_make_no_difference(group: Group, partitions: IntArray, subscribers: IntArray) -> bool:
    """Return whether there is one subscriber, none has a rack, no leader has, or all are alike."""
    leaders, racks = group.leader_rack[partitions], group.member_rack[subscribers]
    if len(racks) == 1 or not racks.any() or not leaders.any():
        return True
    if racks.min() != racks.max():
        return False
    return not group.crossed[leaders, racks[0]].any()
