"""Custom placers for the command, given as module:Class."""

from __future__ import annotations

from collections.abc import Collection

from placement_core import ClusterView, PlacementSpec, ReplicaLists


class Backwards:
    """Returns brokers in descending order, the same for all partitions, unlike built-in placers."""

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
    """Returns None: the simple placer is used instead."""

    def place(self, *_: object) -> None:
        return None


class Raising:
    """Raises an error with two lines of text."""

    def place(self, *_: object) -> ReplicaLists:
        raise LookupError("the inventory\nis closed")


class Repeating:
    """Returns replica lists that contain a broker twice."""

    def place(self, spec: PlacementSpec, *_: object) -> ReplicaLists:
        return ((0, 0),) * spec.partitions
