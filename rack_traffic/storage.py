"""Tables on disk, or on whatever file system Spark reaches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType

from rack_traffic.errors import InputError
from rack_traffic.pipeline import Snapshots
from rack_traffic.schemas import SET_ASIDE
from rack_traffic.validation import CONTRACTS, Checked, Counts, check, counted

TIME_OF = {"client_reports": "to_at"}
"""The column by which a snapshot table is divided into dates, where it is not ``taken_at``."""


def read_snapshots(
    spark: SparkSession,
    root: str,
    table: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame | None:
    """The rows of ``root/table`` taken at [since, until); None where an optional table is absent.

    Only the folders of the dates in question are read. Raises InputError where it cannot be read.
    """
    path = f"{root.rstrip('/')}/{table}"
    try:
        # Collectors of several versions may have written: columns may be missing from some files.
        rows = spark.read.option("mergeSchema", "true").parquet(path)
        columns = rows.schema  # Over Spark Connect nothing is looked at before.
    except AnalysisException as error:
        if CONTRACTS[table].optional and error.getCondition() in _ABSENT:
            return None
        told = str(error).splitlines()[0]
        raise InputError(
            f"cannot read the snapshots in {path}: {told} (collect them first, or name the folder "
            "that holds the folders brokers, partitions, members and commits)"
        ) from error
    time = TIME_OF.get(table, "taken_at")
    if time not in columns.names:
        return rows
    dated = isinstance(columns["date"].dataType, DateType) if "date" in columns.names else False
    for moment, later in ((since, True), (until, False)):
        if moment is None:
            continue
        column, at = F.col(time), F.lit(moment)
        rows = rows.filter(column >= at if later else column < at)
        if dated:
            day = F.lit(moment.date())
            rows = rows.filter(F.col("date") >= day if later else F.col("date") <= day)
    return rows


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """A table that the pipeline wrote. Raises InputError where there is none."""
    try:
        table = spark.read.parquet(path)
        _ = table.schema  # See above.
    except AnalysisException as error:
        raise InputError(
            f"there is no table in {path} ({str(error).splitlines()[0]}): run the pipeline first"
        ) from error
    return table


_ABSENT = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")


# ---- The snapshots of a run, held to their contracts, with what was set aside on record.


@dataclass(frozen=True, slots=True)
class CheckedInput:
    """The tables of a run; ``snapshots`` are the rows that keep their contracts."""

    snapshots: Snapshots
    checked: dict[str, Checked]

    def counts(self) -> dict[str, Counts]:
        """Rows and rows set aside per table: one pass over each."""
        return {table: counted(each) for table, each in self.checked.items()}

    def aside(self, spark: SparkSession, counts: dict[str, Counts]) -> DataFrame:
        """The rows of SET_ASIDE; only tables that have some, as ``counts`` says, are read."""
        broken = [self.checked[name].aside for name, each in counts.items() if each.set_aside]
        return reduce(DataFrame.unionByName, broken, spark.createDataFrame([], SET_ASIDE))


def checked_input(
    spark: SparkSession, root: str, since: datetime | None, until: datetime | None
) -> CheckedInput:
    """The snapshots under ``root`` taken at [since, until). Raises InputError."""
    tables = {name: read_snapshots(spark, root, name, since, until) for name in CONTRACTS}
    return hold(tables)


def hold(tables: dict[str, DataFrame | None]) -> CheckedInput:
    """Tables held to their contracts; None for an optional one that is absent."""
    checked = {
        name: check(rows, CONTRACTS[name]) for name, rows in tables.items() if rows is not None
    }
    return CheckedInput(Snapshots(**{name: each.good for name, each in checked.items()}), checked)
