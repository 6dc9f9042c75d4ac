"""Consumer groups of the demo, one process per group.

Six consumers of kafka-python use a good part of what one interpreter can do, so each group runs
in a process of its own and does not slow the others down. The demo's process sends requests over
a pipe and the group's process answers each with a `GroupReport`: ``("join", MemberSpec)``,
``("leave", name)`` and ``("report", None)``. The group's process exits when the pipe closes,
which it also does when the demo's process dies.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
    enable_workarounds,
    install,
)
from rackward.demo import DemoError
from rackward.demo.metrics import Assignment, Strategy

RESPONSE_TIMEOUT = 60.0
SETTLE_TIMEOUT = 180.0
LEAVE_TIMEOUT = 8.0
"""Seconds that members have to leave the group at the end."""
POLL_TIMEOUT_MS = 2000
IDLE_PAUSE = 0.05
QUIET_SECONDS = 1.5
"""A group has settled when its assignments have not changed for this long."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """The configuration of a member."""

    name: str
    rack: str
    topic: str
    group: str
    bootstrap: str


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member at one moment.

    ``generation`` is -1 during a rebalance. ``revoked`` counts the partitions revoked so far,
    ``quiet_seconds`` is the time since the assignment last changed. ``positions`` holds, for each
    partition ever read, the offset after the last record.
    """

    partitions: frozenset[int]
    generation: int
    revoked: int
    quiet_seconds: float
    records: int
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group at one moment: its members, and sums that include members that have left.

    ``positions`` holds, per partition, the offset after the last record that any member read;
    ``failures`` describes members that ended with an error.
    """

    members: Mapping[str, MemberState]
    revoked: int
    records: int
    positions: Mapping[int, int]
    failures: tuple[str, ...]

    @property
    def assignment(self) -> Assignment:
        """The partitions of each member."""
        return {name: state.partitions for name, state in self.members.items()}

    def is_settled(self, partitions: int) -> bool:
        """Whether no rebalance is going on and each partition has exactly one reader."""
        states = self.members.values()
        assigned = sorted(partition for state in states for partition in state.partitions)
        return (
            len({state.generation for state in states}) == 1
            and all(state.generation >= 0 for state in states)
            and all(state.quiet_seconds >= QUIET_SECONDS for state in states)
            and assigned == list(range(partitions))
        )


class GroupProcess:
    """The consumer group of one strategy, in a process of its own."""

    def __init__(self, strategy: Strategy, topic: str, group: str, log_file: Path) -> None:
        self.strategy = strategy
        self.member_racks: dict[str, str] = {}
        self._topic = topic
        self._group = group
        context = multiprocessing.get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(
            target=_run_group, args=(child_pipe, strategy.key, log_file), name=group, daemon=True
        )
        with _sigint_blocked():
            self._process.start()
        child_pipe.close()

    def join(self, member: str, rack: str, bootstrap: str) -> None:
        """Start a member in ``rack`` that bootstraps from ``bootstrap``."""
        spec = MemberSpec(
            name=f"{self.strategy.key}-{member}",
            rack=rack,
            topic=self._topic,
            group=self._group,
            bootstrap=bootstrap,
        )
        self._request("join", spec)
        self.member_racks[spec.name] = rack

    def leave(self, member: str) -> None:
        """Let a member leave the group."""
        name = f"{self.strategy.key}-{member}"
        self._request("leave", name)
        del self.member_racks[name]

    def report(self) -> GroupReport:
        """Return the present state. Raises DemoError if a member failed."""
        report = self._request("report")
        if report.failures:
            raise DemoError(f"{self.strategy.title}: {'; '.join(report.failures)}")
        return report

    def close(self, *, leave_group: bool) -> None:
        """End the process, with ``leave_group`` after its members have left (bounded)."""
        self._pipe.close()
        if leave_group:
            self._process.join(LEAVE_TIMEOUT + 2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _request(self, request: str, argument: Any = None) -> GroupReport:
        try:
            self._pipe.send((request, argument))
            if self._pipe.poll(RESPONSE_TIMEOUT):
                report: GroupReport = self._pipe.recv()
                return report
        except (EOFError, OSError) as error:
            self._process.join(1)
            raise DemoError(
                f"the process of {self.strategy.title} exited with status "
                f"{self._process.exitcode}: see its log (--keep-logs)"
            ) from error
        raise DemoError(
            f"the process of {self.strategy.title} did not respond within {RESPONSE_TIMEOUT:.0f} s:"
            " see its log (--keep-logs)"
        )


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block Ctrl-C while a process starts; it is delivered to this process afterwards.

    The terminal sends SIGINT to all our processes. A new one inherits the blocked signal, and
    would otherwise die with a traceback before it has set its own handler.
    """
    # The first spawned process starts the resource tracker, which unblocks the signal.
    resource_tracker.ensure_running()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def wait_until_settled(
    groups: Sequence[GroupProcess],
    partitions: int,
    tick: Callable[[Mapping[str, GroupReport]], None],
    clock: Callable[[], float],
) -> None:
    """Wait until every group has settled; ``tick`` is called with the reports of each round.

    Raises DemoError, with the names of the groups, after SETTLE_TIMEOUT seconds.
    """
    deadline = clock() + SETTLE_TIMEOUT
    while True:
        reports = {group.strategy.key: group.report() for group in groups}
        tick(reports)
        unsettled = [
            group.strategy.title
            for group in groups
            if not reports[group.strategy.key].is_settled(partitions)
        ]
        if not unsettled:
            return
        if clock() > deadline:
            raise DemoError(
                f"still rebalancing after {SETTLE_TIMEOUT:.0f} s: {', '.join(unsettled)}; "
                "see the logs of groups and brokers (--keep-logs)"
            )


