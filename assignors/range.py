"""The range assignor: co-partitioned topics stay together, balanced, then local."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from assignors.decoding import make_plan
from assignors.encoding import Group, read_group, read_owners, same_subscribers
from assignors.model import LeaderRacks, Member, Plan, Weights, checked_imbalance, most_units
from assignors.partition_classes import traffic_steps
from placement_core.flow import (
    IntArray,
    Lengths,
    Network,
    cost_of,
    crossing_costs,
    lower_bound,
    solve,
    units_of_rank,
)

# ---- The transportation network of one group of co-partitioned topics.


@dataclass(frozen=True, slots=True)
class IndexNetwork:
    """A network whose units are partition indexes.

    ``class_of`` is the class of each index, ``order`` the position of each of the network's members
    among those it was made from. ``off_rack_unit`` is the cost of crossing the narrowest
    level once.
    """

    network: Network
    class_of: IntArray
    order: IntArray
    off_rack_unit: int


def index_network(
    crossed: IntArray,
    steps: IntArray,
    depth: int,
    member_rack: IntArray,
    totals: IntArray,
    most: int,
    even: bool,
) -> IndexNetwork:
    """Write the choice of who gets which index as a network; each member is filled to ``most``.

    ``crossed[topic, index, member rack]`` counts levels, ``steps[topic, index]`` weighs them;
    ``totals`` are the members' partitions in the groups of topics before. With ``even``, a member
    may stay one index below ``most``, else any number.

    Costs, highest rank first: crossings of each level, widest first; the squares of the
    members' totals.
    """
    topics, count, _ = crossed.shape
    members = len(member_rack)
    order = np.argsort(member_rack, kind="stable")
    racks, hub = np.unique(member_rack[order], return_inverse=True)
    fillers = members * most - count
    below = np.ones(members, np.int64) if even else np.full(members, most)
    filler_member = np.repeat(np.arange(members), below)
    nth = np.arange(len(filler_member)) - np.repeat(np.cumsum(below) - below, below) + 1
    # Filler k of a member lowers its total by ``topics``: the square falls by ``topics``
    # times this.
    falls = 2 * totals[order][filler_member] + topics * (2 * (most - nth) + 1)
    squares = falls.max(initial=0) - falls
    squares //= max(int(np.gcd.reduce(squares, initial=0)), 1)

    cycle = min(count + 1, len(racks) + members) + 1
    heaviest = topics * int(steps.max(initial=1))
    worth = units_of_rank([int(squares.max(initial=0)), *[heaviest] * depth], cycle)
    of_crossing = crossing_costs(worth[1:], heaviest)
    cost = (of_crossing[crossed[:, :, racks]] * steps[:, :, None]).sum(axis=0)
    classes, class_of = _distinct_rows(cost)
    lane_hub = np.repeat(np.arange(len(racks)), len(classes))
    lane_class = np.tile(np.arange(len(classes)), len(racks))
    return IndexNetwork(
        network=Network(
            supply=np.append(np.bincount(class_of, minlength=len(classes)), fillers),
            need=np.full(members, most),
            hub=hub,
            hubs=len(racks),
            lane_class=lane_class,
            lane_hub=lane_hub,
            lane_cost=classes.T.reshape(-1),
            arc_class=np.full(len(nth), len(classes)),
            arc_member=filler_member,
            arc_room=np.ones(len(nth), np.int64),
            arc_cost=squares,
            late=np.array([len(classes)]),
        ),
        class_of=class_of,
        order=order,
        off_rack_unit=worth[1],
    )


def _distinct_rows(cost: Lengths) -> tuple[Lengths, IntArray]:
    """The distinct rows of ``cost``, and each row's place among them."""
    if cost.dtype == object:
        places: dict[tuple[int, ...], int] = {}
        place = [places.setdefault(tuple(row), len(places)) for row in cost.tolist()]
        return np.array(list(places), object).reshape(len(places), -1), np.array(place)
    rows, place_of = np.unique(cost, axis=0, return_inverse=True)
    return rows, place_of.reshape(-1)


