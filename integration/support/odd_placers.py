"""Placers of somebody else's, given to the tool as module:Class."""

from __future__ import annotations

from collections.abc import Collection

from placement_core import ClusterView, PlacementSpec, ReplicaLists


class Backwards:
    """Brokers in falling order, every partition the same: easily told from ours."""

    def __init__(self, lead: str = "5") -> None:
        self.lead = int(lead)

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists:
        others = sorted(broker.id for broker in view.brokers if broker.id != self.lead)[::-1]
        usable = [broker for broker in others if broker_ids is None or broker in broker_ids]
        row = (self.lead, *usable[: spec.replication_factor - 1])
        return (row,) * spec.partitions


class Deferring:
    """Leaves it to the simple placer."""

    def place(self, *_: object) -> None:
        return None


class Raising:
    """Fails."""

    def place(self, *_: object) -> ReplicaLists:
        raise LookupError("the inventory\nis closed")


class Repeating:
    """Answers with a broker twice."""

    def place(self, spec: PlacementSpec, *_: object) -> ReplicaLists:
        return ((0, 0),) * spec.partitions
