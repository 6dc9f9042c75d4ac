"""The leader layout for one group alone, worked out once for all groups and hours it is alike for.

It takes longer than the assignors do, and depends on little: not on who owns what, nor on the
bytes. So it is the same from interval to interval, and for groups whose members stand alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.leaders import Readers, plan_leaders
from rack_traffic.what_if.inputs import GroupCase

MOST_LAYOUTS = 256
"""How many layouts are kept."""

MOST_PARTITIONS = 5_000
"""Layouts of more partitions are not kept: what they take is bounded too."""


@dataclass(frozen=True, slots=True)
class _Question:
    """All that a layout depends on, in an order of its own.

    ``replicas`` have the present leader in front. ``readers`` are topics, and how many members
    that subscribe to them stand in each rack.
    """

    brokers: tuple[Broker, ...]
    replicas: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    readers: tuple[tuple[frozenset[str], tuple[tuple[str | None, int], ...]], ...]


def laid_out(case: GroupCase) -> tuple[dict[TopicPartition, str | None], int]:
    """The leaders' racks after a layout for this group alone, and how many leaders change.

    A partition without a leader stays without.
    """
    plan = _kept if len(case.partitions) <= MOST_PARTITIONS else _first_replicas
    chosen = plan(_question(case))
    racks, moves = {}, 0
    for (partition, each), first in zip(case.partitions.items(), chosen, strict=True):
        leader = None if each.leader is None else each.leader if first is None else first
        moves += leader != each.leader
        racks[partition] = case.rack_of(leader)
    return racks, moves


def _question(case: GroupCase) -> _Question:
    subscriptions: dict[frozenset[str], Counter[str | None]] = {}
    for member in case.members:
        subscriptions.setdefault(member.topics, Counter())[member.rack] += 1
    # By name, so that the layout is the same in whatever order members come.
    ordered = sorted(subscriptions.items(), key=lambda each: sorted(each[0]))
    return _Question(
        tuple(Broker(broker, rack) for broker, rack in sorted(case.racks.items())),
        tuple(
            (p, _leader_first(each.leader, each.replicas)) for p, each in case.partitions.items()
        ),
        tuple((topics, _in_order(consumers)) for topics, consumers in ordered),
    )


def _in_order(consumers: Counter[str | None]) -> tuple[tuple[str | None, int], ...]:
    return tuple(sorted(consumers.items(), key=lambda each: (each[0] is None, each[0] or "")))


def _first_replicas(question: _Question) -> tuple[int | None, ...]:
    """The preferred leader of every partition, in their order; None where there is no choice."""
    readers = [
        Readers(str(number), topics, dict(consumers))
        for number, (topics, consumers) in enumerate(question.readers)
    ]
    order = plan_leaders(ClusterView(question.brokers, dict(question.replicas)), readers).order
    return tuple(
        order[partition][0] if order.get(partition) else None for partition, _ in question.replicas
    )


_kept = lru_cache(MOST_LAYOUTS)(_first_replicas)


def _leader_first(leader: int | None, replicas: tuple[int, ...]) -> tuple[int, ...]:
    """What the layout starts from is who leads now, not who should."""
    if leader is None or leader not in replicas:
        return replicas
    return (leader, *(broker for broker in replicas if broker != leader))
