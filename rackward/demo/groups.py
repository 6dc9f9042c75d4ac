"""The parent's side of a strategy's consumers: start, ask, wait for calm, end."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import KafkaError

from assignors.kafka_python import harden
from placement_core import RackwardError
from rackward.demo.metrics import Assignment
from rackward.demo.steps import Strategy

# ---- kafka-python's consumer with faults of 3.0.12 mended, for all strategies alike.
#
# Those that the adapter mends for our assignors would show in the others' figures as if they
# were the strategies' own: joins that never end on a busy machine, brokers that are read no more
# after one of them died.
#
# And a machine may be busy. While a heartbeat is overdue, ``KafkaConsumer.poll`` does not wait
# for records but spins, which delays that heartbeat's answer further; a dozen consumers that
# spin keep each other's heartbeats overdue. A pause in each empty round ends that.

PAUSE_SECONDS = 0.05


class SteadyConsumer(KafkaConsumer):  # type: ignore[misc]
    """KafkaConsumer for the demo's members."""

    def __init__(self, *topics: str, **config: Any) -> None:
        super().__init__(*topics, **config)
        harden(self)

    def _poll_once(self, timer: Any, max_records: int, update_offsets: bool = True) -> Any:
        began = time.monotonic()
        records = super()._poll_once(timer, max_records, update_offsets=update_offsets)
        if not records and time.monotonic() < began + PAUSE_SECONDS:
            time.sleep(PAUSE_SECONDS)
        return records


# ---- One consumer of the demo: a kafka-python client in a thread, and what it tells of itself.

POLL_MS = 2000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member at one moment.

    ``generation`` is -1 while it is between two; ``interrupted`` counts the partitions
    that it had to let go so far; ``quiet_seconds`` is the time since it last gained or
    lost any, and ``positions`` holds, per partition that it ever read, the offset after
    the last record.
    """

    partitions: frozenset[int]
    generation: int
    interrupted: int
    quiet_seconds: float
    records: int
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """What a member needs to know to start."""

    name: str
    rack: str
    topic: str
    group: str
    bootstrap: str


class Member(threading.Thread):
    """Consumes until told to leave. ``failure`` holds what ended it against its will."""

    def __init__(self, spec: MemberSpec, assignor: Any) -> None:
        super().__init__(name=spec.name, daemon=True)
        self.failure: BaseException | None = None
        self._spec = spec
        self._assignor = assignor
        self._leave = threading.Event()
        self._listener = _Listener()
        self._partitions: frozenset[int] = frozenset()
        self._generation = -1
        self._records = 0
        self._positions: dict[int, int] = {}

    def leave(self) -> None:
        """Ask it to leave the group; it commits and says good-bye within a poll."""
        self._leave.set()

    def state(self) -> MemberState:
        """How it stands now."""
        return MemberState(
            partitions=self._partitions,
            generation=self._generation,
            interrupted=self._listener.interrupted,
            quiet_seconds=time.monotonic() - self._listener.changed,
            records=self._records,
            positions=dict(self._positions),
        )

    def run(self) -> None:
        """The thread: consume until told to leave, then close."""
        try:
            consumer = self._connect()
            try:
                consumer.subscribe([self._spec.topic], listener=self._listener)
                while not self._leave.is_set():
                    try:
                        self._poll(consumer)
                    except KafkaError as error:
                        # A lost connection to a coordinator that died can come out of a poll.
                        if not error.retriable:
                            raise
                        log.warning("member %s polls again: %r", self._spec.name, error)
                        self._leave.wait(0.2)
            finally:
                consumer.close(timeout_ms=5000)
        except BaseException as error:
            log.exception("member %s ends", self._spec.name)
            self.failure = error

    def _connect(self) -> Any:
        return SteadyConsumer(
            bootstrap_servers=self._spec.bootstrap,
            client_id=self._spec.name,
            group_id=self._spec.group,
            partition_assignment_strategy=[self._assignor],
            auto_offset_reset="earliest",
            # A broker's death moves leaders before anyone fetches from the new ones.
            metadata_max_age_ms=5000,
            reconnect_backoff_max_ms=1000,
            # An answer per broker and second is plenty: with one per produced batch, two
            # dozen consumers, their brokers and the producer would fill two cores.
            fetch_min_bytes=1024 * 1024,
            fetch_max_wait_ms=1000,
            max_poll_records=5000,
            metrics_enabled=False,
        )

    def _poll(self, consumer: Any) -> None:
        # A rebalance that begins in a poll commits within that poll's time, or not at all, and
        # what is not committed is read again.
        for place, records in consumer.poll(timeout_ms=POLL_MS).items():
            self._records += len(records)
            self._positions[place.partition] = records[-1].offset + 1
        self._partitions = frozenset(tp.partition for tp in consumer.assignment())
        self._generation = consumer.group_metadata().generation_id


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts what a member lets go, and when anything last changed."""

    def __init__(self) -> None:
        self.interrupted = 0
        self.changed = time.monotonic()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.interrupted += len(revoked)
        self.changed = time.monotonic()

    def on_partitions_assigned(self, assigned: Any) -> None:  # noqa: ARG002
        self.changed = time.monotonic()


