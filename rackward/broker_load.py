"""Leaders and replicas per broker and per rack, before and after a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from placement_core import ClusterView, TopicPartition


@dataclass(frozen=True, slots=True)
class Load:
    """Preferred leaders and replicas of a broker or a rack, before and after a change."""

    leaders_before: int = 0
    leaders_after: int = 0
    replicas_before: int = 0
    replicas_after: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.leaders_before + other.leaders_before,
            self.leaders_after + other.leaders_after,
            self.replicas_before + other.replicas_before,
            self.replicas_after + other.replicas_after,
        )


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The loads of a cluster.

    brokers
        Rack and load by broker id, in order of the ids; includes brokers that are down and still
        in replica lists.
    racks
        Load by rack, in order of the names; None (brokers without a rack) is last.
    """

    brokers: Mapping[int, tuple[str | None, Load]]
    racks: Mapping[str | None, Load]


def cluster_load(before: ClusterView, after: ClusterView) -> ClusterLoad:
    """Return the loads in two views of one cluster, with the racks of ``after``."""
    broker_racks = {**before.racks(), **after.racks()}
    leaders_before, replicas_before = _count(before.replicas)
    leaders_after, replicas_after = _count(after.replicas)
    brokers = {
        broker: (
            broker_racks.get(broker),
            Load(
                leaders_before[broker],
                leaders_after[broker],
                replicas_before[broker],
                replicas_after[broker],
            ),
        )
        for broker in sorted({*broker_racks, *replicas_before, *replicas_after})
    }
    racks: dict[str | None, Load] = {}
    for rack, load in sorted(brokers.values(), key=lambda item: (item[0] is None, item[0] or "")):
        racks[rack] = racks.get(rack, Load()) + load
    return ClusterLoad(brokers, racks)


def _count(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
) -> tuple[Counter[int], Counter[int]]:
    leaders, holders = Counter[int](), Counter[int]()
    for row in replicas.values():
        leaders.update(row[:1])
        holders.update(row)
    return leaders, holders
