"""Distribution of intervals over hours and pairs of racks."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from rack_traffic.transforms.hourly import HOUR_US, split_by_hour, sum_by_hour
from tests.support.traffic_frames import assert_frames_equal

INTERVALS = (
    "topic string, from_at bigint, to_at bigint, from_rack string, from_rack_after string, "
    "to_rack string, to_rack_after string, bytes double, estimated boolean, unsized_offsets bigint"
)
PARTS = (
    "topic string, hour_number bigint, from_rack string, to_rack string, bytes bigint, "
    "estimated_bytes bigint, unsized_offsets bigint"
)


def test_split_by_hour(spark: SparkSession) -> None:
    half = HOUR_US // 2
    intervals = spark.createDataFrame(
        [
            ("two hours", 0, 2 * HOUR_US, "a", "a", "b", "b", 100.0, False, 0),
            ("another leader", 0, HOUR_US, "a", "c", "b", "b", 100.0, True, 0),
            ("unknown later", half, HOUR_US + half, "a", "a", "b", None, 8.0, False, 5),
            ("an instant", 7, 8, "a", "c", "b", "b", 9.0, False, 0),
        ],
        INTERVALS,
    )
    expected = spark.createDataFrame(
        [
            ("two hours", 0, "a", "b", 50, 0, 0),
            ("two hours", 1, "a", "b", 50, 0, 0),
            ("another leader", 0, "a", "b", 50, 50, 0),
            ("another leader", 0, "c", "b", 50, 50, 0),
            ("unknown later", 0, "a", "b", 4, 0, 3),
            ("unknown later", 1, "a", None, 4, 0, 2),
            ("an instant", 0, "a", "b", 9, 0, 0),
        ],
        PARTS,
    )
    assert_frames_equal(split_by_hour(intervals, ("topic",)), expected)


def test_sum_by_hour(spark: SparkSession) -> None:
    parts = spark.createDataFrame(
        [
            ("t", 1, "a", "b", 50, 0, 0),
            ("t", 1, "a", "b", 25, 25, 3),
            ("t", 1, None, "b", 0, 0, 4),
            ("zero", 1, "a", "b", 0, 0, 0),
        ],
        PARTS,
    )
    hour = datetime(1970, 1, 1, 1, tzinfo=UTC)
    expected = spark.createDataFrame(
        [("t", hour, "a", "b", 75, 25, 3), ("t", hour, None, "b", 0, 0, 4)],
        "topic string, hour timestamp, from_rack string, to_rack string, bytes bigint, "
        "estimated_bytes bigint, unsized_offsets bigint",
    )
    assert_frames_equal(sum_by_hour(parts, ("topic",)), expected)
