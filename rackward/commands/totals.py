"""What brokers and racks carry before and after a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from placement_core import ClusterView, TopicPartition


@dataclass(frozen=True, slots=True)
class Load:
    """Leaders (partitions whose first replica is there) and replicas, before and after."""

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
class Totals:
    """``brokers``: id to rack and load, gone ones that still hold replicas among them;
    ``racks``: rack to load (None: brokers without one)."""

    brokers: Mapping[int, tuple[str | None, Load]]
    racks: Mapping[str | None, Load]


def totals(before: ClusterView, after: ClusterView) -> Totals:
    """The loads by two views of one cluster; the racks are those of ``after``."""
    racks = {**before.racks(), **after.racks()}
    leads_before, holds_before = _counts(before.replicas)
    leads_after, holds_after = _counts(after.replicas)
    brokers = {
        broker: (
            racks.get(broker),
            Load(
                leads_before[broker], leads_after[broker], holds_before[broker], holds_after[broker]
            ),
        )
        for broker in sorted({*racks, *holds_before, *holds_after})
    }
    per_rack: dict[str | None, Load] = {}
    for rack, load in sorted(brokers.values(), key=lambda each: (each[0] is None, each[0] or "")):
        per_rack[rack] = per_rack.get(rack, Load()) + load
    return Totals(brokers, per_rack)


def _counts(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
) -> tuple[Counter[int], Counter[int]]:
    leads, holds = Counter[int](), Counter[int]()
    for row in replicas.values():
        leads[row[0]] += 1
        holds.update(row)
    return leads, holds
