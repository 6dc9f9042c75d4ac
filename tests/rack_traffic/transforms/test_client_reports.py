"""Exact bytes from clients replace estimates for the time that they cover."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.transforms.client_reports import replace_estimates, reported_hours
from tests.support.traffic_frames import assert_frames_equal, frame

TEN = datetime(2026, 3, 2, 10, tzinfo=UTC)


def report(start: int, end: int, size: int, racks: str = "aa", **more: Any) -> dict[str, Any]:
    """Return a report from minute ``start`` to minute ``end`` after 10:00."""
    return {
        "cluster": "c",
        "group": "g",
        "member_id": "m",
        "topic": "t",
        "partition": 0,
        "from_rack": racks[0],
        "to_rack": racks[1],
        "bytes": size,
        "from_at": TEN + timedelta(minutes=start),
        "to_at": TEN + timedelta(minutes=end),
    } | more


def estimate(spark: SparkSession, hour: int, size: int, partition: int = 0) -> DataFrame:
    row = ("c", "consume", "g", "t", partition, TEN + timedelta(hours=hour), "b", "a")
    return spark.createDataFrame([(*row, size, size // 10, 0, 0)], PARTITION_HOURS)


def cells(rows: DataFrame) -> dict[tuple[int, int, str], tuple[int, int, int]]:
    """Return a dict: (partition, hours after 10:00, racks) to (bytes, estimated, reported)."""
    return {
        (
            row["partition"],
            int(row["hour"].timestamp() - TEN.timestamp()) // 3600,
            f"{row['from_rack']}{row['to_rack']}",
        ): (row["bytes"], row["estimated_bytes"], row["reported_bytes"])
        for row in rows.collect()
    }


def test_reports_replace_the_estimate_of_an_hour(spark: SparkSession) -> None:
    reports = [report(start, start + 10, 100) for start in range(0, 60, 10)]
    reported = reported_hours(frame(spark, "client_reports", reports))
    rows = estimate(spark, 0, 10_000).unionByName(estimate(spark, 1, 500))
    rows = rows.unionByName(estimate(spark, 0, 70, partition=1))
    assert cells(replace_estimates(rows, reported)) == {
        (0, 0, "aa"): (600, 0, 600),
        (0, 1, "ba"): (500, 50, 0),
        (1, 0, "ba"): (70, 7, 0),
    }


def test_the_estimate_covers_the_part_of_an_hour_without_reports(spark: SparkSession) -> None:
    reported = reported_hours(frame(spark, "client_reports", [report(0, 15, 100)]))
    assert cells(replace_estimates(estimate(spark, 0, 1000), reported)) == {
        (0, 0, "aa"): (100, 0, 100),
        (0, 0, "ba"): (750, 75, 0),
    }


def test_time_with_reports_from_two_racks_counts_once(spark: SparkSession) -> None:
    reports = [report(0, 30, 100, "aa"), report(0, 30, 40, "ba")]
    reported = reported_hours(frame(spark, "client_reports", [*reports, *reports]))
    assert cells(replace_estimates(estimate(spark, 0, 1000), reported)) == {
        (0, 0, "aa"): (100, 0, 100),
        (0, 0, "ba"): (540, 50, 40),
    }


def test_a_report_across_hours_is_divided_by_time(spark: SparkSession) -> None:
    reports = [report(50, 80, 300)]
    result = reported_hours(frame(spark, "client_reports", reports)).collect()
    assert sorted((row["hour"].timestamp(), row["bytes"]) for row in result) == [
        (TEN.timestamp(), 100),
        (TEN.timestamp() + 3600, 200),
    ]


def test_reported_hours(spark: SparkSession) -> None:
    reports = [report(0, 30, 100, "aa"), report(0, 30, 40, "ba"), report(50, 80, 300, "aa")]
    hours = spark.createDataFrame(
        [
            ("c", "g", "t", 0, TEN, "a", "a", 200, 40 * 60_000_000),
            ("c", "g", "t", 0, TEN, "b", "a", 40, 40 * 60_000_000),
            ("c", "g", "t", 0, TEN + timedelta(hours=1), "a", "a", 200, 20 * 60_000_000),
        ],
        "cluster string, group string, topic string, partition int, hour timestamp, "
        "from_rack string, to_rack string, bytes bigint, covered_us bigint",
    )
    assert_frames_equal(reported_hours(frame(spark, "client_reports", reports)), hours)


def test_replace_estimates(spark: SparkSession) -> None:
    reported = reported_hours(frame(spark, "client_reports", [report(0, 15, 100)]))
    hour = ("c", "consume", "g", "t", 0, TEN)
    expected = [(*hour, "a", "a", 100, 0, 100, 0), (*hour, "b", "a", 750, 75, 0, 0)]
    result = replace_estimates(estimate(spark, 0, 1000), reported)
    assert_frames_equal(result, spark.createDataFrame(expected, PARTITION_HOURS))
