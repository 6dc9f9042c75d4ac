"""Cancelling reassignments in progress.

Kafka's cancellation restores the former replicas, but in the order of the target. A second
reassignment, which copies nothing, restores their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import ClusterState, Reassignment
from rackward.reassignment.executor import LiveCluster, verify
from rackward.reassignment.progress import (
    PROPAGATION_SECONDS,
    Clock,
    EventHandler,
    ExecutionResult,
    PartitionFailed,
    PartitionState,
    ReassignmentsCancelled,
    partition_state,
)
from rackward.reassignment.throttle import remove_throttle


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What to cancel.

    moves
        From the reassignment's target back to the former replicas.
    in_progress
        The partitions of ``moves`` that are being reassigned. The reassignments of the others were
        cancelled by a run that was interrupted; their replicas are still in the wrong order.
    others
        Partitions whose reassignments are not to be cancelled.
    """

    moves: Mapping[TopicPartition, Move]
    in_progress: frozenset[TopicPartition]
    others: frozenset[TopicPartition]

    @classmethod
    def of_all(
        cls, reassignments: Mapping[TopicPartition, Reassignment], state: ClusterState
    ) -> Cancellation:
        """Cancel everything in progress.

        The cluster does not keep the former order of replicas: the present leader becomes the
        first one, the others stay in Kafka's order.
        """
        moves = {}
        for tp, reassignment in reassignments.items():
            leader = state.view.leader(tp)
            if before := sorted(reassignment.original, key=lambda broker: broker != leader):
                moves[tp] = Move(tp, reassignment.target, tuple(before))
        return cls(moves, frozenset(reassignments), frozenset())

    @classmethod
    def of_plan(
        cls,
        moves: Iterable[Move],
        state: ClusterState,
        reassignments: Mapping[TopicPartition, Reassignment],
    ) -> Cancellation:
        """Cancel a plan's moves that are in progress, and restore the order of those that were
        cancelled before."""
        back: dict[TopicPartition, Move] = {}
        in_progress = set()
        for move in moves:
            tp = move.partition
            match partition_state(move, state):
                case PartitionState.IN_PROGRESS:
                    in_progress.add(tp)
                case PartitionState.OTHER_TARGET if _never_completes(state.reassignments[tp], move):
                    in_progress.add(tp)
                case PartitionState.UNEXPECTED if set(state.view.replicas[tp]) == set(move.before):
                    pass
                case _:
                    continue
            back[tp] = move.reversed()
        return cls(back, frozenset(in_progress), frozenset(reassignments.keys() - in_progress))


def _never_completes(reassignment: Reassignment, move: Move) -> bool:
    """Return whether it is a reassignment to the move's target that was then replaced."""
    adding = set(reassignment.adding)
    return bool(adding & set(reassignment.removing)) and adding <= set(move.adding)


def cancel(
    cancellation: Cancellation,
    cluster: LiveCluster,
    emit: EventHandler,
    clock: Clock | None = None,
) -> ExecutionResult:
    """Cancel, remove the throttle, and read back the result. Raises AdminError."""
    clock = clock or Clock()
    failed: dict[TopicPartition, str] = {}

    def request(targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
        if not targets:
            return
        for tp, error in sorted(cluster.reassign(targets).items()):
            failed[tp] = str(error)
            emit(PartitionFailed(tp, str(error)))

    request(dict.fromkeys(cancellation.in_progress))
    if cancelled := len(cancellation.in_progress - failed.keys()):
        emit(ReassignmentsCancelled(cancelled))
    former = {tp: move.after for tp, move in cancellation.moves.items() if tp not in failed}
    request(_out_of_order(former, cluster, clock))
    remove_throttle(cluster.throttle, lambda: cancellation.others, emit, clock)
    return verify(
        cancellation.moves,
        {tp: reason for tp, reason in failed.items() if tp in cancellation.moves},
        {},
        cluster,
        clock,
        check_leaders=False,
        check_throttle=not cancellation.others,
    )


def _out_of_order(
    replicas: Mapping[TopicPartition, tuple[int, ...]],
    cluster: LiveCluster,
    clock: Clock,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Wait for the cancellations; return those of ``replicas`` that are in another order."""
    deadline = clock.now() + PROPAGATION_SECONDS
    topics = sorted({tp.topic for tp in replicas})
    for pause in clock.pauses():
        state, reassignments = cluster.describe(topics)
        now = {tp: state.view.replicas.get(tp) for tp in replicas}
        settled = not replicas.keys() & reassignments.keys() and all(
            row is None or set(row) == set(replicas[tp]) for tp, row in now.items()
        )
        if settled or clock.now() >= deadline:
            break
        clock.sleep(pause)
    return {
        tp: row
        for tp, row in replicas.items()
        if (present := now[tp]) is not None and present != row and set(present) == set(row)
    }
