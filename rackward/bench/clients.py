"""Consumers of each client library behind one interface, which a member's thread polls.

All read alike: from the earliest record, with automatic commits, and with fetches that wait for
many records. Small fetches would cost more CPU time than a machine with many groups has, and their
headers would count as bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError

from assignors import RefreshPolicy
from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
    enable_workarounds,
    install,
    read_from_nearest,
)
from placement_core import TopicPartition
from rackward.bench.strategies import Client, Strategy
from rackward.testing.errors import requires_extra

SESSION_TIMEOUT_MS = 30_000
"""No member is removed because a machine is busy."""
HEARTBEAT_MS = 1000
BOOTSTRAP_TIMEOUT_MS = 120_000
METADATA_MAX_AGE_MS = 5000
"""After a leader moved, or its broker died, consumers must learn of the new one soon."""
FETCH_MIN_BYTES = 65536
FETCH_MAX_WAIT_MS = 500
"""A broker responds to a fetch with so many bytes, or after so many milliseconds."""
POLL_SECONDS = 0.5
IDLE_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """The configuration of a member.

    ``topics`` are those that it subscribes to. ``refresh`` is when rackward's assignors rebalance
    after leaders have moved. ``weights`` are a topic's traffic per partition.
    """

    name: str
    rack: str
    topics: tuple[str, ...]
    group: str
    bootstrap: str
    strategy: Strategy
    refresh: RefreshPolicy
    weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Read:
    """Records of a partition that a poll returned: their first and last offset, and their number.

    ``at`` is when they were returned, in seconds since the epoch.
    """

    partition: TopicPartition
    first: int
    last: int
    records: int
    at: float


OnChange = Callable[[str, Collection[TopicPartition]], None]
"""Called with "assigned" or "revoked" and the partitions, when the library calls its listener."""


class PolledConsumer(Protocol):
    """A consumer that has subscribed. All methods are called in one thread."""

    def poll(self) -> Iterable[Read]:
        """Return records; wait for the first one for POLL_SECONDS, or until a rebalance ends.

        Raises what the library raises, unless it can be polled again.
        """

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the present assignment."""

    def close(self) -> None:
        """Leave the group."""


def open_consumer(spec: MemberSpec, on_change: OnChange) -> PolledConsumer:
    """Return a consumer that has subscribed. Raises MissingExtraError."""
    match spec.strategy.client:
        case Client.KAFKA_PYTHON:
            return KafkaPythonConsumer(spec, on_change)
        case Client.CONFLUENT:
            return ConfluentConsumer(spec, on_change)
        case Client.AIOKAFKA:
            return AIOKafkaConsumer(spec, on_change)
        case Client.JAVA:
            # Imported by groups of Java only: a module of its own process.
            from rackward.bench.java import JavaConsumer

            return JavaConsumer(spec, on_change)


def _keys(partitions: Iterable[Any]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(tp.topic, tp.partition) for tp in partitions)


# ---- kafka-python.

_KAFKA_PYTHON_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_OWN_KAFKA_PYTHON_ASSIGNORS = {
    "leader-rack-aware-range": LeaderRackAwareRangeAssignor,
    "leader-rack-aware-cooperative-sticky": LeaderRackAwareCooperativeStickyAssignor,
}


