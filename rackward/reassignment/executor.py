"""Carry out moves on a cluster: in batches, throttled, watched, verified.

One run goes through these steps:

1. Read the status of every partition. All state is in the cluster, so a run that was interrupted
   is resumed by the next one: partitions in progress are watched first, completed ones are done.
2. Set the throttle. That of a killed run is taken over, or removed, if the options say so.
3. For each batch: reassign its pending partitions, wait until they complete, elect their preferred
   leaders, and remove their replicas from the throttle. A partition that fails, or waits for
   brokers that are down, does not delay the others.
4. Wait for the partitions whose brokers were down.
5. Remove the throttle, however the run ends.
6. Read back replicas, in-sync replicas and leaders: the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement_core import TopicPartition
from placement_core.cluster import Move
from placement_core.reassignment import Batch, split_into_batches
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
from rackward.kafka.topics import elect_preferred_leaders, reassign
from rackward.reassignment.plan import NO_LIMITS, BatchLimits, bytes_to_copy
from rackward.reassignment.progress import (
    PROPAGATION_SECONDS,
    BatchStarted,
    Clock,
    EventHandler,
    ExecutionResult,
    LeadersElected,
    LeftInProgress,
    PartitionFailed,
    PartitionState,
    Progressed,
    ProgressMeter,
    RequestFailed,
    StallDetector,
    Started,
    WaitingForBrokers,
    missing_brokers,
    partition_states,
    partitions_in,
)
from rackward.reassignment.throttle import ReplicationThrottle, throttled
from rackward.units import Deadline, format_brokers

DEFAULT_STALL_TIMEOUT = 600.0

_BATCH_PARTITIONS = 100
"""Partitions per batch, unless an option or the plan sets it."""
_LEADER_BATCH_PARTITIONS = 1000
"""The same if no data is copied."""
_SIZES_TIMEOUT_SECONDS = 3.0
"""Sizes are for information only: a broker that just failed must not delay everything else."""

Moves = Mapping[TopicPartition, Move]
States = Mapping[TopicPartition, PartitionState]


class LiveCluster:
    """The operations on a cluster that a run needs. All methods raise AdminError."""

    def __init__(self, admin: AdminConnection) -> None:
        self._admin = admin
        self.throttle = ReplicationThrottle(admin)

    def describe(
        self, topics: Collection[str]
    ) -> tuple[ClusterState, Mapping[TopicPartition, Reassignment]]:
        """Return the state of ``topics``, and all reassignments in progress in the cluster."""
        with self._admin.within():
            # In this order: the metadata then shows the result of those that complete meanwhile.
            reassignments = read_reassignments(self._admin)
            state = read_state(self._admin, topics, reassignments=False)
        return state.with_reassignments(reassignments), reassignments

    def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.kafka.topics.reassign`."""
        return reassign(self._admin, targets)

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, AdminError]:
        """See :func:`rackward.kafka.topics.elect_preferred_leaders`."""
        return elect_preferred_leaders(self._admin, partitions)

    def replica_sizes(
        self, brokers: Collection[int], partitions: Collection[TopicPartition]
    ) -> ReplicaSizes:
        """Return the sizes of replicas as far as brokers report them within a few seconds."""
        if not brokers or not partitions:
            return {}
        try:
            with self._admin.within(Deadline.after(_SIZES_TIMEOUT_SECONDS)):
                return read_replica_sizes(self._admin, brokers, partitions)
        except AdminError:
            return {}


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """How to run.

    limits
        Size of a batch, and the bytes per second that each broker may send and receive for new
        replicas. Without a number of partitions: 100 per batch, or 1000 if no data is copied.
    stall_timeout
        Seconds without progress after which the run ends.
    adopt_throttle
        Adopt, or remove, the throttle of an earlier run, which was killed.
    allow_foreign
        Run beside foreign reassignments, and replace those of the plan's own partitions.
    """

    limits: BatchLimits = NO_LIMITS
    stall_timeout: float = DEFAULT_STALL_TIMEOUT
    adopt_throttle: bool = False
    allow_foreign: bool = False


