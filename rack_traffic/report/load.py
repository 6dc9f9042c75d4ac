"""Reading the pipeline's tables for the report, with Arrow only: without Spark and Java."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from rack_traffic.errors import InputError, MissingPackageError
from rack_traffic.output_tables import OUTPUT_TABLES
from rack_traffic.report.aggregate import (
    count_rejected_rows,
    recommended_changes,
    sum_hourly,
    sum_what_if,
    summarize,
)
from rack_traffic.report.model import Summary
from rack_traffic.snapshot_tables import arrow_types

if TYPE_CHECKING:
    from deltalake import DeltaTable

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "hourly": (
        "cluster",
        "kind",
        "group",
        "from_rack",
        "to_rack",
        "hour",
        "crossed_level",
        "bytes",
        "estimated_bytes",
        "unsized_offsets",
        "cost",
    ),
    "what_if": (
        "cluster",
        "group",
        "interval_start",
        "interval_end",
        "hours",
        "layout_group",
        "scenario",
        "local_bytes",
        "crossing_bytes",
        "unknown_bytes",
        "cost_per_month",
        "moves",
        "leader_moves",
        "shared_topics",
    ),
    "ranking": (
        "cluster",
        "group",
        "interval_start",
        "interval_end",
        "hours",
        "cost_per_month_now",
        "cost_per_month_after",
        "saving_per_month",
        "locality_now",
        "locality_after",
        "scenario",
        "change",
    ),
    "rejected_rows": ("table", "reason"),
}
"""Name of a table to the columns that the report reads."""


@dataclass(frozen=True, slots=True)
class Period:
    """The time [since, until), both aware; None is no limit. Raises InputError if it is empty."""

    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise InputError(
                f"the period ends ({self.until.isoformat()}) before it begins "
                f"({self.since.isoformat()}): give a later end"
            )


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The path or URL of each table; None if a table is absent."""

    hourly: str
    what_if: str | None = None
    ranking: str | None = None
    rejected_rows: str | None = None


def find_tables(folder: str | None, paths: Mapping[str, str | None]) -> TablePaths:
    """Return the tables in ``folder``; ``paths`` (name to path) override them.

    Raise InputError if there is no hourly table.
    """
    root = None if folder is None else folder.rstrip("/")
    tables = dict.fromkeys(COLUMNS) | {name: path for name, path in paths.items() if path}
    if root is not None:
        for name in COLUMNS:
            if tables[name] is None and _exists(f"{root}/{name}"):
                tables[name] = f"{root}/{name}"
    if (hourly := tables.pop("hourly")) is None:
        problem = (
            "nothing to report on" if folder is None else f"there is no hourly table in {folder}"
        )
        raise InputError(
            f"{problem}: give the FOLDER of `rackward traffic run`, or the table with --hourly"
        )
    return TablePaths(hourly, **tables)


def read_summary(paths: TablePaths, period: Period) -> Summary:
    """Return the sums over all hours that begin in ``period``, and over all what-if intervals that
    overlap it. Raise InputError."""
    in_period = ("hour", ">=", period.since), ("hour", "<", period.until)
    overlap = ("interval_end", ">", period.since), ("interval_start", "<", period.until)
    hourly = sum_hourly(_table("hourly", paths.hourly).batches(*in_period))
    what_if = changes = rejected_rows = None
    if paths.what_if is not None:
        what_if = sum_what_if(_table("what_if", paths.what_if).batches(*overlap))
    if paths.ranking is not None:
        layouts = what_if.layouts if what_if else {}
        ranking = _table("ranking", paths.ranking)
        changes = recommended_changes(ranking.batches(*overlap), layouts)
    if paths.rejected_rows is not None:
        rejected_rows = count_rejected_rows(_table("rejected_rows", paths.rejected_rows).batches())
    return summarize(hourly, what_if, changes, rejected_rows)


def _table(name: str, path: str) -> InputTable:
    types = arrow_types(OUTPUT_TABLES[name])
    return InputTable(name, path, {column: types[column] for column in COLUMNS[name]})


_TIME = pa.timestamp("us", tz="UTC")


class InputTable:
    """A Delta table with known columns.

    ``path`` is a path, or a URL that the package deltalake supports (``s3://``, ``gs://``,
    ``abfss://``, ``file://``). Raises InputError if it cannot be opened or lacks one of ``columns``
    (name to type).
    """

    def __init__(self, name: str, path: str, columns: Mapping[str, pa.DataType]) -> None:
        self._name = name
        self._path = _mask_credentials(path)
        self._columns = columns
        try:
            self._dataset = _open_table(path).to_pyarrow_dataset()
        except (OSError, ValueError) as error:
            raise self._read_error(error) from error
        present = set(self._dataset.schema.names)
        if missing := [each for each in columns if each not in present]:
            raise InputError(
                f"the {name} table in {self._path} has no column {', '.join(missing)}: is it the "
                "output of rackward traffic?"
            )

    def batches(self, *conditions: tuple[str, str, datetime | None]) -> Iterator[pa.Table]:
        """Return the rows for which all ``conditions`` hold, in the order of the files.

        A condition is a column, ``>=``, ``>`` or ``<``, and a time; None as time always holds.
        """
        row_filter = None
        for column, comparison, time in conditions:
            if time is not None:
                condition = _condition(column, comparison, time)
                row_filter = condition if row_filter is None else row_filter & condition
        try:
            for batch in self._dataset.to_batches(columns=list(self._columns), filter=row_filter):
                if batch.num_rows:
                    yield self._cast(pa.Table.from_batches([batch]))
        except (OSError, ValueError) as error:
            raise self._read_error(error) from error

    def _cast(self, rows: pa.Table) -> pa.Table:
        return pa.table(
            {name: rows.column(name).cast(kind) for name, kind in self._columns.items()}
        )

    def _read_error(self, error: Exception) -> InputError:
        reason = _mask_credentials(" ".join(str(error).split()))
        return InputError(f"cannot read the {self._name} table in {self._path}: {reason}")


def _condition(column: str, comparison: str, time: datetime) -> pc.Expression:
    bound = pc.scalar(pa.scalar(time, _TIME))
    field = ds.field(column)
    if comparison == ">=":
        return field >= bound
    return field > bound if comparison == ">" else field < bound


def _exists(path: str) -> bool:
    """Return whether there is a table. Raise InputError if that cannot be told."""
    try:
        _open_table(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        reason = _mask_credentials(" ".join(str(error).split()))
        raise InputError(f"cannot read {_mask_credentials(path)}: {reason}") from error
    return True


def _open_table(path: str) -> DeltaTable:
    """Return the table at a path or URL. Raise MissingPackageError, FileNotFoundError if
    there is none, or another OSError or ValueError."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise MissingPackageError("deltalake") from error
    try:
        return DeltaTable(path)
    except TableNotFoundError as error:
        raise FileNotFoundError(f"there is no Delta table ({error})") from error
    except DeltaError as error:
        raise OSError(str(error)) from error


def _mask_credentials(text: str) -> str:
    return re.sub(r"(?<=://)[^/@\s]+@", "***@", text)