class KafkaPythonConsumer:
    """A KafkaConsumer."""

    def __init__(self, spec: MemberSpec, on_change: OnChange) -> None:
        name = spec.strategy.assignor
        assignor: Any
        if name in _OWN_KAFKA_PYTHON_ASSIGNORS:
            even = {"balance": "bytes", "weights": spec.weights}
            assignor = _OWN_KAFKA_PYTHON_ASSIGNORS[name](
                rack=spec.rack,
                refresh=spec.refresh,
                **(even if spec.strategy.balance == "bytes" else {}),
            )
        else:
            assignor = _KAFKA_PYTHON_ASSIGNORS[name]
        self._consumer = _Consumer(
            bootstrap_servers=spec.bootstrap.split(","),
            client_id=spec.name,
            group_id=spec.group,
            partition_assignment_strategy=[assignor],
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            reconnect_backoff_max_ms=1000,
            # Dozens of members start at once, on a machine that may be busy.
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
            fetch_min_bytes=FETCH_MIN_BYTES,
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            max_poll_records=5000,
            metrics_enabled=False,
        )
        if spec.strategy.nearest:
            read_from_nearest(self._consumer, rack=spec.rack)
        self._consumer.subscribe(list(spec.topics), listener=_Listener(on_change))

    def poll(self) -> Iterable[Read]:
        try:
            # A rebalance that begins in a poll commits within the poll's timeout or not at all,
            # and uncommitted records are read again. So the timeout is long.
            polled = self._consumer.poll(timeout_ms=2000)
        except KafkaError as error:
            # poll() may raise the loss of the connection to a dead coordinator.
            if not error.retriable:
                raise
            time.sleep(0.2)
            return []
        return _reads(polled)

    def assignment(self) -> frozenset[TopicPartition]:
        return _keys(self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close(timeout_ms=5000)


def _reads(polled: Mapping[Any, Any]) -> list[Read]:
    now = time.time()
    return [
        Read(
            TopicPartition(tp.topic, tp.partition),
            records[0].offset,
            records[-1].offset,
            len(records),
            now,
        )
        for tp, records in polled.items()
        if records
    ]


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


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._on_change("assigned", _keys(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._on_change("revoked", _keys(revoked))


# ---- confluent-kafka, and rackward's Consumer with its interface.


class ConfluentConsumer:
    """confluent-kafka's Consumer, or rackward's for its assignors."""

    def __init__(self, spec: MemberSpec, on_change: OnChange) -> None:
        with requires_extra("confluent"):
            import confluent_kafka

            import assignors.confluent
        strategy = spec.strategy
        config: dict[str, Any] = {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "client.id": spec.name,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
            "fetch.min.bytes": FETCH_MIN_BYTES,
            "fetch.wait.max.ms": FETCH_MAX_WAIT_MS,
            "log_level": 0,
        }
        if strategy.by_brokers:
            config |= {"group.protocol": "consumer", "group.remote.assignor": strategy.assignor}
        else:
            config |= {
                "partition.assignment.strategy": strategy.assignor,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
            }
        if strategy.sends_rack:
            config["client.rack"] = spec.rack
        if strategy.is_rackward and not strategy.led:
            self._consumer: Any = assignors.confluent.Consumer(
                {**config, "rackward.refresh": spec.refresh}
            )
        else:
            self._consumer = confluent_kafka.Consumer(config)

        def assigned(_consumer: object, partitions: Iterable[Any]) -> None:
            on_change("assigned", _keys(partitions))

        def revoked(_consumer: object, partitions: Iterable[Any]) -> None:
            on_change("revoked", _keys(partitions))

        self._consumer.subscribe(
            list(spec.topics), on_assign=assigned, on_revoke=revoked, on_lost=revoked
        )

    def poll(self) -> Iterable[Read]:
        found: dict[TopicPartition, list[int]] = {}
        for message in self._consumer.consume(5000, POLL_SECONDS):
            error = message.error()
            if error is None:
                key = TopicPartition(message.topic(), message.partition())
                found.setdefault(key, []).append(message.offset())
            elif not error.retriable():
                raise RuntimeError(str(error))
        now = time.time()
        return [
            Read(partition, offsets[0], offsets[-1], len(offsets), now)
            for partition, offsets in found.items()
        ]

    def assignment(self) -> frozenset[TopicPartition]:
        return _keys(self._consumer.assignment())

    def close(self) -> None:
        self._consumer.close()


# ---- aiokafka.


class AIOKafkaConsumer:
    """An AIOKafkaConsumer with an event loop of its own, which runs during polls."""

    def __init__(self, spec: MemberSpec, on_change: OnChange) -> None:
        with requires_extra("aiokafka"):
            import aiokafka

            from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor
        self._loop = asyncio.new_event_loop()

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None:
                on_change("revoked", _keys(revoked))

            def on_partitions_assigned(self, assigned: Any) -> None:
                on_change("assigned", _keys(assigned))

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=spec.bootstrap,
                client_id=spec.name,
                group_id=spec.group,
                partition_assignment_strategy=(
                    LeaderRackAwareCooperativeStickyAssignor(rack=spec.rack, refresh=spec.refresh),
                ),
                auto_offset_reset="earliest",
                auto_commit_interval_ms=1000,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                metadata_max_age_ms=METADATA_MAX_AGE_MS,
                fetch_min_bytes=FETCH_MIN_BYTES,
                fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            )
            try:
                await consumer.start()
                consumer.subscribe(list(spec.topics), listener=Listener())
            except BaseException:
                await consumer.stop()
                raise
            return consumer

        try:
            self._consumer = self._loop.run_until_complete(start())
        except BaseException:
            self._loop.close()
            raise

    def poll(self) -> Iterable[Read]:
        polled = self._loop.run_until_complete(
            self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        )
        return _reads(polled)

    def assignment(self) -> frozenset[TopicPartition]:
        return _keys(self._consumer.assignment())

    def close(self) -> None:
        try:
            self._loop.run_until_complete(self._consumer.stop())
        finally:
            self._loop.close()
