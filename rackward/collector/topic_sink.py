"""Snapshots as messages of a Kafka topic, for the streaming job.

The layout is that of :mod:`rack_traffic.snapshot_tables`, such as
``{"table": "commits", "rows": [{...}]}``. The key of a message is ``cluster/table``, so that the
rows of one table stay in order.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.collector.config import SinkError
from rackward.collector.snapshot_reader import Row, Snapshot
from rackward.kafka import AdminError, check_topics, connect, read_state
from rackward.kafka.producer import ReliableProducer

MAX_BYTES = 512 * 1024
"""Size of a message's value; brokers accept a megabyte by default."""


def to_messages(snapshot: Snapshot, max_bytes: int = MAX_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of each message, with values of at most ``max_bytes`` unless one row is
    larger."""
    for table, rows in snapshot.tables.items():
        key = f"{snapshot.cluster}/{table}".encode()
        for value in to_values(table, rows, max_bytes):
            yield key, value


def to_values(table: str, rows: Sequence[Row], max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
    """Yield the values of the messages for the rows of one table."""
    columns = tuple(SNAPSHOT_TABLES[table])
    begin = f'{{"table":{json.dumps(table)},"rows":['.encode()
    parts: list[bytes] = []
    size = 0
    for row in rows:
        part = json.dumps(
            dict(zip(columns, row, strict=True)), default=_time, separators=(",", ":")
        ).encode()
        if parts and size + len(part) + 1 > max_bytes - len(begin) - 2:
            yield begin + b",".join(parts) + b"]}"
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield begin + b",".join(parts) + b"]}"


def _time(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is not a value of a snapshot")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class TopicSink:
    """Writes to ``topic``, which must exist.

    ``properties`` are connection settings with Java's or librdkafka's names. The producer is
    idempotent: a snapshot is in the topic once; after an error, some of its messages may be.
    ``timeout`` is in seconds. Raises AdminError if the cluster cannot be reached or does not have
    the topic.
    """

    def __init__(self, properties: Mapping[str, object], topic: str, timeout: float) -> None:
        # Before the producer, which would create the topic if brokers allow it.
        with connect(properties, timeout=timeout) as admin:
            check_topics(read_state(admin, [topic], reassignments=False), [topic])
        self._topic = topic
        self._lock = threading.Lock()
        self._closed = False
        self._producer = ReliableProducer(
            properties, topic, timeout, compression_type="gzip", linger_ms=20
        )

    def last(self, cluster: str) -> float | None:  # noqa: ARG002 - a topic is not read
        """See Sink."""
        return None

    def write(self, snapshot: Snapshot) -> None:
        """See Sink; returns once all in-sync replicas have it."""
        with self._lock:
            if self._closed:
                raise SinkError(f"topic {self._topic} is closed: the collector has ended")
            try:
                self._producer.send(to_messages(snapshot))
            except AdminError as error:
                raise SinkError(f"sending a snapshot of {snapshot.cluster}: {error}") from error

    def flush(self) -> None:
        """See Sink; nothing is buffered."""

    def close(self) -> None:
        """See Sink."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._producer.close()
