"""The leader layout for groups that share topics, cached for groups with the same input.

A partition has one leader, whatever the number of groups that read it. So the leaders of groups
that share topics are laid out together, weighted by the bytes that each group reads: a saving that
one group would have at the expense of another is no saving.

A group that brokers assign does not follow leaders that move. So leaders go to the members that own
their partitions now; all other groups are assigned anew for the leaders.

Leaders do not move for a group that may read from followers: what a moved leader makes local, it
reads there already, or does so once its members send their racks. It is apart from all others.

A layout takes longer to compute than an assignment. Without groups that brokers assign it depends
neither on the current owners nor, for a group that shares no topic, on the bytes: so it is the same
in most intervals, and for groups with the same members per rack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import (
    DEFAULT_MAX_IMBALANCE,
    ConsumerDemand,
    CurrentAssignment,
    components,
    plan_leaders,
)
from rack_traffic.what_if.cases import GroupCase, PartitionCase

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
