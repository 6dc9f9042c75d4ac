"""Delta Lake: tables that jobs append to and replace parts of, and that stay small.

A commit to such a table is atomic. :func:`append_once` and :func:`overwrite_once` name the batch
that they write, so that a repeated batch changes nothing. :func:`replace` exchanges the rows that a
condition selects. Old files stay for :data:`HISTORY` after they were replaced, for the readers that
have begun; :func:`remove_old_files` deletes them.

Tables have a column ``date``, by which their files are divided into folders. Files have statistics
of their columns, so that a query for some hours reads the files with these hours only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from rack_traffic.errors import SparkError
from rack_traffic.session import DELTA_LAKE, is_url, minor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

HISTORY = timedelta(hours=6)
"""How long a reader may take that began before a table was changed."""


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Return whether there is a Delta table at a path or URL. Raise what Spark raises if it cannot
    tell.

    Spark is asked, because it has the file systems and the rights with which the table is read and
    written.
    """
    from pyspark.errors import AnalysisException

    try:
        # Over Spark Connect the path is first looked up when the schema is needed.
        _ = spark.read.format("binaryFile").load(f"{path.rstrip('/')}/_delta_log").schema
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def create_table(spark: SparkSession, path: str, schema: StructType, history: timedelta) -> None:
    """Create a table with the columns of ``schema`` and ``date``, unless it exists.

    Replaced files, and the log of changes, are kept for ``history``; of the log, Delta Lake deletes
    only whole days.

    Raise SparkError if Spark has no Delta Lake.
    """
    from pyspark.errors import PySparkException

    columns = {each.name: each.dataType.simpleString() for each in schema} | {"date": "date"}
    declared = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    seconds = f"interval {history.total_seconds():.0f} seconds"
    try:
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {_table(path)} ({declared}) USING delta "
            f"PARTITIONED BY (`date`) TBLPROPERTIES ('delta.deletedFileRetentionDuration' = "
            f"'{seconds}', 'delta.logRetentionDuration' = '{seconds}')"
        )
    except PySparkException as error:
        # Without the catalog of Delta Lake, Spark takes the path for a database or a file format.
        if not any(name in str(error) for name in _WITHOUT_DELTA):
            raise
        package = DELTA_LAKE[minor(spark.version)]
        raise SparkError(
            f"Spark has no Delta Lake: start its server with --packages {package} --conf "
            "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension --conf "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
        ) from error


_WITHOUT_DELTA = (
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find data source: delta",
    "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG",
    "SCHEMA_NOT_FOUND",
)


def read(spark: SparkSession, path: str) -> DataFrame:
    """Return the rows of the table at ``path``."""
    return spark.read.format("delta").load(path)


def append_once(rows: DataFrame, path: str, writer: str, number: int) -> None:
    """Append ``rows``, unless ``writer`` has written ``number`` or a later number to this table."""
    _write(rows, path, "append", {"txnAppId": writer, "txnVersion": number})


def overwrite_once(rows: DataFrame, path: str, writer: str, number: int) -> None:
    """Replace all rows, unless ``writer`` has written ``number`` or a later number to this
    table."""
    _write(rows, path, "overwrite", {"txnAppId": writer, "txnVersion": number})


def replace(rows: DataFrame, path: str, condition: str | None = None) -> None:
    """Replace the rows for which the SQL ``condition`` holds by ``rows``, for which it must hold
    too; without a condition, all rows."""
    # A table of an earlier version may lack a column.
    whole = {"mergeSchema": "true"}
    _write(rows, path, "overwrite", whole if condition is None else {"replaceWhere": condition})


def _write(rows: DataFrame, path: str, mode: str, options: Mapping[str, str | int]) -> None:
    # Optimised writes: a few files per date, however many tasks the rows come from.
    writer = rows.write.format("delta").mode(mode).option("optimizeWrite", "true")
    writer.options(**options).save(path)


def compact(spark: SparkSession, path: str, since: date) -> None:
    """Join small files of the dates from ``since`` on."""
    spark.sql(f"OPTIMIZE {_table(path)} WHERE `date` >= {date_literal(since)}")


def delete_before(spark: SparkSession, path: str, first: date) -> None:
    """Delete the rows of dates before ``first``: whole files, none of which is read."""
    spark.sql(f"DELETE FROM {_table(path)} WHERE `date` < {date_literal(first)}")


def remove_old_files(spark: SparkSession, path: str) -> None:
    """Delete the files that were replaced more than the table's ``history`` ago."""
    spark.sql(f"VACUUM {_table(path)}")


def text_literal(text: str) -> str:
    """Return ``text`` as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def time_literal(time: datetime) -> str:
    """Return an aware time as a literal of SQL."""
    return f"TIMESTAMP '{time.isoformat(sep=' ')}'"


def date_literal(day: date) -> str:
    """Return a date as a literal of SQL."""
    return f"DATE '{day:%Y-%m-%d}'"


def _table(path: str) -> str:
    """Return the name of a table in SQL, which needs an absolute path."""
    absolute = path if is_url(path) else os.path.abspath(path)
    escaped = absolute.replace("`", "``")
    return f"delta.`{escaped}`"
