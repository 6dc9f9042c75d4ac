"""Tables on disk, or on whatever file system Spark reaches."""

from __future__ import annotations

from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType

from rack_traffic.contracts import CONTRACTS
from rack_traffic.errors import InputError

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
