"""DataFrames of the pipeline's tables from rows of Python, and their comparison."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.testing import assertDataFrameEqual

from rack_traffic.pipeline import Snapshots
from rack_traffic.schemas import SNAPSHOTS


def frame(spark: SparkSession, table: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return a DataFrame of the snapshot table; columns that a row lacks are null."""
    schema = SNAPSHOTS[table]
    full = [{name: row.get(name) for name in schema.names} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(full, to_arrow_schema(schema)), schema)


def stored(spark: SparkSession, rows: Mapping[str, list[dict[str, Any]]], root: Path) -> Snapshots:
    """Write the tables of ``rows`` to Parquet files below ``root``, and return them as snapshots.

    The job reads files too. Rows in Spark's memory would be part of its plans: many rows make
    planning slow, and without rows Spark replaces the plan.
    """
    tables = {}
    for table, given in rows.items():
        path = str(root / table)
        frame(spark, table, given).write.parquet(path)
        tables[table] = spark.read.parquet(path)
    return Snapshots(**tables)


def snapshots(spark: SparkSession, rows: Mapping[str, list[dict[str, Any]]]) -> Snapshots:
    """Return the tables of ``rows`` as snapshots in memory."""
    return Snapshots(**{table: frame(spark, table, given) for table, given in rows.items()})


def assert_frames_equal(actual: DataFrame, expected: DataFrame) -> None:
    """Raise AssertionError unless both have the same columns, types and rows, in any row order.

    If pandas is installed, `assertDataFrameEqual` imports pyspark.pandas, which PySpark 4.0 cannot
    import with pandas 3. No frame is a pandas frame here, so pandas is hidden from it.
    """
    with patch.dict(sys.modules, {"pandas": None}):
        assertDataFrameEqual(actual, expected)