# ---- A process that holds one strategy's consumers, and does what it is told over a pipe.
#
# A process of its own, because six consumers of kafka-python fill a good part of what one
# interpreter can do and the strategies must not slow each other down. Requests and answers
# are pairs over one pipe: ``("join", spec)``, ``("leave", name)`` and ``("states", None)``
# are answered with a `GroupReport`. The pipe's end, which the parent's death is too, ends it.

LEAVE_SECONDS = 8.0
"""How long the members have to leave at the end."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The members that are in the group, what was read by all there ever were, and faults.

    ``positions``: per partition, the offset after the last record that any member read.
    """

    members: Mapping[str, MemberState]
    interrupted: int
    records: int
    positions: Mapping[int, int]
    failures: tuple[str, ...]


def serve(pipe: Connection, key: str, log: Path) -> None:
    """The process's main function: hold the consumers of the strategy ``key`` until told to end.

    What the client library and the assignor log goes to the file ``log``.
    """
    # Ctrl-C reaches the whole terminal: the parent decides, and tells us by the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(
        filename=log, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("kafka").setLevel(logging.WARNING)
    present: dict[str, Member] = {}
    past: list[Member] = []
    try:
        while True:
            request, argument = pipe.recv()
            if request == "join":
                present[argument.name] = _start(argument, key)
            elif request == "leave":
                member = present.pop(argument)
                member.leave()
                past.append(member)
            pipe.send(_report(present, past))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    finally:
        for member in present.values():
            member.leave()
        for member in present.values():
            member.join(LEAVE_SECONDS)


def _start(spec: MemberSpec, key: str) -> Member:
    member = Member(spec, assignor_of(key, spec.rack))
    member.start()
    return member


def _report(present: Mapping[str, Member], past: list[Member]) -> GroupReport:
    states = {name: member.state() for name, member in present.items()}
    everyone = [*states.values(), *(member.state() for member in past)]
    positions: dict[int, int] = {}
    for state in everyone:
        for partition, offset in state.positions.items():
            positions[partition] = max(offset, positions.get(partition, 0))
    return GroupReport(
        members=states,
        interrupted=sum(state.interrupted for state in everyone),
        records=sum(state.records for state in everyone),
        positions=positions,
        failures=tuple(
            f"{member.name}: {type(member.failure).__name__}: {member.failure}"
            for member in [*present.values(), *past]
            if member.failure is not None
        ),
    )


def assignor_of(key: str, rack: str) -> Any:
    """What goes into kafka-python's ``partition_assignment_strategy`` for the strategy ``key``."""
    if key.startswith("our-"):
        from assignors.kafka_python import (
            LeaderRackAwareCooperativeStickyAssignor,
            LeaderRackAwareRangeAssignor,
        )

        if key == "our-range":
            return LeaderRackAwareRangeAssignor(rack=rack)
        return LeaderRackAwareCooperativeStickyAssignor(rack=rack)
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    return RangePartitionAssignor if key == "range" else CooperativeStickyAssignor