class LeaderRackAwareRange:
    """Gives index i of all topics with the same subscribers and partition count to one member.

    Group of topics by group of topics, in order of their first name, each the best by:

    1. every member gets the floor or the ceiling of indexes / members;
    2. the fewest partitions read across racks (with levels: across the widest level, then
       the next; with traffic weights: the least weight instead of the fewest partitions);
    3. the least sum of squared total loads, given the groups before;
    4. what these leave open: contiguous runs of indexes, as far as racks permit.

    Where racks cannot matter to a group of topics (no member has one, or no leader, or all
    are the same), it is assigned exactly as by Apache's RangeAssignor: members in order of
    instance id, then member id, contiguous blocks, the first members one more.

    ``co_partitioned=False`` treats every topic on its own. ``max_imbalance`` lets a member
    have up to ``floor(ceiling x (1 + max_imbalance))`` indexes of a group of topics where that
    makes it more local.

    Source: the proposal for leader-rack-aware assignors (KAFKA-17755); co-partitioning as
    in KIP-881.
    """

    def __init__(self, *, co_partitioned: bool = True, max_imbalance: float = 0.0) -> None:
        """Raises InvalidOptionError where ``max_imbalance`` is not a share from 0 to 3."""
        self.co_partitioned = co_partitioned
        self.max_imbalance = checked_imbalance(max_imbalance)

    def assign(
        self,
        members: Iterable[Member],
        leader_racks: LeaderRacks,
        weights: Weights | None = None,
    ) -> Plan:
        """The best plan for ``members``; arguments and errors as for the sticky assignor.

        What members own has no influence; it is only counted in ``Plan.moved``.
        """
        group = read_group(members, leader_racks)
        owner = read_owners(group)
        steps = traffic_steps(group, weights)
        member = np.zeros(len(owner), np.int64)
        totals = np.zeros(len(group.members), np.int64)
        order = _apache_order(group)
        unproved = 0
        for topics in topic_groups(group, co_partitioned=self.co_partitioned):
            count = int(group.sizes[topics[0]])
            if not count:
                continue
            subscribers = order[group.allowed[topics[0], order]]
            numbers = group.base[topics][:, None] + np.arange(count)
            racks, leaders = group.member_rack[subscribers], group.leader_rack[numbers]
            if _racks_cannot_matter(racks, leaders, group):
                shares = np.diff(np.arange(len(subscribers) + 1) * count // len(subscribers))
                shares = np.sort(shares)[::-1]
                chosen = np.repeat(subscribers, shares)
            else:
                places, gap = self._choose(
                    group, leaders, steps[numbers], racks, totals[subscribers]
                )
                chosen = subscribers[places]
                unproved += gap
            member[numbers] = chosen
            totals += len(topics) * np.bincount(chosen, minlength=len(totals))
        return make_plan(group, member, owner, unproved)

    def _choose(
        self, group: Group, leaders: IntArray, steps: IntArray, racks: IntArray, totals: IntArray
    ) -> tuple[IntArray, int]:
        """The place among the subscribers of each index's member, and what stays unproved."""
        ceiling = -(-leaders.shape[1] // len(racks))
        most = min(int(most_units(np.array(ceiling), self.max_imbalance)), leaders.shape[1])
        written = index_network(
            group.crossed[leaders], steps, group.depth, racks, totals, most, most == ceiling
        )
        solution = solve(written.network)
        network, flow = written.network, solution.flow
        hub = np.empty(leaders.shape[1], np.int64)
        lanes = np.flatnonzero(flow.lanes)
        lanes = lanes[np.argsort(network.lane_class[lanes], kind="stable")]
        by_class = np.argsort(written.class_of, kind="stable")
        hub[by_class] = np.repeat(network.lane_hub[lanes], flow.lanes[lanes])
        places = np.empty(leaders.shape[1], np.int64)
        places[np.argsort(hub, kind="stable")] = np.repeat(written.order, flow.seats)
        return places, (cost_of(solution) - lower_bound(solution)) // written.off_rack_unit


def topic_groups(group: Group, *, co_partitioned: bool) -> list[IntArray]:
    """The topics that are assigned together, by their first name; each alone if not co-partitioned.

    Together are those of the same subscribers and partition count.
    """
    if not co_partitioned:
        return [np.array([t]) for t in range(len(group.topics))]
    classes, _ = same_subscribers(group)
    groups: dict[tuple[int, int], list[int]] = {}
    for t, key in enumerate(zip(classes.tolist(), group.sizes.tolist(), strict=True)):
        groups.setdefault(key, []).append(t)
    return [np.array(topics) for topics in groups.values()]


def _apache_order(group: Group) -> IntArray:
    """Members with an instance id first, by that; the others by member id."""
    keys = [(m.instance_id is None, m.instance_id or m.id, m.id) for m in group.members]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def _racks_cannot_matter(racks: IntArray, leaders: IntArray, group: Group) -> bool:
    """No subscriber has a rack, or no leader, or all racks there are are one and the same."""
    if not racks.any() or not leaders.any():
        return True
    if racks.min() != racks.max():
        return False
    known = leaders[leaders > 0]
    return not group.crossed[known, racks[0]].any()
