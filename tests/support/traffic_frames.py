"""DataFrames and snapshots from rows of Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from rack_traffic.pipeline import Snapshots
from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.tables import arrow_schema
from rackward.collector import Snapshot


def frame(spark: SparkSession, table: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return a DataFrame of the snapshot table; columns that a row lacks are null."""
    given = pa.Table.from_pylist(list(rows), arrow_schema(table))
    return spark.createDataFrame(given, SNAPSHOTS[table])


def stored(spark: SparkSession, rows: Mapping[str, list[dict[str, Any]]], root: Path) -> Snapshots:
    """Write the tables of ``rows`` to Parquet files below ``root``, and return them as snapshots.

    The job reads files too. Rows in Spark's memory would be part of its plans: many rows make
    planning slow, and without rows Spark replaces the plan.
    """
    tables = {}
    for table, given in rows.items():
        path = root / table / "rows.parquet"
        path.parent.mkdir()
        pq.write_table(pa.Table.from_pylist(given, arrow_schema(table)), path)
        tables[table] = spark.read.schema(SNAPSHOTS[table]).parquet(str(path.parent))
    return Snapshots(**tables)


def write_snapshots(root: Path, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write snapshots as a collector does: ``root/<table>/date=.../part.parquet``."""
    for table, given in rows.items():
        (root / table).mkdir(parents=True)
        of_date: dict[date, list[dict[str, Any]]] = {}
        for row in given:
            of_date.setdefault(row["taken_at"].astimezone(UTC).date(), []).append(row)
        for day, taken in of_date.items():
            folder = root / table / f"date={day}"
            folder.mkdir()
            pq.write_table(
                pa.Table.from_pylist(taken, arrow_schema(table)), folder / "part.parquet"
            )


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


# ---- Snapshots of a cluster, without a cluster.

AT = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


def snapshot(
    cluster: str = "east",
    at: datetime = AT,
    partitions: int = 3,
    commits_at: datetime | None = None,
) -> Snapshot:
    """Return a snapshot with a broker, partitions, a group with a member, and an empty group."""
    assignment = [{"topic": "orders", "partitions": [0, 1]}]
    member = ("m-1", None, "c", "10.0.0.1", "a", "subscription", ["orders"], assignment)
    no_member: tuple[object, ...] = (None, None, None, None, None, None, [], [])
    group = (cluster, "billing", "classic", "Stable", "consumer", "range", None)
    return Snapshot(
        cluster,
        at,
        {
            "brokers": [(cluster, 0, "a", "h", at, "")],
            "partitions": [
                (cluster, "orders", "id", p, 0, 1, [0, 1], [0], 0, 10 * p, None, at, "h:1")
                for p in range(partitions)
            ],
            "members": [
                (*group, *member, at, "h:1"),
                (cluster, "idle", *group[2:], *no_member, at, "h:1"),
            ],
            "commits": [
                (cluster, "billing", "orders", p, 7, commits_at or at + timedelta(seconds=1), "h:1")
                for p in range(partitions)
            ],
        },
    )
