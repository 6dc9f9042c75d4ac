"""Consumer groups under measurement, one process per group.

Six consumers of kafka-python use a good part of what one interpreter can do, so each group runs
in a process of its own and does not slow the others down. The measuring process sends requests
over a pipe and the group's process answers each with a `GroupReport`: ``("join", MemberSpec)``,
``("leave", name)`` and ``("report", None)``; ``("history", None)`` is answered with a `History`.
The group's process exits when the pipe closes, which it also does when the measuring process dies.

In a report, partitions are numbers: their position in the list of all partitions that the group
may read.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from placement_core import TopicPartition
from rackward.bench import BenchError
from rackward.bench.clients import MemberSpec, Read, open_consumer
from rackward.bench.strategies import Strategy

RESPONSE_TIMEOUT = 60.0
LEAVE_TIMEOUT = 8.0
"""Seconds that members have to leave if the measuring process has died."""
QUIET_SECONDS = 1.5
"""A group has settled when its assignments have not changed for this long."""

Assignment = Mapping[str, frozenset[int]]
"""Member to the partitions that it reads."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class History:
    """All that the members of a group have read, and the times of their changes, in order.

    ``changes`` are the times, in seconds since the epoch, at which partitions were assigned to
    or revoked from a member.
    """

    reads: tuple[Read, ...]
    changes: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member at one moment.

    ``joined`` tells whether the member has had an assignment, which may be empty. ``revoked``
    counts the partitions revoked so far, ``quiet_seconds`` is the time since the assignment last
    changed. ``positions`` holds, for each partition ever read, the offset after the last record.
    """

    partitions: frozenset[int]
    joined: bool
    revoked: int
    quiet_seconds: float
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group at one moment: its members, and sums that include members that have left.

    ``positions`` holds, per partition, the offset after the last record that any member read;
    ``failures`` describes members that ended with an error.
    """

    members: Mapping[str, MemberState]
    revoked: int
    positions: Mapping[int, int]
    failures: tuple[str, ...]

    @property
    def assignment(self) -> Assignment:
        """The partitions of each member."""
        return {name: state.partitions for name, state in self.members.items()}

    def is_settled(self, partitions: int) -> bool:
        """Whether no rebalance is going on and each partition has exactly one reader.

        While a member is still to join, another one may read everything for seconds.
        """
        states = self.members.values()
        assigned = sorted(partition for state in states for partition in state.partitions)
        return all(
            state.joined and state.quiet_seconds >= QUIET_SECONDS for state in states
        ) and assigned == list(range(partitions))


