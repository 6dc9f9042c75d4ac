"""Where snapshots are stored: Parquet files, or messages of a Kafka topic.

Files are ``ROOT/<table>/date=YYYY-MM-DD/snapshot-....parquet``. A file appears complete or not at
all: it is written in its folder under a name that begins with a full stop, which Spark and Arrow
ignore, synced to disk, and renamed. Names are unique, so that any number of collectors may write to
one folder. Unfinished files of a killed collector are deleted by a later one once they are an hour
old. Tables of one snapshot need not appear together: the pipeline joins them as of the time.

Messages are for the streaming job, such as ``{"table": "commits", "rows": [{...}]}``. The key is
``cluster/table``, so that the rows of one table stay in order.

The columns of both are those of :mod:`rack_traffic.tables`. Files need pyarrow, which is
imported when they are used.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rack_traffic.atomic_write import UNFINISHED_PREFIX, write_atomically
from rack_traffic.tables import ESTIMATE_TABLES, SNAPSHOT_TABLES, arrow_schema
from rackward.collector.config import SinkError
from rackward.collector.snapshot import Row, Snapshot
from rackward.kafka import AdminError, check_topics, connect, read_state
from rackward.kafka.client import ReliableProducer

if TYPE_CHECKING:
    import pyarrow as pa

SNAPSHOTS_PER_FILE = 10
"""Ten minutes of snapshots: some 600 files a day for a cluster, instead of 5,800."""
STALE_SECONDS = 3600.0
MAX_MESSAGE_BYTES = 512 * 1024
"""Size of a message's value; brokers accept a megabyte by default."""

_TIME = "%Y%m%dT%H%M%S.%fZ"
_DATES_SEARCHED = 2


class Sink(Protocol):
    """Stores snapshots. Thread-safe."""

    def last(self, cluster: str) -> float | None:
        """Return when the last stored snapshot of the cluster was taken, in seconds since 1970.

        None if there is none, or if the sink cannot be read.
        """

    def write(self, snapshot: Snapshot) -> None:
        """Write a snapshot, now or with later ones. Raises SinkError."""

    def flush(self) -> None:
        """Make all snapshots durable. Raises SinkError."""

    def close(self) -> None:
        """Close the sink after the write in progress; what is not flushed is lost. Idempotent.

        A later write raises SinkError.
        """


class ParquetSink:
    """Appends to the folder ``root``, and creates it.

    The first snapshot of a cluster is written at once, so that there is something to read; then
    SNAPSHOTS_PER_FILE share a file. Those not yet in a file are written by ``flush``, and lost if
    the process is killed. Raises SinkError if the folder cannot be written to, and ImportError
    without pyarrow.
    """

    def __init__(self, root: Path) -> None:
        import pyarrow.parquet

        self._parquet = pyarrow.parquet
        self._root = root
        self._pending: dict[str, list[Snapshot]] = {}
        self._begun: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False
        try:
            (root / "brokers").mkdir(parents=True, exist_ok=True)
            self._delete_stale()
        except OSError as error:
            raise SinkError(f"{root} cannot be written to: {error.strerror}") from error

    def last(self, cluster: str) -> float | None:
        """See Sink; read from the names of the files of the last two dates."""
        stem = f"{_stem(cluster)}-"
        dates = sorted((self._root / "brokers").glob("date=*"), reverse=True)
        times = [
            datetime.strptime(match[1], _TIME).replace(tzinfo=UTC).timestamp()
            for date in dates[:_DATES_SEARCHED]
            for file in date.glob(f"{stem}*.parquet")
            if (match := re.fullmatch(r"([0-9T.]+Z)-[0-9a-f]+\.parquet", file.name[len(stem) :]))
        ]
        return max(times, default=None)

    def write(self, snapshot: Snapshot) -> None:
        """See Sink."""
        with self._lock:
            pending = self._pending.setdefault(snapshot.cluster, [])
            pending.append(snapshot)
            if snapshot.cluster in self._begun and len(pending) < SNAPSHOTS_PER_FILE:
                self._check_open()
                return
            # Removed first, so that snapshots that cannot be written do not accumulate.
            self._write(self._pending.pop(snapshot.cluster))
            self._begun.add(snapshot.cluster)

    def flush(self) -> None:
        """See Sink."""
        with self._lock:
            while self._pending:
                self._write(self._pending.popitem()[1])

    def close(self) -> None:
        """See Sink."""
        with self._lock:
            self._closed = True
            self._pending.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError(f"{self._root} is closed: the collector has ended")

    def _write(self, snapshots: list[Snapshot]) -> None:
        self._check_open()
        latest = snapshots[-1]
        name = f"{_stem(latest.cluster)}-{latest.taken_at:{_TIME}}-{uuid.uuid4().hex}.parquet"
        try:
            for table in SNAPSHOT_TABLES:
                rows = [row for snapshot in snapshots for row in snapshot.tables.get(table, ())]
                if not rows and table in ESTIMATE_TABLES and not (self._root / table).exists():
                    # An empty file, so that readers find the columns.
                    date = f"date={latest.taken_at.astimezone(UTC):%Y-%m-%d}"
                    self._write_file(self._root / table / date, name, table, [])
                for date, dated in _by_date(table, rows):
                    self._write_file(self._root / table / f"date={date}", name, table, dated)
        except OSError as error:
            raise SinkError(
                f"a snapshot of {latest.cluster} cannot be written to {self._root}: "
                f"{error.strerror or error}"
            ) from error

    def _write_file(self, folder: Path, name: str, table: str, rows: list[Row]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with write_atomically(folder / name) as file:
            self._parquet.write_table(arrow_table(table, rows), file, compression="zstd")

    def _delete_stale(self) -> None:
        for file in self._root.glob(f"*/date=*/{UNFINISHED_PREFIX}*"):
            try:
                if time.time() - file.stat().st_mtime > STALE_SECONDS:
                    file.unlink()
            except FileNotFoundError:
                # Another collector has renamed or deleted it.
                continue


def arrow_table(table: str, rows: list[Row]) -> pa.Table:
    """Return rows of a snapshot table as an Arrow table."""
    import pyarrow as pa

    schema = arrow_schema(table)
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.Table.from_arrays(
        [
            pa.array(values, type=column.type)
            for values, column in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def _by_date(table: str, rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Return the rows by the UTC date of their ``taken_at``, in order."""
    column = list(SNAPSHOT_TABLES[table]).index("taken_at")
    dates: dict[str, list[Row]] = {}
    for row in rows:
        at = row[column]
        assert isinstance(at, datetime)
        dates.setdefault(f"{at.astimezone(UTC):%Y-%m-%d}", []).append(row)
    return iter(sorted(dates.items()))


def _stem(cluster: str) -> str:
    """Return the beginning of the names of a cluster's files, safe for any file system."""
    safe = re.sub(r"[^A-Za-z0-9]", "_", cluster)[:80]
    digest = "" if safe == cluster else f".{hashlib.sha256(cluster.encode()).hexdigest()[:8]}"
    return f"snapshot-{safe}{digest}"


# ---- Messages.


def to_messages(snapshot: Snapshot) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of each message."""
    for table, rows in snapshot.tables.items():
        key = f"{snapshot.cluster}/{table}".encode()
        for value in to_values(table, rows):
            yield key, value


def to_values(
    table: str, rows: Sequence[Row], max_bytes: int = MAX_MESSAGE_BYTES
) -> Iterator[bytes]:
    """Yield the values of the messages for the rows of one table.

    A value has at most ``max_bytes``, unless one row is larger.
    """
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