class Executor:
    """One run. ``sizes`` are bytes per partition on its leader, as far as known."""

    def __init__(
        self,
        moves: Iterable[Move],
        sizes: Mapping[TopicPartition, int],
        cluster: LiveCluster,
        options: ExecutionOptions,
        emit: EventHandler,
        clock: Clock | None = None,
    ) -> None:
        self._moves: Moves = {move.partition: move for move in moves}
        self._sizes = sizes
        self._cluster = cluster
        self._options = options
        self._emit = emit
        self._clock = clock or Clock()
        self._meter = ProgressMeter.of(self._moves.values(), sizes)
        self._failed: dict[TopicPartition, str] = {}
        self._wrong_leader: dict[TopicPartition, str] = {}
        self._in_progress: set[TopicPartition] = set()
        self._batch_number = self._batch_count = 0
        self._stalled = False

    def run(self) -> ExecutionResult:
        """Carry out all moves.

        However the run ends, the throttle is removed and partitions that are still in progress
        are emitted. Raises AdminError if the cluster does not respond for too long.
        """
        state, _ = self._cluster.describe(_topics(self._moves))
        states = partition_states(self._moves.values(), state)
        completed = partitions_in(states, PartitionState.COMPLETED)
        in_progress = partitions_in(states, PartitionState.IN_PROGRESS)
        pending = sorted(self._moves.keys() - {*completed, *in_progress})
        limits = self._options.limits
        copies = any(move.adding for move in self._moves.values())
        batches = split_into_batches(
            [self._moves[tp] for tp in pending],
            max_partitions=limits.partitions
            or (_BATCH_PARTITIONS if copies else _LEADER_BATCH_PARTITIONS),
            max_bytes=limits.bytes,
            sizes=self._sizes,
        )
        self._meter.complete(completed)
        self._in_progress = set(in_progress)
        self._batch_count = len(batches) + bool(in_progress)
        self._emit(
            Started(
                pending=len(pending),
                in_progress=len(in_progress),
                completed=len(completed),
                batches=self._batch_count,
                bytes=bytes_to_copy((self._moves[tp] for tp in pending), self._sizes),
            )
        )
        copying = any(self._moves[tp].adding for tp in (*pending, *in_progress))
        rate, adopt = limits.throttle if copying else None, self._options.adopt_throttle
        try:
            with throttled(
                self._cluster.throttle,
                rate,
                state.view.racks(),
                self._others,
                self._emit,
                self._clock,
                adopt=adopt,
            ):
                self._elect(completed)
                self._run_batches(in_progress, batches)
        except BaseException:
            if self._in_progress:
                self._emit(LeftInProgress(len(self._in_progress), "the run was interrupted"))
            raise
        return verify(
            self._moves,
            self._failed,
            self._wrong_leader,
            self._cluster,
            self._clock,
            check_throttle=(rate is not None or adopt) and not self._others(),
        )

    def _others(self) -> Collection[TopicPartition]:
        """Return the partitions that other runs are reassigning now."""
        _, reassignments = self._cluster.describe(())
        return reassignments.keys() - self._moves.keys()

    def _run_batches(self, in_progress: Sequence[TopicPartition], batches: Sequence[Batch]) -> None:
        if in_progress:
            self._run_batch(Batch(tuple(self._moves[tp] for tp in in_progress), None))
        for number, batch in enumerate(batches):
            if self._stalled:
                skipped = [move.partition for each in batches[number:] for move in each.moves]
                self._fail(dict.fromkeys(skipped, "not started: the run made no progress"))
                break
            self._run_batch(batch)
        if self._in_progress and not self._stalled:
            # Only partitions that wait for brokers are left, so the run waits for them.
            self._watch(sorted(self._in_progress), wait_for_brokers=True)
            self._elect(sorted(self._moves.keys() - self._failed.keys()))
        if self._in_progress:
            reason = self._stall_reason() if self._stalled else "brokers are down"
            self._emit(LeftInProgress(len(self._in_progress), reason))

    def _run_batch(self, batch: Batch) -> None:
        """Reassign a batch and wait for it, except for partitions that wait for brokers."""
        self._batch_number += 1
        moves = {move.partition: move for move in batch.moves}
        state, _ = self._cluster.describe(_topics(moves))
        states = partition_states(batch.moves, state)
        ready = self._ready_moves(moves, states, state)
        throttle, rate = self._cluster.throttle, self._options.limits.throttle
        throttle.add(rate, ready.values())
        refused = self._reassign(ready, states)
        self._emit(
            BatchStarted(
                self._batch_number, self._batch_count, len(moves), batch.copies, batch.bytes
            )
        )
        watched = [tp for tp in ready if tp not in refused]
        try:
            # Again: a run that ended meanwhile may have removed the throttle, since it had
            # listed the reassignments in progress before the request above.
            throttle.add(rate, (ready[tp] for tp in watched))
        except AdminError as error:
            self._emit(RequestFailed(str(error)))
        self._watch(watched, wait_for_brokers=False)
        unfinished = self._failed.keys() | self._in_progress
        self._elect([tp for tp in watched if tp not in unfinished])
        if rate is not None:
            # Other runs may copy partitions of the same topics.
            _, reassignments = self._cluster.describe(())
            throttle.release(_topics(moves), reassignments)

    def _ready_moves(self, moves: Moves, states: States, state: ClusterState) -> Moves:
        """Return the moves that can be started or are in progress; the others fail."""
        failures: dict[TopicPartition, str] = {}
        for tp, now in states.items():
            match now:
                case PartitionState.NOT_STARTED:
                    if missing := missing_brokers(moves[tp], state):
                        failures[tp] = f"not started: {_down(missing)}"
                case PartitionState.OTHER_TARGET if self._options.allow_foreign:
                    pass
                case PartitionState.IN_PROGRESS | PartitionState.COMPLETED:
                    pass
                case _:
                    failures[tp] = _fault(tp, now, state)
        self._fail(failures)
        return {tp: move for tp, move in moves.items() if tp not in failures}

    def _reassign(self, moves: Moves, states: States) -> Collection[TopicPartition]:
        """Request the reassignments that are not in progress; return the refused partitions."""
        other_target = [tp for tp in moves if states[tp] is PartitionState.OTHER_TARGET]
        refused: dict[TopicPartition, AdminError] = {}
        if other_target:
            # A target in progress is never replaced: see rackward.kafka.topics.
            refused.update(self._cluster.reassign(dict.fromkeys(other_target)))
        requested = (PartitionState.NOT_STARTED, PartitionState.OTHER_TARGET)
        targets = {
            tp: move.after
            for tp, move in moves.items()
            if states[tp] in requested and tp not in refused
        }
        # Before the request: it may be carried out even if its response is lost.
        self._in_progress |= targets.keys()
        if targets:
            refused.update(self._cluster.reassign(targets))
        self._in_progress -= refused.keys()
        self._fail({tp: f"the controller refused: {error}" for tp, error in refused.items()})
        return refused

    def _watch(self, partitions: Iterable[TopicPartition], *, wait_for_brokers: bool) -> None:
        """Wait until all partitions have completed or failed.

        Unless ``wait_for_brokers``, stop as soon as the rest waits for brokers that are down.
        """
        left = {tp: self._moves[tp] for tp in partitions}
        detector = StallDetector(self._options.stall_timeout, self._clock.now())
        request_failed = False
        reported: Mapping[TopicPartition, tuple[int, ...]] = {}
        for pause in self._clock.pauses():
            try:
                state, _ = self._cluster.describe(_topics(left))
            except AdminError as error:
                if not request_failed:
                    request_failed = True
                    self._emit(RequestFailed(str(error)))
                if detector.is_stalled(self._clock.now()):
                    raise
                self._clock.sleep(pause)
                continue
            request_failed, now = False, self._clock.now()
            waiting = self._update(left, state, detector, now)
            if waiting and waiting != reported:
                down = sorted({broker for brokers in waiting.values() for broker in brokers})
                self._emit(WaitingForBrokers(len(waiting), tuple(down)))
            reported = waiting
            self._measure(left, state)
            progress = self._meter.progress(now)
            self._emit(Progressed(self._batch_number, self._batch_count, progress))
            detector.update(now, progress)
            if not left or (not wait_for_brokers and left.keys() == waiting.keys()):
                return
            if detector.is_stalled(now):
                self._stalled = True
                self._fail(
                    {
                        tp: f"waiting: {_down(waiting[tp])}"
                        if tp in waiting
                        else self._stall_reason()
                        for tp in left
                    },
                    still_in_progress=True,
                )
                return
            self._clock.sleep(pause)

    def _update(
        self,
        left: dict[TopicPartition, Move],
        state: ClusterState,
        detector: StallDetector,
        now: float,
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Remove the partitions from ``left`` that have completed or failed.

        Returns those that wait for brokers that are down, with these brokers.
        """
        states = partition_states(left.values(), state)
        completed = partitions_in(states, PartitionState.COMPLETED)
        self._meter.complete(completed)
        self._in_progress.difference_update(completed)
        idle = partitions_in(states, PartitionState.NOT_STARTED, PartitionState.UNEXPECTED)
        failed = partitions_in(states, PartitionState.DELETED, PartitionState.OTHER_TARGET)
        failures = {
            tp: _fault(tp, states[tp], state) for tp in (*failed, *detector.cancelled(now, idle))
        }
        self._fail(failures)
        for tp in (*completed, *failures):
            del left[tp]
        return {
            tp: brokers
            for tp in partitions_in(states, PartitionState.IN_PROGRESS)
            if (brokers := missing_brokers(left[tp], state))
        }

    def _measure(self, left: Moves, state: ClusterState) -> None:
        copying = [move for move in left.values() if move.adding]
        brokers: set[int | None] = {broker for move in copying for broker in move.adding}
        brokers.update(state.view.leader(move.partition) for move in copying)
        live = sorted(state.view.racks().keys() & brokers)
        sizes = self._cluster.replica_sizes(live, [move.partition for move in copying])
        self._meter.measure(copying, sizes, state)

    def _elect(self, partitions: Iterable[TopicPartition]) -> None:
        moves = {tp: self._moves[tp] for tp in partitions}
        if moves:
            self._wrong_leader.update(elect_leaders(moves, self._cluster, self._emit, self._clock))

    def _fail(
        self, failures: Mapping[TopicPartition, str], *, still_in_progress: bool = False
    ) -> None:
        for tp, reason in sorted(failures.items()):
            self._failed[tp] = reason
            self._emit(PartitionFailed(tp, reason))
            if not still_in_progress:
                self._in_progress.discard(tp)

    def _stall_reason(self) -> str:
        return f"no progress for {self._options.stall_timeout:g} s"


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return sorted({tp.topic for tp in partitions})


def _down(brokers: Sequence[int]) -> str:
    return f"{format_brokers(brokers)} {'are' if len(brokers) > 1 else 'is'} down"


def _fault(tp: TopicPartition, now: PartitionState, state: ClusterState) -> str:
    """Return why a partition that is not completed fails."""
    match now:
        case PartitionState.DELETED:
            return "the topic was deleted"
        case PartitionState.IN_PROGRESS:
            return "still in progress"
        case PartitionState.OTHER_TARGET:
            target = format_brokers(state.reassignments[tp].target)
            return f"another client reassigned it to {target}"
    replicas = format_brokers(state.view.replicas[tp])
    return f"another client moved it, or cancelled its reassignment: it is on {replicas}"


# Electing preferred leaders.


def elect_leaders(
    moves: Moves,
    cluster: LiveCluster,
    emit: EventHandler,
    clock: Clock,
) -> dict[TopicPartition, str]:
    """Elect the first of each partition's new replicas as its leader.

    Retries for a while: a replica that just came back is refused until it is in sync. Returns
    the partitions that have another leader in the end, with the reason; deleted partitions are
    skipped. Raises AdminError.
    """
    deadline = clock.now() + PROPAGATION_SECONDS
    topics = _topics(moves)
    state, _ = cluster.describe(topics)
    before = waiting = _other_leaders(moves, state)
    refused: Mapping[TopicPartition, AdminError] = {}
    for pause in clock.pauses():
        if not waiting or clock.now() >= deadline:
            break
        refused = cluster.elect_preferred_leaders(sorted(waiting))
        state, _ = cluster.describe(topics)
        waiting = _other_leaders(moves, state)
        if waiting:
            clock.sleep(pause)
    if elected := len(before) - len(waiting):
        emit(LeadersElected(elected))
    return {
        tp: _leader_fault(leader, moves[tp]) + (f" ({refused[tp]})" if tp in refused else "")
        for tp, leader in waiting.items()
    }


def _other_leaders(moves: Moves, state: ClusterState) -> dict[TopicPartition, int | None]:
    """Return the leader of each partition that another than its first new replica leads."""
    return {
        tp: leader
        for tp, move in moves.items()
        if tp in state.view.replicas and (leader := state.view.leader(tp)) != move.after[0]
    }


def _leader_fault(leader: int | None, move: Move) -> str:
    actual = "no broker" if leader is None else f"broker {leader}"
    return f"{actual} is the leader, instead of broker {move.after[0]}"


# Verifying the result.


def verify(
    moves: Moves,
    failed: Mapping[TopicPartition, str],
    wrong_leader: Mapping[TopicPartition, str],
    cluster: LiveCluster,
    clock: Clock,
    *,
    check_leaders: bool = True,
    check_throttle: bool = True,
) -> ExecutionResult:
    """Read back the result of a run in which ``failed`` and ``wrong_leader`` are known to be so.

    Other faults are re-checked until the last change has propagated. ``check_leaders``: the first
    replica of each partition should be its leader; ``check_throttle``: nothing of the run's
    throttle should be left. Raises AdminError.
    """
    deadline = clock.now() + PROPAGATION_SECONDS
    topics = _topics(moves)
    for pause in clock.pauses():
        state, _ = cluster.describe(topics)
        leftovers = cluster.throttle.leftovers(topics) if check_throttle else ()
        result = _result(moves, failed, wrong_leader, state, leftovers, check_leaders)
        settled = (
            result.failed.keys() == failed.keys()
            and result.wrong_leader.keys() == wrong_leader.keys()
            and not result.out_of_sync
            and not result.throttle_leftovers
        )
        if settled or clock.now() >= deadline:
            break
        clock.sleep(pause)
    return result


def _result(
    moves: Moves,
    failed: Mapping[TopicPartition, str],
    wrong_leader: Mapping[TopicPartition, str],
    state: ClusterState,
    throttle_leftovers: Collection[str],
    check_leaders: bool,
) -> ExecutionResult:
    states = partition_states(moves.values(), state)
    completed = {tp: moves[tp] for tp, each in states.items() if each is PartitionState.COMPLETED}
    other_leaders = _other_leaders(completed, state) if check_leaders else {}
    return ExecutionResult(
        completed=len(completed),
        failed={
            tp: failed.get(tp) or _fault(tp, each, state)
            for tp, each in states.items()
            if tp not in completed
        },
        in_progress=tuple(tp for tp, each in states.items() if each is PartitionState.IN_PROGRESS),
        out_of_sync={
            tp: missing
            for tp, move in completed.items()
            if (missing := tuple(b for b in move.after if b not in state.in_sync.get(tp, ())))
        },
        wrong_leader={
            tp: wrong_leader.get(tp, _leader_fault(leader, moves[tp]))
            for tp, leader in other_leaders.items()
        },
        throttle_leftovers=tuple(throttle_leftovers),
    )
