"""Snapshots as messages of a Kafka topic, for the streaming job."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.admin import check_topics, connect, read_state
from rackward.admin.client import reliable_producer, translated
from rackward.collector.errors import SinkError
from rackward.collector.rows import Row, Snapshot

# ---- Rows of snapshots as messages of a Kafka topic: ``{"table": "commits", "rows": [{...},
# ...]}``.
#
# The layout is :data:`rack_traffic.schemas.SNAPSHOTS`'. A message's key is ``cluster/table``, so
# that what one collector says of a table stays in order.

MOST_BYTES = 512 * 1024
"""Of a message's value; brokers take a megabyte if nobody told them otherwise."""


def messages_of(snapshot: Snapshot, most_bytes: int = MOST_BYTES) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each message; none is longer than ``most_bytes`` unless one row is."""
    for table, rows in snapshot.tables.items():
        key = f"{snapshot.cluster}/{table}".encode()
        for value in values_of(table, rows, most_bytes):
            yield key, value


def values_of(table: str, rows: Sequence[Row], most_bytes: int = MOST_BYTES) -> Iterator[bytes]:
    """The rows of one table as the values of as few messages as will do."""
    columns = tuple(SNAPSHOT_TABLES[table])
    begin = f'{{"table":{json.dumps(table)},"rows":['.encode()
    parts: list[bytes] = []
    size = 0
    for row in rows:
        part = json.dumps(
            dict(zip(columns, row, strict=True)), default=_time, separators=(",", ":")
        ).encode()
        if parts and size + len(part) + 1 > most_bytes - len(begin) - 2:
            yield begin + b",".join(parts) + b"]}"
            parts, size = [], 0
        parts.append(part)
        size += len(part) + 1
    if parts:
        yield begin + b",".join(parts) + b"]}"


def _time(value: object) -> str:
    if not isinstance(value, datetime):
        raise TypeError(f"{value!r} is no value of a snapshot")
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class TopicSink:
    """Sends to ``topic``, which must exist, and returns when brokers have it on all replicas.

    ``properties`` say how to connect, in Java's or librdkafka's words. The producer is
    idempotent: a snapshot is in the topic once, unless it was said to have failed, after which
    some of its messages may be there. ``timeout`` is in seconds.

    Raises AdminError where the cluster cannot be reached or has no such topic.
    """

    def __init__(self, properties: Mapping[str, object], topic: str, timeout: float) -> None:
        # Asked first: a producer makes topics up where brokers let it.
        with connect(properties, timeout=timeout) as admin:
            check_topics(read_state(admin, [topic], ongoing=False), [topic])
        self._topic, self._timeout = topic, timeout
        self._lock = threading.Lock()
        self._closed = False
        self._producer = reliable_producer(
            properties,
            timeout,
            "connecting the producer of snapshots",
            compression_type="gzip",
            linger_ms=20,
        )

    def last(self, cluster: str) -> float | None:  # noqa: ARG002 - a topic cannot be asked
        """See Sink."""
        return None

    def write(self, snapshot: Snapshot) -> bool:
        """See Sink; returns when all of it is acknowledged."""
        from kafka.errors import KafkaError

        with self._lock:
            if self._closed:
                raise SinkError(f"topic {self._topic} is closed: the collector has ended")
            try:
                sent = [
                    self._producer.send(self._topic, key=key, value=value)
                    for key, value in messages_of(snapshot)
                ]
                self._producer.flush(timeout=self._timeout)
                for each in sent:
                    each.get(timeout=self._timeout)
            except KafkaError as error:
                told = translated(f"sending a snapshot of {snapshot.cluster}", error)
                raise SinkError(f"{told} (topic {self._topic})") from error
        return True

    def flush(self) -> None:
        """See Sink; nothing is held back."""

    def close(self) -> None:
        """See Sink."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._producer.close(timeout=5)