# What follows runs in the group's process.


def _run_group(pipe: Connection, key: str, log_file: Path) -> None:
    """Run the members of strategy ``key`` until the pipe closes; the main function."""
    # Ctrl-C reaches every process of the terminal. The parent handles it and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        filename=log_file,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kafka").setLevel(logging.WARNING)
    present: dict[str, _Member] = {}
    left: list[_Member] = []
    try:
        while True:
            request, argument = pipe.recv()
            if request == "join":
                member = _Member(argument, key)
                member.start()
                present[argument.name] = member
            elif request == "leave":
                member = present.pop(argument)
                member.leave()
                left.append(member)
            pipe.send(_report(present, left))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        for member in present.values():
            member.leave()
        for member in present.values():
            member.join(LEAVE_TIMEOUT)


def _report(present: Mapping[str, _Member], left: Sequence[_Member]) -> GroupReport:
    states = {name: member.state() for name, member in present.items()}
    all_states = [*states.values(), *(member.state() for member in left)]
    positions: dict[int, int] = {}
    for state in all_states:
        for partition, offset in state.positions.items():
            positions[partition] = max(offset, positions.get(partition, 0))
    return GroupReport(
        members=states,
        revoked=sum(state.revoked for state in all_states),
        records=sum(state.records for state in all_states),
        positions=positions,
        failures=tuple(
            f"{member.name}: {type(member.failure).__name__}: {member.failure}"
            for member in [*present.values(), *left]
            if member.failure is not None
        ),
    )


def _assignor(key: str, rack: str) -> Any:
    """Return the entry for ``partition_assignment_strategy`` of the strategy ``key``."""
    match key:
        case "kafka-python-range":
            return RangePartitionAssignor
        case "kafka-python-sticky":
            return CooperativeStickyAssignor
        case "rackward-range":
            return LeaderRackAwareRangeAssignor(rack=rack)
        case "rackward-sticky":
            return LeaderRackAwareCooperativeStickyAssignor(rack=rack)
        case other:
            raise ValueError(f"unknown strategy {other!r}")


