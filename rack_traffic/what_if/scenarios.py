"""The scenarios: the assignment of a group under each, the leader layout, and what to change.

Apache Kafka's assignors are modelled by rackward's without racks. Without racks, rackward's range
assignor with ``co_partitioned=False`` assigns exactly like Apache's RangeAssignor. Its rack-aware
variant (KIP-881) gives the same result if every partition has a replica in every rack, or if the
members have no racks. Rackward's sticky assignor has the two objectives of Apache's, balance and
then as few moves as possible, but reaches the optimum where Apache's is greedy: Apache's makes at
least as many moves.

A partition has one leader, whatever the number of groups that read it. So the leaders of groups
that share topics are laid out together, weighted by the bytes that each group reads: a saving that
one group would have at the expense of another is no saving.

A group that brokers assign does not follow leaders that move. So leaders go to the members that own
their partitions now; all other groups are assigned anew for the leaders.

Leaders do not move for a group that may read from followers: what a moved leader makes local, it
reads there already, or does so once its members send their racks. It is apart from all others.

A layout takes longer to compute than an assignment. Without groups that brokers assign it depends
neither on the current owners nor, for a group that shares no topic, on the bytes: so it is the same
in most intervals, and is cached, for groups with the same members per rack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Plan
from assignors.group import AssignedPartitions
from placement_core import Broker, ClusterView, TopicPartition, parse_rack, source_rack
from placement_core.flow import IntArray
from placement_core.leaders import (
    DEFAULT_MAX_IMBALANCE,
    ConsumerDemand,
    CurrentAssignment,
    components,
    plan_leaders,
)
from rack_traffic.advice import (
    COOPERATIVE_STICKY,
    RANGE,
    ClientGroup,
    NextStep,
    follower_steps,
    layout_step,
    rack_steps,
    scenario_steps,
    steps_text,
)
from rack_traffic.tables import LEADER_LAYOUTS
from rack_traffic.what_if.cases import NO_OWNER, GroupCase, PartitionCase, ScenarioAssignment

Value = TypeVar("Value")

Assigned = Mapping[str, Mapping[str, Sequence[int]]]
"""Member id to topic to partitions."""


def scenario_assignments(case: GroupCase, layout: LeaderLayout) -> list[ScenarioAssignment]:
    """Return the assignment of each scenario of the group, as in ``tables.SCENARIOS``.

    ``layout`` is that of all groups that share topics with this one. Its moves are those of the
    first of these groups, so that they count once.
    """
    as_is, follower_fetching = present_assignments(case)
    # No change where all brokers select replicas already.
    last = [] if case.racks.keys() <= case.selecting else [follower_fetching]
    current, leaders = as_is.owner, case.leader_racks()
    indexes = _indexes(case.partitions)
    leader_racks = _by_topic(indexes, leaders, None)
    new_leaders = [layout.racks[partition] for partition in case.partitions]
    leader_moves = layout.moves if case.group == layout.first_group else 0
    if case.assigned_by_brokers:
        moved = ScenarioAssignment(
            "leader_layout",
            case.assignor,
            current,
            _sources(case, current, new_leaders),
            leader_moves,
        )
        return [as_is, moved, *last]
    no_racks: dict[str, list[str | None]] = {
        topic: [None] * len(racks) for topic, racks in leader_racks.items()
    }
    rackless = [replace(member, rack=None) for member in case.members]
    sticky = LeaderRackAwareCooperativeSticky()
    separate_range = LeaderRackAwareRange(co_partitioned=False)
    plans = {
        "apache_range": separate_range.assign(rackless, no_racks),
        "apache_cooperative_sticky": sticky.assign(rackless, no_racks),
        "rackward_range": LeaderRackAwareRange().assign(case.members, leader_racks),
        "rackward_cooperative_sticky": sticky.assign(case.members, leader_racks),
        "rackward_after_leader_layout": sticky.assign(
            case.members, _by_topic(indexes, new_leaders, None)
        ),
    }
    owner = {name: _planned_owners(case, indexes, plan) for name, plan in plans.items()}
    owner["rackward_by_bytes"] = _owners_by_bytes(
        case, indexes, owner["rackward_cooperative_sticky"], leaders
    )

    def scenario(name: str, assignor: str) -> ScenarioAssignment:
        return ScenarioAssignment(name, assignor, owner[name], _sources(case, owner[name], leaders))

    after_layout = owner["rackward_after_leader_layout"]
    return [
        as_is,
        scenario("apache_range", "range"),
        scenario("apache_cooperative_sticky", "cooperative-sticky"),
        scenario("rackward_range", RANGE),
        scenario("rackward_cooperative_sticky", COOPERATIVE_STICKY),
        scenario("rackward_by_bytes", COOPERATIVE_STICKY),
        ScenarioAssignment(
            "rackward_after_leader_layout",
            COOPERATIVE_STICKY,
            after_layout,
            _sources(case, after_layout, new_leaders),
            leader_moves,
        ),
        *last,
    ]


def present_assignments(case: GroupCase) -> tuple[ScenarioAssignment, ScenarioAssignment]:
    """Return what the members read now: as it is, and with follower fetching (KIP-392) of all."""
    leaders = case.leader_racks()
    owned = {member.id: member.owned for member in case.members}
    owner = _owners(case, _indexes(case.partitions), owned)
    everywhere = replace(
        case,
        selecting=frozenset(case.racks),
        sends_rack=dict.fromkeys((member.id for member in case.members), True),
    )
    nearest = _sources(everywhere, owner, leaders)
    return (
        ScenarioAssignment("as_is", case.assignor, owner, _sources(case, owner, leaders)),
        ScenarioAssignment("follower_fetching", case.assignor, owner, nearest),
    )


def _sources(
    case: GroupCase, owner: IntArray, leaders: Sequence[str | None]
) -> Sequence[str | None]:
    """Return the rack that each partition is read from, given the racks of the leaders.

    How a member reads does not depend on who assigns its partitions.
    """
    if not case.may_follow:
        return leaders
    in_sync = {each.isr for each in case.partitions.values()}
    racks_of = {
        isr: {rack for rack in map(case.rack_of, isr) if rack is not None} for isr in in_sync
    }
    racks = []
    for number, each, leader in zip(owner.tolist(), case.partitions.values(), leaders, strict=True):
        if number == NO_OWNER or each.leader not in case.selecting:
            racks.append(leader)
            continue
        member = case.members[number]
        sends_rack = case.sends_rack.get(member.id)
        racks.append(source_rack(member.rack, leader, racks_of[each.isr], sends_rack))
    return racks


def _owners_by_bytes(
    case: GroupCase,
    indexes: Mapping[str, IntArray],
    owner: IntArray,
    leaders: Sequence[str | None],
) -> IntArray:
    """Return the owners if the assignor knows bytes; ``owner``, if that crosses racks nowhere."""
    racks = [member.rack for member in case.members]
    if all(
        number == NO_OWNER or racks[number] == leader
        for number, leader in zip(owner.tolist(), leaders, strict=True)
    ):
        return owner
    weights = [float(each.bytes) for each in case.partitions.values()]
    plan = LeaderRackAwareCooperativeSticky().assign(
        case.members, _by_topic(indexes, leaders, None), _by_topic(indexes, weights, 0.0)
    )
    return _planned_owners(case, indexes, plan)


def _indexes(partitions: Mapping[TopicPartition, object]) -> dict[str, IntArray]:
    """Return topic to an array: the index of each of its partitions in ``partitions``.

    Partitions that no snapshot contains have the index -1.
    """
    by_topic: dict[str, dict[int, int]] = {}
    for index, (topic, number) in enumerate(partitions):
        by_topic.setdefault(topic, {})[number] = index
    indexes = {}
    for topic, of_topic in by_topic.items():
        indexes[topic] = np.full(max(of_topic) + 1, -1, np.int64)
        indexes[topic][list(of_topic)] = list(of_topic.values())
    return indexes


def _by_topic(
    indexes: Mapping[str, IntArray], values: Sequence[Value], missing: Value
) -> dict[str, list[Value]]:
    """Return ``values``, which are in the order of the partitions, as input of an assignor: topic
    to list, in which the index is the partition. Partitions that no snapshot contains have
    ``missing``."""
    return {
        topic: [missing if number < 0 else values[number] for number in index.tolist()]
        for topic, index in indexes.items()
    }


def _owners(case: GroupCase, indexes: Mapping[str, IntArray], assigned: Assigned) -> IntArray:
    """Return the owner of each partition under ``assigned``, which may contain others too."""
    # The last element stands for all partitions with the index -1.
    owner = np.full(len(case.partitions) + 1, NO_OWNER, np.int64)
    for number, member in enumerate(case.members):
        for topic, partitions in assigned[member.id].items():
            index = indexes.get(topic)
            if index is not None:
                known = [each for each in partitions if each is not None and each < len(index)]
                owner[index[known]] = number
    return owner[:-1]


def _planned_owners(case: GroupCase, indexes: Mapping[str, IntArray], plan: Plan) -> IntArray:
    """Return the owner of each partition under a plan for the topics of ``indexes``."""
    assigned = plan.partitions
    assert isinstance(assigned, AssignedPartitions)
    number = {member.id: number for number, member in enumerate(case.members)}
    # The last element stands for UNASSIGNED, -1.
    members = np.array([*map(number.__getitem__, assigned.ids), NO_OWNER], np.int64)
    owners = members[assigned.assigned]
    owner = np.full(len(case.partitions) + 1, NO_OWNER, np.int64)
    for topic, (start, end) in zip(assigned.topics, pairwise(assigned.base.tolist()), strict=True):
        owner[indexes[topic]] = owners[start:end]
    return owner[:-1]


# ---- The leader layout.

MAX_WEIGHT = 100
"""The weight of the subscription of which most bytes per partition are read; at least 1."""

MAX_CACHED_LAYOUTS = 256

MAX_CACHED_PARTITIONS = 5_000
"""Larger layouts are not cached, to limit the memory."""


_Consumers = tuple[tuple[str | None, int], ...]
"""Racks, and the number of members in each."""
_Replicas = tuple[tuple[TopicPartition, tuple[int, ...]], ...]
_Demand = tuple[frozenset[str], int, _Consumers]
_Owned = tuple[frozenset[str], tuple[tuple[TopicPartition, str | None, int], ...]]


@dataclass(frozen=True, slots=True)
class LeaderLayout:
    """The rack of each leader after a layout, and the number of preferred leaders that change.

    ``first_group`` is the first name of the groups for which the layout was computed.
    """

    racks: dict[TopicPartition, str | None]
    moves: int
    first_group: str


def groups_sharing_topics(cases: Sequence[GroupCase]) -> list[list[GroupCase]]:
    """Divide the groups of one cluster: those that share topics, directly or through others, are
    together, unless they may read from followers. Sorted by name."""
    ordered = sorted(cases, key=lambda each: each.group)
    topics = [
        set() if case.may_follow else {partition.topic for partition in case.partitions}
        for case in ordered
    ]
    divided: dict[int, list[GroupCase]] = {}
    for case, component in zip(ordered, components(topics), strict=True):
        divided.setdefault(component, []).append(case)
    return list(divided.values())


def leader_layout(cases: Sequence[GroupCase]) -> LeaderLayout:
    """Return the layout for all of these groups of one cluster together.

    A partition without a leader keeps none.
    """
    if cases[0].may_follow:
        (case,) = cases
        return LeaderLayout(
            dict(zip(case.partitions, case.leader_racks(), strict=True)), 0, case.group
        )
    partitions: dict[TopicPartition, PartitionCase] = {}
    for case in cases:
        partitions |= case.partitions
    plan = _cached_leaders if len(partitions) <= MAX_CACHED_PARTITIONS else _preferred_leaders
    leaders = plan(
        tuple(Broker(broker, rack) for broker, rack in sorted(cases[0].racks.items())),
        tuple((p, _leader_first(each.leader, each.replicas)) for p, each in partitions.items()),
        *_readers(cases),
    )
    racks, moves = {}, 0
    for (partition, each), first in zip(partitions.items(), leaders, strict=True):
        leader = None if each.leader is None else each.leader if first is None else first
        moves += leader != each.leader
        racks[partition] = cases[0].rack_of(leader)
    return LeaderLayout(racks, moves, min(case.group for case in cases))


def _readers(cases: Sequence[GroupCase]) -> tuple[tuple[_Demand, ...], tuple[_Owned, ...]]:
    """Return what members demand, and what members of groups that brokers assign own."""
    all_demands = [(case, each) for case in cases for each in _demands(case)]
    heaviest = max((mean for _, (_, mean, _) in all_demands), default=0.0)
    demands = [each for case, each in all_demands if not case.assigned_by_brokers]
    scaled = [
        (topics, round(mean / heaviest * MAX_WEIGHT) if heaviest else 0, consumers)
        for topics, mean, consumers in demands
    ]
    return (
        tuple((topics, max(1, weight), consumers) for topics, weight, consumers in scaled),
        tuple(_owned(case, heaviest) for case in cases if case.assigned_by_brokers),
    )


def _owned(case: GroupCase, heaviest: float) -> _Owned:
    """Return the topics of a group, and what its members own; ``heaviest`` as for demands."""
    owned = []
    for member in case.members:
        for topic, numbers in sorted(member.owned.items()):
            for partition in (TopicPartition(topic, number) for number in numbers):
                if partition in case.partitions:
                    size = case.partitions[partition].bytes
                    weight = round(size / heaviest * MAX_WEIGHT) if heaviest else 0
                    owned.append((partition, member.rack, max(1, weight)))
    return frozenset(partition.topic for partition in case.partitions), tuple(owned)


def _demands(case: GroupCase) -> list[tuple[frozenset[str], float, _Consumers]]:
    """Return per subscription its topics, the mean bytes per partition, and members per rack."""
    subscriptions: dict[frozenset[str], Counter[str | None]] = {}
    for member in case.members:
        subscriptions.setdefault(member.topics, Counter())[member.rack] += 1
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for partition, each in case.partitions.items():
        sizes[partition.topic] += each.bytes
        counts[partition.topic] += 1
    ordered = sorted(subscriptions.items(), key=lambda each: sorted(each[0]))
    return [
        (
            topics,
            sum(sizes[topic] for topic in topics) / max(1, sum(counts[topic] for topic in topics)),
            tuple(sorted(consumers.items(), key=lambda each: (each[0] is None, each[0] or ""))),
        )
        for topics, consumers in ordered
    ]


def _preferred_leaders(
    brokers: tuple[Broker, ...],
    replicas: _Replicas,
    demands: tuple[_Demand, ...],
    owned_partitions: tuple[_Owned, ...],
) -> tuple[int | None, ...]:
    """Return the preferred leader of each of ``replicas``; None if there is no choice.

    Arguments are all that a layout depends on, sorted: the key of the cache. ``replicas`` have the
    current leader first. ``demands`` have subscribed topics, the weight, and the members with that
    subscription, one per group and subscription. ``owned_partitions`` have, per group that brokers
    assign, its topics, and of each owned partition the rack of its owner and the weight.
    """
    demand = [
        ConsumerDemand(str(number), topics, dict(consumers), weight)
        for number, (topics, weight, consumers) in enumerate(demands)
    ]
    assignments = [
        CurrentAssignment(
            f"owned {number}",
            topics,
            {partition: rack for partition, rack, _ in owned},
            {partition: weight for partition, _, weight in owned},
        )
        for number, (topics, owned) in enumerate(owned_partitions)
    ]
    view = ClusterView(brokers, dict(replicas))
    max_imbalance = DEFAULT_MAX_IMBALANCE if assignments else None
    order = plan_leaders(view, demand, assignments=assignments, max_imbalance=max_imbalance).order
    return tuple(order[partition][0] if order.get(partition) else None for partition, _ in replicas)


_cached_leaders = lru_cache(MAX_CACHED_LAYOUTS)(_preferred_leaders)


def _leader_first(leader: int | None, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``replicas`` with the current leader first: the layout starts from that."""
    if leader is None or leader not in replicas:
        return replicas
    return (leader, *(broker for broker in replicas if broker != leader))


