"""What carrying out a plan needs of a cluster, and the live one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import (
    AdminConnection,
    AdminError,
    ClusterState,
    Ongoing,
    Sizes,
    read_ongoing,
    read_sizes,
    read_state,
)
from rackward.admin.errors import Deadline
from rackward.admin.reassignments import elect_preferred, reassign
from rackward.admin.throttle import BrokerThrottle, Rates, ReplicationThrottle

_SIZE_SECONDS = 3.0
"""Sizes are for showing: a broker that has just died must not hold everything up."""


class Throttle(Protocol):
    """See ReplicationThrottle."""

    def found(self) -> BrokerThrottle: ...

    def own_rates(self, brokers: Collection[int]) -> Mapping[int, Rates]: ...

    def engage(self, rate: int) -> None: ...

    def cover(self, moves: Iterable[Move]) -> None: ...

    def uncover(
        self, topics: Collection[str] | None = None, keep: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]: ...

    def lift(self, keep: Collection[TopicPartition] = ()) -> bool: ...

    def left(self, topics: Collection[str]) -> Sequence[str]: ...


class MovableCluster(Protocol):
    """A cluster whose replicas can be moved. Every method raises AdminError."""

    @property
    def throttle(self) -> Throttle:
        """Its replication throttle."""

    def look(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Ongoing]]:
        """The state of ``topics``, and everything that is under way in the cluster."""

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.admin.reassignments.reassign`."""

    def elect(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.admin.reassignments.elect_preferred`."""

    def sizes(self, brokers: Collection[int], partitions: Collection[TopicPartition]) -> Sizes:
        """What can be had of the sizes of replicas in a moment."""


class LiveCluster:
    """The cluster at the other end of a connection."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin
        self._throttle = ReplicationThrottle(admin)

    @property
    def throttle(self) -> Throttle:
        """See MovableCluster."""
        return self._throttle

    def look(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Ongoing]]:
        """See MovableCluster."""
        deadline = self._admin.deadline()
        # What is under way comes first: what has ended since shows in the metadata then.
        ongoing = read_ongoing(self._admin, deadline)
        state = read_state(self._admin, topics, ongoing=False, deadline=deadline)
        return state.with_ongoing(ongoing), ongoing

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See MovableCluster."""
        return reassign(self._admin, targets)

    def elect(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, AdminError]:
        """See MovableCluster."""
        return elect_preferred(self._admin, partitions)

    def sizes(self, brokers: Collection[int], partitions: Collection[TopicPartition]) -> Sizes:
        """See MovableCluster."""
        if not brokers or not partitions:
            return {}
        try:
            return read_sizes(self._admin, brokers, partitions, Deadline.after(_SIZE_SECONDS))
        except AdminError:
            return {}
