"""DataFrames and snapshots from rows of Python, and comparisons with what the pipeline computes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from rack_traffic.snapshot_tables import arrow_schema
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


# ---- Bytes per pair of racks: computed by the pipeline, and counted by brokers.

Pair = tuple[str, str]
"""From a broker's rack to a client's."""

Bytes = dict[Pair, int]


@dataclass(frozen=True)
class Figures:
    """Results of a run: bytes ``counted`` by brokers, and ``per_group`` by the pipeline."""

    counted: Mapping[Pair, int]
    per_group: Mapping[str, Mapping[Pair, int]]
    unknown: int
    """Bytes with an unknown rack."""
    payload: int
    """Bytes of the records that each group read."""
    seconds: float
    snapshots: int

    @property
    def computed(self) -> Bytes:
        """Return the bytes of all groups together, as computed by the pipeline."""
        sums: Bytes = {}
        for pairs in self.per_group.values():
            for pair, count in pairs.items():
                sums[pair] = sums.get(pair, 0) + count
        return sums

    def differences(self) -> dict[Pair, float]:
        """Return the relative error of each pair with at least 1 % of all bytes."""
        threshold, computed = sum(self.counted.values()) / 100, self.computed
        return {
            pair: computed.get(pair, 0) / count - 1
            for pair, count in sorted(self.counted.items())
            if count >= threshold
        }

    @property
    def difference(self) -> float:
        """Return the relative error of all pairs together."""
        return sum(self.computed.values()) / sum(self.counted.values()) - 1

    def as_table(self) -> str:
        """Return a table as text."""
        lines = [
            f"{self.seconds:.0f} s, {self.snapshots} snapshots, "
            f"{self.payload / 1e6:.1f} MB of records read by each of two groups",
            f"{'from':>6}{'to':>4}{'counted MB':>12}{'pipeline MB':>13}{'error':>9}",
        ]
        errors, all_groups = self.differences(), self.computed
        for pair, count in sorted(self.counted.items()):
            computed = all_groups.get(pair, 0)
            share = f"{errors[pair]:+.2%}" if pair in errors else ""
            lines.append(
                f"{pair[0]:>6}{pair[1]:>4}{count / 1e6:>12.2f}{computed / 1e6:>13.2f}{share:>9}"
            )
        counted, computed = sum(self.counted.values()), sum(all_groups.values())
        lines.append(
            f"{'all':>10}{counted / 1e6:>12.2f}{computed / 1e6:>13.2f}{self.difference:>+9.2%}"
        )
        for group, pairs in self.per_group.items():
            crossing = sum(count for (one, other), count in pairs.items() if one != other)
            lines.append(f"{group}: {crossing / max(1, sum(pairs.values())):.1%} crosses racks")
        return "\n".join(lines)


def counted(
    racks: Mapping[int, str | None],
    before: Mapping[tuple[str, int], int],
    after: Mapping[tuple[str, int], int],
) -> Bytes:
    """Return what brokers sent between two readings; ``racks`` are those of the brokers."""
    sums: Bytes = {}
    for (rack, broker), count in after.items():
        pair = (str(racks[broker]), rack)
        sums[pair] = sums.get(pair, 0) + count - before[rack, broker]
    return sums


def per_pair(hourly: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> dict[str, Bytes]:
    """Return what each group read, from rows of the table hourly; ``names`` is group to name."""
    by_group: dict[str, Bytes] = {}
    for row in _consumed(hourly):
        if row["from_rack"] is not None and row["to_rack"] is not None:
            of_group = by_group.setdefault(names[row["group"]], {})
            pair = (row["from_rack"], row["to_rack"])
            of_group[pair] = of_group.get(pair, 0) + row["bytes"]
    return by_group


def unknown_bytes(hourly: Iterable[Mapping[str, Any]]) -> int:
    """Return the bytes that were read from or in an unknown rack."""
    return sum(
        row["bytes"]
        for row in _consumed(hourly)
        if row["from_rack"] is None or row["to_rack"] is None
    )


def _consumed(hourly: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (row for row in hourly if row["kind"] == "consume")
