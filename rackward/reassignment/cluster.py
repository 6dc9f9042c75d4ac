"""The operations on a cluster that a plan needs, and the status of the plan's partitions there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import (
    AdminConnection,
    AdminError,
    ClusterState,
    Reassignment,
    ReplicaSizes,
    read_reassignments,
    read_replica_sizes,
    read_state,
)
from rackward.kafka.reassignments import elect_preferred_leaders, reassign
from rackward.reassignment.throttle import ReplicationThrottle
from rackward.units import Deadline

_SIZES_TIMEOUT_SECONDS = 3.0
"""Sizes are for information only: a broker that just failed must not delay everything else."""


class ReassignableCluster(Protocol):
    """A cluster whose replicas can be reassigned. Every method raises AdminError."""

    @property
    def throttle(self) -> ReplicationThrottle:
        """The cluster's replication throttle."""

    def describe(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Reassignment]]:
        """Return the state of ``topics``, and all reassignments in progress in the cluster."""

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.kafka.reassignments.reassign`."""

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.kafka.reassignments.elect_preferred_leaders`."""

    def replica_sizes(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> ReplicaSizes:
        """Return the sizes of replicas as far as brokers report them within a few seconds."""


class LiveCluster:
    """A :class:`ReassignableCluster` over a connection."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin
        self.throttle = ReplicationThrottle(admin)

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


# ---- The status of a plan's partitions in a cluster: pending, in progress, completed.
#
# All state is in the cluster. A run that was interrupted can be resumed from any machine with
# nothing but the plan.


class PartitionState(Enum):
    """The state of a partition with regard to a move."""

    PENDING = "pending"
    """The replicas are as before the move; no reassignment is in progress."""
    IN_PROGRESS = "in progress"
    """A reassignment to the move's target is in progress."""
    COMPLETED = "completed"
    """The replicas are as after the move; no reassignment is in progress."""
    DIVERTED = "diverted"
    """A reassignment to another target is in progress."""
    UNEXPECTED = "unexpected"
    """The replicas are neither as before nor as after; no reassignment is in progress."""
    DELETED = "deleted"
    """The partition does not exist."""


def partition_state(move: Move, state: ClusterState) -> PartitionState:
    """Return the state of a move's partition; ``state`` must contain its topic if it exists."""
    replicas = state.view.replicas.get(move.partition)
    if replicas is None:
        return PartitionState.DELETED
    reassignment = state.reassignments.get(move.partition)
    if reassignment is not None:
        if leads_to(reassignment, move.after):
            return PartitionState.IN_PROGRESS
        return PartitionState.DIVERTED
    if replicas == move.after:
        return PartitionState.COMPLETED
    return PartitionState.PENDING if replicas == move.before else PartitionState.UNEXPECTED


def leads_to(reassignment: Reassignment, replicas: tuple[int, ...]) -> bool:
    """Return whether a reassignment will complete with these replicas.

    A reassignment whose target was replaced may both add and remove a broker. Kafka (4.3) never
    completes it.
    """
    return reassignment.target == replicas and not (
        set(reassignment.adding) & set(reassignment.removing)
    )


@dataclass(frozen=True, slots=True)
class ReassignmentStatus:
    """The state of each partition of a plan, and the foreign reassignments in progress.

    Foreign reassignments are those of other partitions, and those of the plan's partitions that
    have another target.
    """

    states: Mapping[TopicPartition, PartitionState]
    foreign: Mapping[TopicPartition, Reassignment]

    @classmethod
    def of(
        cls,
        moves: Iterable[Move],
        state: ClusterState,
        reassignments: Mapping[TopicPartition, Reassignment],
    ) -> ReassignmentStatus:
        """Return the status; ``reassignments`` are all that are in progress in the cluster."""
        states = {move.partition: partition_state(move, state) for move in moves}
        foreign = {
            tp: each
            for tp, each in reassignments.items()
            if states.get(tp) is not PartitionState.IN_PROGRESS
        }
        return cls(states, foreign)

    def count(self, state: PartitionState) -> int:
        """Return the number of partitions in that state."""
        return sum(each is state for each in self.states.values())

    def partitions(self, state: PartitionState) -> list[TopicPartition]:
        """Return the partitions in that state, sorted."""
        return sorted(tp for tp, each in self.states.items() if each is state)
