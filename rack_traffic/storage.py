"""Reading the tables of snapshots and of the pipeline from any file system that Spark supports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyarrow import fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType

from rack_traffic import delta
from rack_traffic.errors import InputError
from rack_traffic.pipeline import Snapshots
from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.session import is_url, summarize_error
from rack_traffic.tables import ESTIMATE_TABLES
from rack_traffic.validation import ValidatedTable, validate


def validate_tables(tables: Mapping[str, DataFrame]) -> dict[str, ValidatedTable]:
    """Validate snapshot tables, by name. Raise InputError."""
    return {name: validate(rows, name) for name, rows in tables.items()}


def valid_snapshots(tables: Mapping[str, ValidatedTable]) -> Snapshots:
    """Return the valid rows of ESTIMATE_TABLES."""
    return Snapshots(**{name: tables[name].valid for name in ESTIMATE_TABLES})


def read_snapshots(
    spark: SparkSession,
    root: str,
    table: str,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """Return the rows of ``root/table`` taken in [since, until).

    Only the date folders of that time are read. Raise InputError if the table cannot be read.
    """
    path = f"{root.rstrip('/')}/{table}"
    try:
        if delta.is_delta_table(spark, path):
            rows = delta.read(spark, path)
        else:
            rows = _read_files(spark, path, SNAPSHOTS[table], since, until)
        # Over Spark Connect the path is first looked up when the schema is needed.
        columns = rows.schema
    except AnalysisException as error:
        raise InputError(
            f"cannot read the snapshots in {path}: {summarize_error(str(error))} (run `rackward "
            "traffic collect` first, or give the folder that contains brokers, partitions, members "
            "and commits)"
        ) from error
    has_date = "date" in columns.names and isinstance(columns["date"].dataType, DateType)
    if since is not None:
        rows = rows.filter(F.col("taken_at") >= F.lit(since))
        if has_date:
            rows = rows.filter(F.col("date") >= F.lit(since.date()))
    if until is not None:
        rows = rows.filter(F.col("taken_at") < F.lit(until))
        if has_date:
            rows = rows.filter(F.col("date") <= F.lit(until.date()))
    return rows


def _read_files(
    spark: SparkSession,
    path: str,
    schema: StructType,
    since: datetime | None,
    until: datetime | None,
) -> DataFrame:
    """Return the rows of Parquet files with columns of ``schema``; those a file lacks are null.

    No schema is read from the files, and no folder of a date before ``since`` or after ``until``
    is listed, if its file system is one that Arrow can read.
    """
    reader = spark.read.schema(schema).option("basePath", path)
    if since is None and until is None:
        return reader.parquet(path)
    first = "" if since is None else f"date={since:%Y-%m-%d}"
    last = "date=~" if until is None else f"date={until:%Y-%m-%d}"
    folders = [name for name in date_folders(path) if first <= name <= last]
    # Without a folder of that time, all are listed, and none is read.
    return reader.parquet(*([f"{path}/{name}" for name in folders] or [path]))


def date_folders(path: str) -> list[str]:
    """Return the names of the folders ``date=...`` in ``path``; none if they cannot be listed."""
    try:
        if is_url(path):
            filesystem, inner = fs.FileSystem.from_uri(path)
        else:
            filesystem, inner = fs.LocalFileSystem(), path
        entries = filesystem.get_file_info(fs.FileSelector(inner))
    except (OSError, ValueError):
        return []
    return sorted(each.base_name for each in entries if each.base_name.startswith("date="))


def read_table(spark: SparkSession, path: str, schema: StructType) -> DataFrame:
    """Return a table that the pipeline wrote, with the columns of ``schema``. Raise InputError if
    there is none."""
    try:
        table = delta.read(spark, path).select(*schema.names)
        # Over Spark Connect the path is first looked up when the schema is needed.
        _ = table.schema
    except AnalysisException as error:
        raise InputError(
            f"there is no table in {path} ({summarize_error(str(error))}): run `rackward traffic "
            "run` first"
        ) from error
    return table
