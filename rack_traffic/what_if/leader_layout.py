"""The leader layout for one group alone, cached for groups and intervals with the same input.

A layout takes longer to compute than an assignment. It does not depend on the current owners and
the bytes, so it is the same in most intervals, and for groups with the same members per rack.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import ConsumerDemand, plan_leaders
from rack_traffic.what_if.inputs import GroupCase

MAX_CACHED_LAYOUTS = 256

MAX_CACHED_PARTITIONS = 5_000
"""Larger layouts are not cached, to limit the memory."""


@dataclass(frozen=True, slots=True)
class _LayoutInput:
    """All that a layout depends on, sorted: the key of the cache.

    ``replicas`` have the current leader first. ``demand`` has subscribed topics, and the number of
    members with that subscription in each rack.
    """

    brokers: tuple[Broker, ...]
    replicas: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    demand: tuple[tuple[frozenset[str], tuple[tuple[str | None, int], ...]], ...]


def leader_layout(case: GroupCase) -> tuple[dict[TopicPartition, str | None], int]:
    """Return the rack of each leader after a layout for this group, and the number of moves.

    A partition without a leader keeps none.
    """
    plan = _cached_leaders if len(case.partitions) <= MAX_CACHED_PARTITIONS else _preferred_leaders
    leaders = plan(_layout_input(case))
    racks, moves = {}, 0
    for (partition, each), first in zip(case.partitions.items(), leaders, strict=True):
        leader = None if each.leader is None else each.leader if first is None else first
        moves += leader != each.leader
        racks[partition] = case.rack_of(leader)
    return racks, moves


def _layout_input(case: GroupCase) -> _LayoutInput:
    subscriptions: dict[frozenset[str], Counter[str | None]] = {}
    for member in case.members:
        subscriptions.setdefault(member.topics, Counter())[member.rack] += 1
    ordered = sorted(subscriptions.items(), key=lambda each: sorted(each[0]))
    return _LayoutInput(
        tuple(Broker(broker, rack) for broker, rack in sorted(case.racks.items())),
        tuple(
            (p, _leader_first(each.leader, each.replicas)) for p, each in case.partitions.items()
        ),
        tuple((topics, _sorted_counts(consumers)) for topics, consumers in ordered),
    )


def _sorted_counts(consumers: Counter[str | None]) -> tuple[tuple[str | None, int], ...]:
    return tuple(sorted(consumers.items(), key=lambda each: (each[0] is None, each[0] or "")))


def _preferred_leaders(inputs: _LayoutInput) -> tuple[int | None, ...]:
    """Return the preferred leader of each of ``inputs.replicas``; None if there is no choice."""
    demand = [
        ConsumerDemand(str(number), topics, dict(consumers))
        for number, (topics, consumers) in enumerate(inputs.demand)
    ]
    order = plan_leaders(ClusterView(inputs.brokers, dict(inputs.replicas)), demand).order
    return tuple(
        order[partition][0] if order.get(partition) else None for partition, _ in inputs.replicas
    )


_cached_leaders = lru_cache(MAX_CACHED_LAYOUTS)(_preferred_leaders)


def _leader_first(leader: int | None, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``replicas`` with the current leader first: the layout starts from that."""
    if leader is None or leader not in replicas:
        return replicas
    return (leader, *(broker for broker in replicas if broker != leader))
