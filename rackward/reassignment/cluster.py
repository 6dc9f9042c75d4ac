"""The operations on a cluster that carrying out a plan needs, and their implementation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import (
    AdminConnection,
    AdminError,
    ClusterState,
    Reassignment,
    ReplicaSizes,
    read_reassignments,
    read_replica_sizes,
    read_state,
)
from rackward.admin.reassignments import elect_preferred_leaders, reassign
from rackward.admin.throttle import BrokerThrottle, Rates, ReplicationThrottle
from rackward.deadline import Deadline

_SIZES_TIMEOUT_SECONDS = 3.0
"""Sizes are for information only: a broker that just failed must not delay everything else."""


class Throttle(Protocol):
    """The operations of :class:`rackward.admin.throttle.ReplicationThrottle`."""

    def read(self) -> BrokerThrottle: ...

    def broker_overrides(self, brokers: Collection[int]) -> Mapping[int, Rates]: ...

    def set_rate(self, rate: int) -> None: ...

    def add_replicas(self, moves: Iterable[Move]) -> None: ...

    def remove_replicas(
        self, topics: Collection[str] | None = None, keep: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]: ...

    def remove(self, keep: Collection[TopicPartition] = ()) -> bool: ...

    def leftovers(self, topics: Collection[str]) -> Sequence[str]: ...


class ReassignableCluster(Protocol):
    """A cluster whose replicas can be reassigned. Every method raises AdminError."""

    @property
    def throttle(self) -> Throttle:
        """The cluster's replication throttle."""

    def describe(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Reassignment]]:
        """Return the state of ``topics``, and all reassignments in progress in the cluster."""

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.admin.reassignments.reassign`."""

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.admin.reassignments.elect_preferred_leaders`."""

    def replica_sizes(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> ReplicaSizes:
        """Return the sizes of replicas as far as brokers report them within a few seconds."""


class LiveCluster:
    """A :class:`ReassignableCluster` over a connection."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin
        self.throttle: Throttle = ReplicationThrottle(admin)

    def describe(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Reassignment]]:
        deadline = self._admin.deadline()
        # In this order: the metadata then shows the result of those that complete meanwhile.
        reassignments = read_reassignments(self._admin, deadline)
        state = read_state(self._admin, topics, reassignments=False, deadline=deadline)
        return state.with_reassignments(reassignments), reassignments

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        return reassign(self._admin, targets)

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, AdminError]:
        return elect_preferred_leaders(self._admin, partitions)

    def replica_sizes(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> ReplicaSizes:
        if not brokers or not partitions:
            return {}
        deadline = Deadline.after(_SIZES_TIMEOUT_SECONDS)
        try:
            return read_replica_sizes(self._admin, brokers, partitions, deadline)
        except AdminError:
            return {}
