"""Progress of a plan: the state of its partitions, bytes copied, stalls, events and the result.

Everything here is a pure function of cluster states, replica sizes and times; the clock is passed
in. :mod:`~rackward.reassignment.executor` does the I/O.

All state is in the cluster. A run that was interrupted can be resumed from any machine with nothing
but the plan.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from placement_core import TopicPartition
from placement_core.cluster import Move
from rackward.kafka import ClusterState, Reassignment, ReplicaSizes

RATE_WINDOW_SECONDS = 30.0
"""The copy rate is the average over this time."""
PROPAGATION_SECONDS = 10.0
"""Time in which brokers learn of a change that the controller made."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0
_PAUSE_GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class Clock:
    """An injectable clock: ``now`` returns seconds since any moment, ``sleep`` waits."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self) -> Iterator[float]:
        """Yield the pauses between status requests: short at first, since many moves are quick."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            yield pause
            pause = min(_LONGEST_PAUSE_SECONDS, pause * _PAUSE_GROWTH)


class PartitionState(Enum):
    """The state of a partition with regard to a move."""

    NOT_STARTED = "not started"
    """The replicas are as before the move; no reassignment is in progress."""
    IN_PROGRESS = "in progress"
    """A reassignment to the move's target is in progress."""
    COMPLETED = "completed"
    """The replicas are as after the move; no reassignment is in progress."""
    OTHER_TARGET = "other target"
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
        return PartitionState.OTHER_TARGET
    if replicas == move.after:
        return PartitionState.COMPLETED
    return PartitionState.NOT_STARTED if replicas == move.before else PartitionState.UNEXPECTED


def partition_states(
    moves: Iterable[Move], state: ClusterState
) -> dict[TopicPartition, PartitionState]:
    """Return the state of each move's partition, see `partition_state`."""
    return {move.partition: partition_state(move, state) for move in moves}


def partitions_in(
    states: Mapping[TopicPartition, PartitionState], *wanted: PartitionState
) -> list[TopicPartition]:
    """Return the partitions in one of these states, sorted."""
    return sorted(tp for tp, state in states.items() if state in wanted)


def leads_to(reassignment: Reassignment, replicas: tuple[int, ...]) -> bool:
    """Return whether a reassignment will complete with these replicas.

    A reassignment whose target was replaced may both add and remove a broker. Kafka (4.3) never
    completes it.
    """
    return reassignment.target == replicas and not (
        set(reassignment.adding) & set(reassignment.removing)
    )


def missing_brokers(move: Move, state: ClusterState) -> tuple[int, ...]:
    """Return the brokers that are down and that a move cannot proceed without.

    Those that have to copy and, if the partition has no leader, those to copy from.
    """
    live = state.view.racks()
    missing = [broker for broker in move.adding if broker not in live]
    if state.view.leader(move.partition) is None:
        missing += [b for b in move.before if b not in live and b not in missing]
    return tuple(missing)


@dataclass(frozen=True, slots=True)
class Progress:
    """Partitions completed and bytes copied, each with its total.

    ``rate`` is in bytes per second. It and ``seconds_left`` are None while unknown.
    """

    completed: int
    partitions: int
    bytes_copied: int
    bytes: int
    rate: float | None = None
    seconds_left: float | None = None


@dataclass(slots=True)
class ProgressMeter:
    """Computes Progress from replica sizes that are measured from time to time.

    ``totals`` are the bytes to copy per partition; they grow with the partitions' logs.
    """

    totals: dict[TopicPartition, int]
    _copied: dict[TopicPartition, int] = field(default_factory=dict)
    _completed: set[TopicPartition] = field(default_factory=set)
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    @classmethod
    def of(cls, moves: Iterable[Move], sizes: Mapping[TopicPartition, int]) -> ProgressMeter:
        """Return a meter for ``moves``; ``sizes`` are bytes on the leaders (0 if unknown)."""
        return cls({m.partition: sizes.get(m.partition, 0) * len(m.adding) for m in moves})

    def complete(self, partitions: Iterable[TopicPartition]) -> None:
        """Count these partitions as copied in full."""
        for tp in partitions:
            self._completed.add(tp)
            self._copied[tp] = self.totals[tp]

    def measure(self, moves: Iterable[Move], sizes: ReplicaSizes, state: ClusterState) -> None:
        """Update the bytes that the new replicas of ``moves`` have copied.

        A partition with a size that is unknown now (a broker may be unavailable for a moment)
        keeps its last value. No replica counts for more than the leader's size.
        """
        for move in moves:
            tp = move.partition
            leader = state.view.leader(tp)
            whole = sizes.get((tp, leader)) if leader is not None else None
            if tp in self._completed or whole is None:
                continue
            self.totals[tp] = whole * len(move.adding)
            copies = [sizes.get((tp, broker)) for broker in move.adding]
            if all(copy is not None for copy in copies):
                self._copied[tp] = sum(min(copy, whole) for copy in copies if copy is not None)

    def progress(self, now: float) -> Progress:
        """Return the progress at that time, and record a sample for the rate."""
        copied, total = sum(self._copied.values()), sum(self.totals.values())
        self._samples.append((now, copied))
        while len(self._samples) > 2 and now - self._samples[1][0] >= RATE_WINDOW_SECONDS:
            self._samples.popleft()
        rate = seconds_left = None
        first_time, first_copied = self._samples[0]
        if now > first_time and copied > first_copied:
            rate = (copied - first_copied) / (now - first_time)
            seconds_left = (total - copied) / rate
        return Progress(len(self._completed), len(self.totals), copied, total, rate, seconds_left)


