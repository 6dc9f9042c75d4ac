"""Opens the pipeline's output tables for the report, with Arrow alone: no Spark, no Java."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from posixpath import basename

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds
from pyarrow import fs

from rack_traffic.report.committed_files import committed
from rack_traffic.report.errors import ReportInputError

_TIME = pa.timestamp("us", tz="UTC")
_TEXT, _INT, _LONG, _REAL = pa.string(), pa.int32(), pa.int64(), pa.float64()

HOURLY: Mapping[str, pa.DataType] = {
    "cluster": _TEXT,
    "kind": _TEXT,
    "group": _TEXT,
    "from_rack": _TEXT,
    "to_rack": _TEXT,
    "hour": _TIME,
    "crossed_level": _INT,
    "bytes": _LONG,
    "estimated_bytes": _LONG,
    "reported_bytes": _LONG,
    "unsized_offsets": _LONG,
    "cost": _REAL,
}
WHAT_IF: Mapping[str, pa.DataType] = {
    "cluster": _TEXT,
    "group": _TEXT,
    "interval_start": _TIME,
    "interval_end": _TIME,
    "scenario": _TEXT,
    "local_bytes": _LONG,
    "crossing_bytes": _LONG,
    "unknown_bytes": _LONG,
    "cost_per_month": _REAL,
    "moves": _LONG,
    "leader_moves": _LONG,
    "shared_topics": _LONG,
}
RANKING: Mapping[str, pa.DataType] = {
    "cluster": _TEXT,
    "group": _TEXT,
    "interval_start": _TIME,
    "interval_end": _TIME,
    "cost_per_month_now": _REAL,
    "cost_per_month_after": _REAL,
    "saving_per_month": _REAL,
    "locality_now": _REAL,
    "locality_after": _REAL,
    "scenario": _TEXT,
    "change": _TEXT,
}
SET_ASIDE: Mapping[str, pa.DataType] = {"table": _TEXT, "reason": _TEXT}


@dataclass(frozen=True, slots=True)
class Period:
    """From ``since`` until just before ``until``, both aware; None is as far as there is."""

    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise ReportInputError(
                f"the period ends ({self.until.isoformat()}) before it begins "
                f"({self.since.isoformat()}): give a later end"
            )


class InputTable:
    """A Parquet folder, or file, of known columns.

    ``where`` is a path, or a URI of a file system that Arrow knows (``s3://``, ``gs://``,
    ``hdfs://``). What Spark's streaming has not committed does not count. Raises ReportInputError
    where it cannot be opened or lacks a column of ``columns``.
    """

    def __init__(self, name: str, where: str, columns: Mapping[str, pa.DataType]) -> None:
        self._name = name
        self._shown = _without_secrets(where)
        self._columns = columns
        try:
            filesystem, path = _open(where)
            self._dataset = _dataset(filesystem, path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from error
        present = set(self._dataset.schema.names)
        if self._dataset.files and (missing := [each for each in columns if each not in present]):
            raise ReportInputError(
                f"the {name} table in {self._shown} has no column {', '.join(missing)}: is it the "
                "output of rackward traffic?"
            )

    @property
    def path(self) -> str:
        """Where it is, for people: without user names and passwords."""
        return self._shown

    def batches(self, *conditions: tuple[str, str, datetime | None]) -> Iterator[pa.Table]:
        """Its rows for which all ``conditions`` hold, in the order of its files.

        A condition is a column, ``>=``, ``>`` or ``<``, and a time; None as time always holds.
        """
        if not self._dataset.files:
            return
        keep = None
        for column, comparison, time in conditions:
            if time is not None:
                holds = self._compared(column, comparison, time)
                keep = holds if keep is None else keep & holds
        try:
            for batch in self._dataset.to_batches(columns=list(self._columns), filter=keep):
                if batch.num_rows:
                    yield self._cast(pa.Table.from_batches([batch]))
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error

    def _compared(self, column: str, comparison: str, time: datetime) -> pc.Expression:
        kind = self._dataset.schema.field(column).type
        naive = pa.types.is_timestamp(kind) and kind.tz is None
        value = pa.scalar(time, _TIME)
        # Spark's older kind of timestamp has no zone in the file, and means UTC.
        bound = pc.scalar(value.cast(pa.timestamp("us")) if naive else value)
        field = ds.field(column)
        if comparison == ">=":
            return field >= bound
        return field > bound if comparison == ">" else field < bound

    def _cast(self, rows: pa.Table) -> pa.Table:
        columns = {}
        for name, kind in self._columns.items():
            given = rows.column(name)
            # Nanoseconds that are lost are below what the tables hold.
            columns[name] = given.cast(kind, safe=not pa.types.is_timestamp(kind))
        return pa.table(columns)

    def _unreadable(self, error: Exception) -> ReportInputError:
        reason = _without_secrets(" ".join(str(error).split()))
        return ReportInputError(f"cannot read the {self._name} table in {self._shown}: {reason}")


def folder_exists(where: str) -> bool:
    """Whether there is anything at a path or URI; False where it cannot be told."""
    try:
        filesystem, path = _open(where)
        return bool(filesystem.get_file_info(path).type != fs.FileType.NotFound)
    except (OSError, ValueError):
        return False


def _open(where: str) -> tuple[fs.FileSystem, str]:
    if "://" in where:
        filesystem, path = fs.FileSystem.from_uri(where)
        return filesystem, path
    return fs.LocalFileSystem(), where


def _dataset(filesystem: fs.FileSystem, path: str) -> ds.FileSystemDataset:
    # What folders' names say is not read: every column that is needed is in the files.
    info = filesystem.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError("there is nothing there")
    if info.type == fs.FileType.File:
        return ds.dataset(path, filesystem=filesystem, format="parquet")
    counted = committed(filesystem, path)
    found = ds.dataset(path, filesystem=filesystem, format="parquet")
    if counted is None:
        return found
    files = [file for file in found.files if basename(file) in counted]
    if not files:
        return ds.dataset([], filesystem=filesystem, format="parquet", schema=pa.schema([]))
    return ds.dataset(files, filesystem=filesystem, format="parquet")


def _without_secrets(text: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)
