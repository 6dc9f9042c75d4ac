"""What every placer is: one method, from values to values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from placement_core.cluster import ClusterView
from placement_core.placement_spec import PlacementSpec, ReplicaLists


@runtime_checkable
class ReplicaPlacer(Protocol):
    """Decides which brokers hold the replicas of partitions, and which replica leads."""

    def place(
        self, spec: PlacementSpec, view: ClusterView, broker_ids: Collection[int] | None = None
    ) -> ReplicaLists | None:
        """The replica lists of the partitions of ``spec``, in order of their numbers.

        ``view`` holds the live brokers and the replica lists of the cluster's topics. New
        replicas go to ``broker_ids`` only, or to any live broker where that is None. None as
        an answer defers to the simple placer. Raises a RackwardError where it cannot be done.
        """
        ...
