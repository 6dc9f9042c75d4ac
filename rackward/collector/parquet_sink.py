"""Snapshots as Parquet files: ``ROOT/<table>/date=YYYY-MM-DD/snapshot-....parquet``.

A file appears whole or not at all: it is written beside its place under a name that begins with a
full stop, which Spark and Arrow pass over, is forced to disk, and then renamed. Names are unique,
so that any number of collectors may write to one folder at once. What a killed collector left
unfinished is removed by a later one, once it is an hour old.

Tables of one snapshot need not appear together: the pipeline joins them as of the time.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from rack_traffic.snapshot_tables import DATED_BY, SNAPSHOT_TABLES, arrow_schema
from rackward.collector.errors import SinkError
from rackward.collector.rows import Row, Snapshot

COMPRESSION = "zstd"
STALE_SECONDS = 3600.0
_UNFINISHED = ".unfinished-"
_TIME = "%Y%m%dT%H%M%S.%fZ"
_DATES_LOOKED_AT = 2
_EXPECTED = ("brokers", "partitions", "members", "commits")
"""Tables that every reader wants to find."""


class ParquetSink:
    """Appends to the folder ``root``, which it makes.

    ``per_file`` snapshots of a cluster share a file; with more than one, those that are not
    yet in a file are lost if the process is killed, and written by ``flush``. ``clock`` is the
    time in seconds since 1970. Raises SinkError where the folder cannot be written to.
    """

    def __init__(
        self, root: Path, per_file: int = 1, clock: Callable[[], float] = time.time
    ) -> None:
        self._root, self._per_file, self._clock = root, per_file, clock
        self._waiting: dict[str, list[Snapshot]] = {}
        self._lock = threading.Lock()
        self._closed = False
        try:
            # Every snapshot has brokers; a table that nothing is written to has no folder.
            (root / "brokers").mkdir(parents=True, exist_ok=True)
            self._sweep()
        except OSError as error:
            raise SinkError(f"{root} cannot be written to: {error.strerror}") from error

    def last(self, cluster: str) -> float | None:
        """See Sink; out of the names of the files of the last two days that there are."""
        stem = f"{_stem(cluster)}-"
        dates = sorted((self._root / "brokers").glob("date=*"), reverse=True)
        times = [
            datetime.strptime(match[1], _TIME).replace(tzinfo=UTC).timestamp()
            for date in dates[:_DATES_LOOKED_AT]
            for file in date.glob(f"{stem}*.parquet")
            if (match := re.fullmatch(r"([0-9T.]+Z)-[0-9a-f]+\.parquet", file.name[len(stem) :]))
        ]
        return max(times, default=None)

    def write(self, snapshot: Snapshot) -> bool:
        """See Sink."""
        with self._lock:
            waiting = self._waiting.setdefault(snapshot.cluster, [])
            waiting.append(snapshot)
            if len(waiting) < self._per_file:
                self._check_open()
                return False
            # Taken off before: rows that could not be written must not grow without end.
            self._write(self._waiting.pop(snapshot.cluster))
            return True

    def flush(self) -> None:
        """See Sink."""
        with self._lock:
            while self._waiting:
                self._write(self._waiting.popitem()[1])

    def close(self) -> None:
        """See Sink."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

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
                    # So that readers find columns where there is nobody to tell of yet.
                    date = f"date={latest.taken_at.astimezone(UTC):%Y-%m-%d}"
                    self._write_file(self._root / table / date, name, table, [])
                for date, some in _by_date(table, rows):
                    self._write_file(self._root / table / f"date={date}", name, table, some)
        except OSError as error:
            raise SinkError(
                f"a snapshot of {latest.cluster} cannot be written to {self._root}: "
                f"{error.strerror or error}"
            ) from error

    def _write_file(self, folder: Path, name: str, table: str, rows: list[Row]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{_UNFINISHED}{name}"
        try:
            with unfinished.open("wb") as file:
                parquet.write_table(arrow_table(table, rows), file, compression=COMPRESSION)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(folder / name)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        _sync(folder)

    def _sweep(self) -> None:
        for left in self._root.glob(f"*/date=*/{_UNFINISHED}*"):
            try:
                if self._clock() - left.stat().st_mtime > STALE_SECONDS:
                    left.unlink()
            except FileNotFoundError:
                # Another collector finished, or swept, it.
                continue


def arrow_table(table: str, rows: list[Row]) -> pa.Table:
    """Rows of one of the snapshot tables as a table of Arrow."""
    schema = arrow_schema(table)
    columns = zip(*rows, strict=True) if rows else ((),) * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, type=each.type) for values, each in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _by_date(table: str, rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows by the date in UTC of the column that dates them."""
    column = list(SNAPSHOT_TABLES[table]).index(DATED_BY[table])
    dates: dict[str, list[Row]] = {}
    for row in rows:
        at = row[column]
        assert isinstance(at, datetime)
        dates.setdefault(f"{at.astimezone(UTC):%Y-%m-%d}", []).append(row)
    return iter(sorted(dates.items()))


def _stem(cluster: str) -> str:
    """How the names of a cluster's files begin: nothing that a file system minds."""
    safe = re.sub(r"[^A-Za-z0-9]", "_", cluster)[:80]
    told = "" if safe == cluster else f".{hashlib.sha256(cluster.encode()).hexdigest()[:8]}"
    return f"snapshot-{safe}{told}"


def _sync(folder: Path) -> None:
    """Force the folder's list of names to disk, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