# ---- What to change, in the words of `rack_traffic.advice`.

NO_CHANGE = "no change"


def change_text(
    case: GroupCase, scenario: ScenarioAssignment, layout_groups: Sequence[str]
) -> str | None:
    """Return what to change for the scenario; None if the group's client cannot have it, or if it
    is not to be had: Apache Kafka's assignors are local by chance only.

    ``layout_groups`` are the groups that leaders are laid out for together, sorted.
    """
    group = ClientGroup(
        case.group, case.type, case.assignor, tuple(case.clients[m.id] for m in case.members)
    )
    racks = sorted({rack for rack in case.racks.values() if rack and parse_rack(rack)})
    rackless = [case.clients[m.id] for m in case.members if parse_rack(m.rack) is None]
    # Racks first: without them nothing else is of use to these members.
    first = rack_steps(group, rackless, racks) if rackless and racks else ()
    steps = _steps(group, case, scenario.scenario, racks)
    if steps is None:
        return None
    if scenario.scenario in LEADER_LAYOUTS:
        if case.group != layout_groups[0]:
            text = steps_text((*first, *steps))
            of_first = f"with the leader layout of group {layout_groups[0]}"
            return f"{text}; {of_first}" if text else of_first
        others = layout_groups[1:]
        steps = (*steps, layout_step(case.group, others, moves=scenario.leader_moves))
    return steps_text((*first, *steps)) or NO_CHANGE


def _steps(
    group: ClientGroup, case: GroupCase, scenario: str, racks: Sequence[str]
) -> tuple[NextStep, ...] | None:
    match scenario:
        case "as_is" | "leader_layout":
            return ()
        case "rackward_range":
            return scenario_steps(group, RANGE)
        case "rackward_cooperative_sticky" | "rackward_after_leader_layout":
            return scenario_steps(group, COOPERATIVE_STICKY)
        case "rackward_by_bytes":
            return scenario_steps(group, COOPERATIVE_STICKY, by_bytes=True)
        case "follower_fetching":
            return follower_steps(group, racks, selected=case.racks.keys() <= case.selecting)
    return None
