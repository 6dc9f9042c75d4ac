"""One consumer of the demo: a kafka-python client in a thread, and what it tells of itself."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import ConsumerRebalanceListener
from kafka.errors import KafkaError

from rackward.demo.steady_consumer import SteadyConsumer

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