class GroupProcess:
    """The consumer group of one strategy, in a process of its own.

    ``partitions`` are all that its members may read. ``key`` identifies the group among others
    that are waited for; its log is a file of that name in ``logs``.
    """

    def __init__(
        self,
        key: str,
        strategy: Strategy,
        partitions: Sequence[TopicPartition],
        group: str,
        logs: Path,
    ) -> None:
        self.key = key
        self.strategy = strategy
        self.group = group
        context = multiprocessing.get_context("spawn")
        self._pipe, child_pipe = context.Pipe()
        self._process = context.Process(
            target=_run_group,
            args=(child_pipe, tuple(partitions), logs / f"{key}.log"),
            name=group,
            daemon=True,
        )
        with _sigint_blocked():
            self._process.start()
        child_pipe.close()

    def join(self, member: MemberSpec) -> None:
        """Start a member."""
        self._request("join", member)

    def leave(self, member: str) -> None:
        """Let a member leave the group."""
        self._request("leave", member)

    def report(self) -> GroupReport:
        """Return the present state. Raises BenchError if a member failed."""
        report: GroupReport = self._request("report")
        if report.failures:
            raise BenchError(f"{self.strategy.title}: {'; '.join(report.failures)}")
        return report

    def history(self) -> History:
        """Return what was read so far."""
        history: History = self._request("history")
        return history

    def close(self) -> None:
        """End the process; its members do not leave first."""
        self._pipe.close()
        self._process.kill()
        self._process.join()

    def _request(self, request: str, argument: Any = None) -> Any:
        try:
            self._pipe.send((request, argument))
            if self._pipe.poll(RESPONSE_TIMEOUT):
                return self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(1)
            raise BenchError(
                f"the process of {self.strategy.title} exited with status "
                f"{self._process.exitcode}: see its log (--keep-logs)"
            ) from error
        raise BenchError(
            f"the process of {self.strategy.title} did not respond within {RESPONSE_TIMEOUT:.0f} s:"
            " see its log (--keep-logs)"
        )


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block Ctrl-C while a process starts; it is delivered to this process afterwards.

    The terminal sends SIGINT to all processes. A new one inherits the blocked signal, and
    would otherwise die with a traceback before it has set its own handler.
    """
    # The first spawned process starts the resource tracker, which unblocks the signal.
    resource_tracker.ensure_running()
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


# What follows runs in the group's process.


def _run_group(pipe: Connection, partitions: Sequence[TopicPartition], log_file: Path) -> None:
    """Run members until the pipe closes; the main function."""
    # Ctrl-C reaches every process of the terminal. The parent handles it and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        filename=log_file,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    logging.getLogger("kafka").setLevel(logging.WARNING)
    numbers = {partition: number for number, partition in enumerate(partitions)}
    present: dict[str, _Member] = {}
    left: list[_Member] = []
    try:
        while True:
            request, argument = pipe.recv()
            if request == "join":
                member = _Member(argument, numbers)
                member.start()
                present[argument.name] = member
            elif request == "leave":
                member = present.pop(argument)
                member.leave()
                left.append(member)
            members = [*present.values(), *left]
            pipe.send(_history(members) if request == "history" else _report(present, left))
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
        positions=positions,
        failures=tuple(
            f"{member.name}: {type(member.failure).__name__}: {member.failure}"
            for member in [*present.values(), *left]
            if member.failure is not None
        ),
    )


def _history(members: Sequence[_Member]) -> History:
    reads = [read for member in members for read in member.reads]
    changes = [at for member in members for at in member.changes]
    return History(tuple(sorted(reads, key=lambda read: read.at)), tuple(sorted(changes)))


class _Member(threading.Thread):
    """A consumer in a thread. ``failure`` holds the error that ended it, if any."""

    def __init__(self, spec: MemberSpec, numbers: Mapping[TopicPartition, int]) -> None:
        super().__init__(name=spec.name, daemon=True)
        self.failure: BaseException | None = None
        self.reads: list[Read] = []
        self.changes: list[float] = []
        self._spec = spec
        self._numbers = numbers
        self._leaving = threading.Event()
        self._last_change = time.monotonic()
        self._partitions: frozenset[int] = frozenset()
        self._revoked = 0
        self._positions: dict[int, int] = {}

    def leave(self) -> None:
        """Start to leave the group: the member commits and leaves after its present poll."""
        self._leaving.set()

    def state(self) -> MemberState:
        """Return the present state."""
        return MemberState(
            self._partitions,
            joined=bool(self.changes),
            revoked=self._revoked,
            quiet_seconds=time.monotonic() - self._last_change,
            positions=dict(self._positions),
        )

    def run(self) -> None:
        """Consume until `leave` is called, then close the consumer."""
        try:
            consumer = open_consumer(self._spec, self._on_change)
            try:
                while not self._leaving.is_set():
                    for read in consumer.poll():
                        self._record(read)
                    self._partitions = frozenset(self._numbers[tp] for tp in consumer.assignment())
            finally:
                consumer.close()
        except BaseException as error:
            log.exception("member=%s failed", self._spec.name)
            self.failure = error

    def _record(self, read: Read) -> None:
        self.reads.append(read)
        self._positions[self._numbers[read.partition]] = read.last + 1

    def _on_change(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        self._last_change = time.monotonic()
        self.changes.append(time.time())
        if kind == "revoked":
            self._revoked += len(partitions)
