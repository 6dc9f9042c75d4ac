"""Snapshots as Parquet files: ``ROOT/<table>/date=YYYY-MM-DD/snapshot-....parquet``.

A file appears complete or not at all: it is written in its folder under a name that begins with a
full stop, which Spark and Arrow ignore, synced to disk, and renamed. Names are unique, so that any
number of collectors may write to one folder. Unfinished files of a killed collector are deleted by
a later one once they are an hour old.

Tables of one snapshot need not appear together: the pipeline joins them as of the time.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from rack_traffic.atomic_write import UNFINISHED_PREFIX, write_atomically
from rack_traffic.snapshot_tables import SNAPSHOT_TABLES, arrow_schema
from rackward.collector.config import SinkError
from rackward.collector.snapshot_reader import Row, Snapshot

COMPRESSION = "zstd"
STALE_SECONDS = 3600.0
DEFAULT_SNAPSHOTS_PER_FILE = 10
"""Ten minutes of snapshots: some 600 files a day for a cluster, instead of 5,800."""
_TIME = "%Y%m%dT%H%M%S.%fZ"
_DATES_SEARCHED = 2
_EXPECTED = ("brokers", "partitions", "members", "commits")
"""Tables that readers expect even if they are empty."""


class ParquetSink:
    """Appends to the folder ``root``, and creates it.

    The first snapshot of a cluster is written at once, so that there is something to read; then
    ``per_file`` snapshots share a file. Those not yet in a file are written by ``flush``, and lost
    if the process is killed. ``clock`` returns seconds since 1970. Raises
    SinkError if the folder cannot be written to.
    """

    def __init__(
        self, root: Path, per_file: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        self._root, self._per_file, self._clock = root, per_file, clock
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
            if snapshot.cluster in self._begun and len(pending) < self._per_file:
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
                rows = [row for each in snapshots for row in each.tables.get(table, ())]
                if not rows and table in _EXPECTED and not (self._root / table).exists():
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
            parquet.write_table(arrow_table(table, rows), file, compression=COMPRESSION)

    def _delete_stale(self) -> None:
        for file in self._root.glob(f"*/date=*/{UNFINISHED_PREFIX}*"):
            try:
                if self._clock() - file.stat().st_mtime > STALE_SECONDS:
                    file.unlink()
            except FileNotFoundError:
                # Another collector has renamed or deleted it.
                continue


def arrow_table(table: str, rows: list[Row]) -> pa.Table:
    """Return rows of a snapshot table as an Arrow table."""
    schema = arrow_schema(table)
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, type=each.type) for values, each in zip(columns, schema, strict=True)],
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