ANSWER_SECONDS = 60.0
QUIET_SECONDS = 1.5
"""A group is settled when nothing was gained or lost for so long."""


class DemoError(RackwardError):
    """The demo cannot go on: a group fell silent, did not settle, or lost a member."""


class Group:
    """One strategy's consumer group, in a process of its own."""

    def __init__(self, strategy: Strategy, topic: str, name: str, log: Path) -> None:
        self.strategy = strategy
        self.racks: dict[str, str] = {}
        self._topic = topic
        self._name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=serve, args=(theirs, strategy.key, log), name=name, daemon=True
        )
        with _interrupts_held():
            self._process.start()
        theirs.close()

    def join(self, member: str, rack: str, bootstrap: str) -> None:
        """Start ``member``, that stands in ``rack`` and knows the cluster by ``bootstrap``."""
        spec = MemberSpec(
            name=f"{self.strategy.key}-{member}",
            rack=rack,
            topic=self._topic,
            group=self._name,
            bootstrap=bootstrap,
        )
        self._ask("join", spec)
        self.racks[spec.name] = rack

    def leave(self, member: str) -> None:
        """Let ``member`` leave the group."""
        name = f"{self.strategy.key}-{member}"
        self._ask("leave", name)
        del self.racks[name]

    def report(self) -> GroupReport:
        """How the group stands now. Raises DemoError where a member failed."""
        report = self._ask("states")
        if report.failures:
            raise DemoError(f"{self.strategy.title}: {'; '.join(report.failures)}")
        return report

    def close(self, *, politely: bool) -> None:
        """End the process: ``politely``, its members leave the group first (bounded)."""
        self._pipe.close()
        if politely:
            self._process.join(LEAVE_SECONDS + 2)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, request: str, argument: Any = None) -> GroupReport:
        try:
            self._pipe.send((request, argument))
            if self._pipe.poll(ANSWER_SECONDS):
                answer: GroupReport = self._pipe.recv()
                return answer
        except (EOFError, OSError) as error:
            raise DemoError(
                f"the process of {self.strategy.title} ended by itself "
                f"(exit status {self._process.exitcode}); see its log (--keep-logs)"
            ) from error
        raise DemoError(
            f"the process of {self.strategy.title} gave no answer for {ANSWER_SECONDS:.0f} s"
        )


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C from a process that starts: it is delivered to us when it has started.

    The terminal sends it to every process of ours at once, and until a new one has come so
    far as to ignore it, it would die of it with a traceback. It inherits what is blocked.
    """
    # Started by the first process of ours otherwise, and it unblocks the signal when it is.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def settled(report: GroupReport, partitions: int) -> bool:
    """Whether a group is at rest: one generation, every partition with exactly one reader."""
    states = report.members.values()
    read = sorted(partition for state in states for partition in state.partitions)
    return (
        len({state.generation for state in states}) == 1
        and all(state.generation >= 0 for state in states)
        and all(state.quiet_seconds >= QUIET_SECONDS for state in states)
        and read == list(range(partitions))
    )


def wait_until_settled(
    groups: Sequence[Group],
    partitions: int,
    tick: Callable[[Mapping[str, GroupReport]], None],
    clock: Callable[[], float],
    seconds: float = 180.0,
) -> None:
    """Return when every group is at rest; ``tick`` is called with each round's reports.

    Raises DemoError, naming the groups, where one is not within ``seconds``.
    """
    deadline = clock() + seconds
    while True:
        reports = {group.strategy.key: group.report() for group in groups}
        tick(reports)
        restless = [
            group.strategy.title
            for group in groups
            if not settled(reports[group.strategy.key], partitions)
        ]
        if not restless:
            return
        if clock() > deadline:
            raise DemoError(
                f"no rest within {seconds:.0f} s: {', '.join(restless)}; see --keep-logs"
            )


def assignment_of(report: GroupReport) -> Assignment:
    """Who reads what, as the members themselves say."""
    return {name: state.partitions for name, state in report.members.items()}
