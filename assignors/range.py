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
from dataclasses import dataclass

import numpy as np

from assignors.encoding import (
    EncodedGroup,
    current_owners,
    decode_plan,
    encode_group,
    topic_classes,
    weight_steps,
)
from assignors.model import LeaderRacks, Member, Plan, WeightSource, load_factor
from placement_core.flow import (
    CostArray,
    IntArray,
    Network,
    crossing_costs,
    lower_bound,
    rank_scales,
    solve,
    total_cost,
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
        group = encode_group(members, leader_racks)
        owner = current_owners(group)
        steps = weight_steps(group, weights)
        assigned = np.zeros(len(owner), np.int64)
        totals = np.zeros(len(group.members), np.int64)
        order = _apache_order(group)
        unproved = 0
        for topics in co_partitioned_topics(group, co_partitioned=self.co_partitioned):
            count = int(group.sizes[topics[0]])
            if not count:
                continue
            subscribers = order[group.subscribed[topics[0], group.subscription[order]]]
            partitions = group.base[topics][:, None] + np.arange(count)
            if _racks_make_no_difference(group, partitions, subscribers):
                shares = np.diff(np.arange(len(subscribers) + 1) * count // len(subscribers))
                member = np.repeat(subscribers, np.sort(shares)[::-1])
            else:
                member, gap = self._solve(
                    group, partitions, subscribers, steps[partitions], totals[subscribers]
                )
                unproved += gap
            assigned[partitions] = member
            totals += len(topics) * np.bincount(member, minlength=len(totals))
        return decode_plan(group, assigned, owner, unproved)

    def _solve(
        self,
        group: EncodedGroup,
        partitions: IntArray,
        subscribers: IntArray,
        steps: IntArray,
        totals: IntArray,
    ) -> tuple[IntArray, int]:
        """Return the member of each index, and the number of off-rack partitions left unproved.

        ``partitions`` and ``steps`` are ``[topic, index]``, ``totals`` are per subscriber.
        """
        count = partitions.shape[1]
        ceiling = -(-count // len(subscribers))
        limit = min(int(ceiling * self._load_factor), count)
        ranks = group.crossing_rank[group.leader_rack[partitions]]
        racks = group.member_rack[subscribers]
        indexes = index_network(
            ranks, steps, group.ranks, racks, totals, limit, even=limit == ceiling
        )
        solution = solve(indexes.network)
        network, flow = indexes.network, solution.flow
        # The hub of each index: classes in order, of each class the lowest indexes first.
        lanes = np.flatnonzero(flow.lanes)
        lanes = lanes[np.argsort(network.lane_class[lanes], kind="stable")]
        hub = np.empty(count, np.int64)
        by_class = np.argsort(indexes.class_of, kind="stable")
        hub[by_class] = np.repeat(network.lane_hub[lanes], flow.lanes[lanes])
        # The member of each index: hubs in order, of each hub the lowest indexes first.
        member = np.empty(count, np.int64)
        by_hub = np.argsort(hub, kind="stable")
        member[by_hub] = np.repeat(subscribers[indexes.member_order], flow.seats)
        return member, (total_cost(solution) - lower_bound(solution)) // indexes.off_rack_cost


def co_partitioned_topics(group: EncodedGroup, *, co_partitioned: bool) -> list[IntArray]:
    """Return the topics that are assigned together, sorted by first name.

    These have the same subscribers and partition count. Unless ``co_partitioned``, each topic is
    on its own.
    """
    if not co_partitioned:
        return [np.array([t]) for t in range(len(group.topics))]
    classes, _ = topic_classes(group)
    together: dict[tuple[int, int], list[int]] = {}
    for t, key in enumerate(zip(classes.tolist(), group.sizes.tolist(), strict=True)):
        together.setdefault(key, []).append(t)
    return [np.array(topics) for topics in together.values()]


def _apache_order(group: EncodedGroup) -> IntArray:
    """Return members with an instance id first, sorted by that; then the others, by member id."""
    members = group.members
    keys = [
        (instance_id is None, instance_id or member_id, member_id)
        for member_id, instance_id in zip(members.ids, members.instance_ids, strict=True)
    ]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _racks_make_no_difference(
    group: EncodedGroup, partitions: IntArray, subscribers: IntArray
) -> bool:
    """Return whether no subscriber or no leader has a rack, or all racks are the same."""
    leaders, racks = group.leader_rack[partitions], group.member_rack[subscribers]
    if not racks.any() or not leaders.any():
        return True
    if racks.min() != racks.max():
        return False
    return not group.crossed[leaders, racks[0]].any()


# ---- The transportation network of one group of co-partitioned topics.


@dataclass(frozen=True, slots=True)
class IndexNetwork:
    """A network whose units are partition indexes.

    ``class_of`` is the class of each index: those that cost every member the same.
    ``member_order`` is the position of each of the network's members among the subscribers.
    ``off_rack_cost`` is the cost of one off-rack partition that weighs one step and crosses no
    wider level.
    """

    network: Network
    class_of: IntArray
    member_order: IntArray
    off_rack_cost: int


def index_network(
    crossing_rank: IntArray,
    steps: IntArray,
    ranks: int,
    member_rack: IntArray,
    totals: IntArray,
    limit: int,
    *,
    even: bool,
) -> IndexNetwork:
    """Write the assignment of indexes to members as a network.

    ``crossing_rank[topic, index, rack]`` has numbers up to ``ranks``, ``steps[topic, index]`` are
    weights, ``member_rack`` and ``totals`` are each member's rack and its partitions in the groups
    of topics before. Each member is filled to ``limit``, by indexes and by *fillers*. With
    ``even``, a member takes at most one filler, otherwise any number.

    The costs, highest rank first: crossings in steps of weight, widest level first; the squares of
    the members' totals.
    """
    topics, count, _ = crossing_rank.shape
    members = len(member_rack)
    order = np.argsort(member_rack, kind="stable")
    racks, hub = np.unique(member_rack[order], return_inverse=True)
    max_fillers = 1 if even else limit
    filler_member = np.repeat(np.arange(members), max_fillers)
    nth = np.tile(np.arange(1, max_fillers + 1), members)
    # The k-th filler of a member lowers its total by ``topics``, and the square of it by ``topics``
    # times this. Adding a constant to each filler keeps costs from being negative.
    decrease = 2 * totals[order][filler_member] + topics * (2 * (limit - nth) + 1)
    filler_cost = decrease.max(initial=0) - decrease
    filler_cost //= max(int(np.gcd.reduce(filler_cost, initial=0)), 1)

    cycle = min(count + 1, len(racks) + members) + 1
    heaviest = topics * int(steps.max(initial=1))
    scales = rank_scales([int(filler_cost.max(initial=0)), *[heaviest] * ranks], cycle)
    cost_of_rank = crossing_costs(scales[1:], heaviest)
    cost = (cost_of_rank[crossing_rank[:, :, racks]] * steps[:, :, None]).sum(axis=0)
    classes, class_of = _distinct_rows(cost)
    return IndexNetwork(
        network=Network(
            supply=np.append(
                np.bincount(class_of, minlength=len(classes)), members * limit - count
            ),
            demand=np.full(members, limit),
            member_hub=hub,
            hub_count=len(racks),
            lane_class=np.tile(np.arange(len(classes)), len(racks)),
            lane_hub=np.repeat(np.arange(len(racks)), len(classes)),
            lane_cost=classes.T.reshape(-1),
            arc_class=np.full(len(nth), len(classes)),
            arc_member=filler_member,
            arc_capacity=np.ones(len(nth), np.int64),
            arc_cost=filler_cost,
            deferred=np.array([len(classes)]),
        ),
        class_of=class_of,
        member_order=order,
        off_rack_cost=scales[1],
    )


def _distinct_rows(cost: CostArray) -> tuple[CostArray, IntArray]:
    """Return the distinct rows of ``cost``, and the index of each row among them."""
    if cost.dtype == object:
        # numpy.unique does not sort rows of Python integers.
        index_of: dict[tuple[int, ...], int] = {}
        index = [index_of.setdefault(tuple(row), len(index_of)) for row in cost.tolist()]
        return np.array(list(index_of), object).reshape(len(index_of), -1), np.array(index)
    rows, index_of_row = np.unique(cost, axis=0, return_inverse=True)
    return rows, index_of_row.reshape(-1)
