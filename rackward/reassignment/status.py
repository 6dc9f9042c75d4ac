"""The status of a plan's partitions in a cluster: pending, in progress, completed.

All state is in the cluster. A run that was interrupted can be resumed from any machine with
nothing but the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.admin import ClusterState, Reassignment


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