@dataclass(slots=True)
class StallDetector:
    """Detects that a run makes no progress, and that reassignments were cancelled.

    ``last_progress`` is the time of the last progress; all times are seconds of one clock.
    """

    stall_timeout: float
    last_progress: float
    _best: tuple[int, int] = (-1, -1)
    _idle_since: dict[TopicPartition, float] = field(default_factory=dict)

    def update(self, now: float, progress: Progress) -> None:
        """Record the progress at that time."""
        current = (progress.completed, progress.bytes_copied)
        if current > self._best:
            self._best, self.last_progress = current, now

    def is_stalled(self, now: float) -> bool:
        """Return whether there was no progress for ``stall_timeout`` seconds."""
        return now - self.last_progress >= self.stall_timeout

    def cancelled(self, now: float, idle: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that have been ``idle`` for PROPAGATION_SECONDS without a break.

        ``idle`` are requested, and neither in progress nor completed. Directly after the request,
        the broker that responded may not know of it yet.
        """
        self._idle_since = {tp: self._idle_since.get(tp, now) for tp in idle}
        return {tp for tp, since in self._idle_since.items() if now - since >= PROPAGATION_SECONDS}


# ---- Events and the result of carrying out a plan.


class Event(msgspec.Struct, frozen=True):
    """What the executor passes to an `EventHandler`.

    The command line renders it as text or JSON (:mod:`rackward.cli.live`), where it is named after
    its class.
    """


class Started(Event, frozen=True):
    """The run starts: partitions ``pending``, ``in_progress`` from an earlier run, ``completed``
    already; the number of ``batches``, and the ``bytes`` to copy (None: unknown)."""

    pending: int
    in_progress: int
    completed: int
    batches: int
    bytes: int | None


class ThrottleSet(Event, frozen=True):
    """Copying is throttled to ``rate`` bytes per second and broker, in each direction."""

    rate: int


class ThrottleShared(Event, frozen=True):
    """Copying is throttled to ``rate``, which another run has set and which was not changed."""

    rate: int


class BrokerThrottleFound(Event, frozen=True):
    """A broker has replication throttle rates of its own, which stay in force there."""

    broker: int
    leader_rate: int | None
    follower_rate: int | None


class ThrottleRemoved(Event, frozen=True):
    """The throttle was removed; ``leftover``: it was that of an earlier run."""

    leftover: bool = False


class ThrottleNotRemoved(Event, frozen=True):
    """The throttle could not be removed."""

    reason: str


class BatchStarted(Event, frozen=True):
    """The controller accepted a batch of ``partitions`` with ``copies`` new replicas."""

    number: int
    batches: int
    partitions: int
    copies: int
    bytes: int | None


class Progressed(Event, frozen=True):
    """The progress of the whole run, seen while batch ``number`` is copied."""

    number: int
    batches: int
    progress: Progress


class PartitionFailed(Event, frozen=True):
    """A partition will not be reassigned."""

    partition: TopicPartition
    reason: str


class WaitingForBrokers(Event, frozen=True):
    """Partitions wait for brokers that are down; the others proceed."""

    partitions: int
    brokers: tuple[int, ...]


class RequestFailed(Event, frozen=True):
    """A request to the cluster failed; it is retried."""

    reason: str


class LeadersElected(Event, frozen=True):
    """Partitions got their preferred replica as leader."""

    partitions: int


class ReassignmentsCancelled(Event, frozen=True):
    """Reassignments in progress were cancelled."""

    partitions: int


class LeftInProgress(Event, frozen=True):
    """The run ends while the cluster still reassigns partitions."""

    partitions: int
    reason: str


EventHandler = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The state of the cluster at the end of a run, as read back from it.

    completed
        Number of partitions with the intended replicas.
    failed
        The other partitions, with the reason.
    in_progress
        Partitions in ``failed`` that the cluster is still reassigning.
    out_of_sync
        Completed partitions with replicas that are not in sync, and these brokers.
    wrong_leader
        Completed partitions whose first replica is not the leader, with the reason.
    throttle_leftovers
        What is left of the run's throttle, as text.
    """

    completed: int
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)
    in_progress: tuple[TopicPartition, ...] = ()
    out_of_sync: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    wrong_leader: Mapping[TopicPartition, str] = field(default_factory=dict)
    throttle_leftovers: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if everything is as intended."""
        return not (self.failed or self.out_of_sync or self.wrong_leader or self.throttle_leftovers)
