"""Opens the pipeline's output tables for the report, with Arrow alone: no Spark, no Java."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from posixpath import basename
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds
from pyarrow import fs

from rack_traffic.errors import TrafficError
from rack_traffic.report.aggregate import (
    changes,
    hourly_sums,
    set_aside_counts,
    summarise,
    what_if_totals,
)
from rack_traffic.report.model import Summary

# ---- What can go wrong with a report: each error says what to do.


class ReportError(TrafficError):
    """A report cannot be made of what was given."""


class ReportInputError(ReportError, ValueError):
    """A table cannot be read, or lacks columns, or an option cannot be meant."""


class ReportOutputError(ReportError, OSError):
    """The page or the tables cannot be written."""


# ---- Which files of a folder count, where Spark's streaming wrote it.
#
# A streaming query that writes files keeps a log of the batches that it has finished, in
# ``_spark_metadata`` of the folder; files of a batch that was killed stay in the folder, and are
# not in that log. Who reads the folder without Spark has to leave them out, or counts them twice.
# The log is Spark's ``FileStreamSinkLog``: files named by batch number, ``N.compact`` being all up
# to N; a line of version, then one JSON object per file.

LOG = "_spark_metadata"


def committed(filesystem: fs.FileSystem, folder: str) -> frozenset[str] | None:
    """Names of the files that count in ``folder``; None where there is no such log.

    Names are told apart without their folders, since a folder may have been moved: Spark's have a
    unique id in them. Raises ValueError where the log cannot be understood, OSError where it cannot
    be read.
    """
    where = f"{folder.rstrip('/')}/{LOG}"
    if filesystem.get_file_info(where).type != fs.FileType.Directory:
        return None
    batches: dict[int, str] = {}
    compact: dict[int, str] = {}
    for info in filesystem.get_file_info(fs.FileSelector(where)):
        name = basename(info.path)
        number, _, kind = name.partition(".")
        if number.isdigit() and kind in ("", "compact"):
            (compact if kind else batches)[int(number)] = info.path
    start = max(compact, default=-1)
    paths = [compact[start]] if compact else []
    paths += [path for number, path in sorted(batches.items()) if number > start]
    counted: set[str] = set()
    for path in paths:
        _apply(_lines(filesystem, path), counted)
    return frozenset(counted)


def _apply(lines: list[str], counted: set[str]) -> None:
    if not lines or not lines[0].startswith("v"):
        raise ValueError(f"{LOG} is of an unknown version: {lines[:1]}")
    for line in lines[1:]:
        entry = json.loads(line)
        name = basename(unquote(urlparse(entry["path"]).path))
        if entry.get("action", "add") == "add":
            counted.add(name)
        else:
            counted.discard(name)


def _lines(filesystem: fs.FileSystem, path: str) -> list[str]:
    stream: pa.NativeFile
    with filesystem.open_input_stream(path) as stream:
        return [line for line in stream.read().decode().splitlines() if line]


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


# ---- Where the tables of a report are, and a summary of them.

_NAMES = ("hourly", "what_if", "ranking", "set_aside")
_WRITTEN_LAST = ("summary", "progress")
"""What a batch and a stream of the pipeline write whatever they set aside."""


@dataclass(frozen=True, slots=True)
class Sources:
    """A path or URI for each table; None is a table that is not there.

    ``checked`` tells that rows were checked, so that no table of rows set aside means none.
    """

    hourly: str
    what_if: str | None = None
    ranking: str | None = None
    set_aside: str | None = None
    checked: bool = False


def sources_in(folder: str | None, given: Mapping[str, str | None]) -> Sources:
    """The tables in the output folder of the pipeline, each in a folder of its own name, but for
    those that are ``given`` by name.

    Raises ReportInputError where there is no hourly table.
    """
    found = dict.fromkeys(_NAMES) | {name: where for name, where in given.items() if where}
    if folder is not None:
        for name in _NAMES:
            where = f"{folder.rstrip('/')}/{name}"
            if found[name] is None and folder_exists(where):
                found[name] = where
    if (hourly := found.pop("hourly")) is None:
        where = (
            "nothing to report on" if folder is None else f"there is no hourly table in {folder}"
        )
        raise ReportInputError(
            f"{where}: give the FOLDER that the pipeline wrote, or the table's own with --hourly"
        )
    checked = folder is not None and any(
        folder_exists(f"{folder.rstrip('/')}/{name}") for name in _WRITTEN_LAST
    )
    return Sources(hourly, found["what_if"], found["ranking"], found["set_aside"], checked=checked)


def read_summary(sources: Sources, period: Period) -> Summary:
    """Read and add up. Hours count that begin in ``period``, and what-ifs whose interval meets it.

    Raises ReportInputError.
    """
    within = ("hour", ">=", period.since), ("hour", "<", period.until)
    meets = ("interval_end", ">", period.since), ("interval_start", "<", period.until)
    hourly = hourly_sums(InputTable("hourly", sources.hourly, HOURLY).batches(*within))
    what_if = ranked = set_aside = None
    if sources.what_if is not None:
        table = InputTable("what-if", sources.what_if, WHAT_IF)
        what_if = what_if_totals(table.batches(*meets))
    if sources.ranking is not None:
        table = InputTable("ranking", sources.ranking, RANKING)
        shared = what_if.shared_topics if what_if else {}
        ranked = changes(table.batches(*meets), shared)
    if sources.set_aside is not None:
        table = InputTable("set-aside", sources.set_aside, SET_ASIDE)
        set_aside = set_aside_counts(table.batches())
    elif sources.checked:
        set_aside = ()
    return summarise(hourly, what_if, ranked, set_aside)