class _Member(threading.Thread):
    """A consumer in a thread. ``failure`` holds the error that ended it, if any."""

    def __init__(self, spec: MemberSpec, strategy: str) -> None:
        super().__init__(name=spec.name, daemon=True)
        self.failure: BaseException | None = None
        self._spec = spec
        self._strategy = strategy
        self._leaving = threading.Event()
        self._listener = _RebalanceListener()
        self._partitions: frozenset[int] = frozenset()
        self._generation = -1
        self._records = 0
        self._positions: dict[int, int] = {}

    def leave(self) -> None:
        """Start to leave the group: the member commits and leaves after its present poll."""
        self._leaving.set()

    def state(self) -> MemberState:
        """Return the present state."""
        return MemberState(
            partitions=self._partitions,
            generation=self._generation,
            revoked=self._listener.revoked,
            quiet_seconds=time.monotonic() - self._listener.last_change,
            records=self._records,
            positions=dict(self._positions),
        )

    def run(self) -> None:
        """Consume until `leave` is called, then close the consumer."""
        try:
            with ExitStack() as cleanup:
                consumer = self._connect()
                cleanup.callback(consumer.close, timeout_ms=5000)
                consumer.subscribe([self._spec.topic], listener=self._listener)
                while not self._leaving.is_set():
                    try:
                        self._poll(consumer)
                    except KafkaError as error:
                        # poll() may raise the loss of the connection to a dead coordinator.
                        if not error.retriable:
                            raise
                        log.warning("member=%s retries poll after %r", self._spec.name, error)
                        self._leaving.wait(0.2)
        except BaseException as error:
            log.exception("member=%s failed", self._spec.name)
            self.failure = error

    def _connect(self) -> Any:
        return _Consumer(
            bootstrap_servers=self._spec.bootstrap,
            client_id=self._spec.name,
            group_id=self._spec.group,
            partition_assignment_strategy=[_assignor(self._strategy, self._spec.rack)],
            auto_offset_reset="earliest",
            # Members learn of a rebalance from a heartbeat, and cooperative groups rebalance twice.
            heartbeat_interval_ms=1000,
            # After a broker's death consumers must learn of the new leaders soon.
            metadata_max_age_ms=5000,
            reconnect_backoff_max_ms=1000,
            # One fetch response per broker and second. With one per produced batch, two dozen
            # consumers, the brokers and the producer would use both of two cores.
            fetch_min_bytes=1024 * 1024,
            fetch_max_wait_ms=1000,
            max_poll_records=5000,
            metrics_enabled=False,
        )

    def _poll(self, consumer: Any) -> None:
        # A rebalance that begins in a poll commits within the poll's timeout or not at all, and
        # uncommitted records are read again. So the timeout is long.
        for partition, records in consumer.poll(timeout_ms=POLL_TIMEOUT_MS).items():
            self._records += len(records)
            self._positions[partition.partition] = records[-1].offset + 1
        self._partitions = frozenset(partition.partition for partition in consumer.assignment())
        self._generation = consumer.group_metadata().generation_id


class _Consumer(KafkaConsumer):  # type: ignore[misc]
    """KafkaConsumer with workarounds for faults of kafka-python 3.0.12.

    The adapter applies them for rackward's assignors. Here all strategies have them, because
    otherwise joins that never end on a busy machine, and brokers that are not read after one of
    them died, would show as differences between the strategies.
    """

    def __init__(self, *topics: str, **config: Any) -> None:
        install()
        super().__init__(*topics, **config)
        enable_workarounds(self)

    def _poll_once(self, timer: Any, max_records: int, update_offsets: bool = True) -> Any:
        # While a heartbeat is overdue, poll() does not wait for records but spins, which delays
        # the heartbeat's response further. On a busy machine, a dozen spinning consumers keep each
        # other's heartbeats overdue. A pause after an empty response prevents that.
        start = time.monotonic()
        records = super()._poll_once(timer, max_records, update_offsets=update_offsets)
        if not records and time.monotonic() < start + IDLE_PAUSE:
            time.sleep(IDLE_PAUSE)
        return records


class _RebalanceListener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts revoked partitions and records the time of the last change."""

    def __init__(self) -> None:
        self.revoked = 0
        self.last_change = time.monotonic()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.revoked += len(revoked)
        self.last_change = time.monotonic()

    def on_partitions_assigned(self, assigned: Any) -> None:  # noqa: ARG002
        self.last_change = time.monotonic()
