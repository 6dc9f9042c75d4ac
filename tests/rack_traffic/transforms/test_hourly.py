"""Bytes and cost per pair of racks and hour."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from rack_traffic.prices import PriceRule, PriceTable
from rack_traffic.schemas import HOURLY, PARTITION_HOURS
from rack_traffic.transforms.hourly import hourly
from tests.support.traffic_frames import assert_frames_equal

HOUR = datetime(2026, 3, 2, 10, tzinfo=UTC)
GB = 10**9


def test_hourly(spark: SparkSession) -> None:
    hours = spark.createDataFrame(
        [
            ("c", "consume", "g", "t", 0, HOUR, "/x/a", "/x/b", GB, GB, 0),
            ("c", "consume", "g", "t", 1, HOUR, "/x/a", "/x/b", 2 * GB, 0, 3),
            ("c", "consume", "g", "t", 0, HOUR, "/x/a", "/x/a", GB, 0, 0),
            ("c", "consume", "g", "t", 0, HOUR, "/x/a", "/y/a", GB, 0, 0),
            ("c", "produce", None, "t", 0, HOUR, None, "/x/a", GB, 0, 0),
        ],
        PARTITION_HOURS,
    )
    prices = PriceTable((PriceRule(0.5), PriceRule(0.25, level=2)))
    expected = spark.createDataFrame(
        [
            ("c", "consume", "g", "t", "/x/a", "/x/b", HOUR, 2, 3 * GB, GB, 3, 0.25, 0.75),
            ("c", "consume", "g", "t", "/x/a", "/x/a", HOUR, 0, GB, 0, 0, 0.0, 0.0),
            ("c", "consume", "g", "t", "/x/a", "/y/a", HOUR, 1, GB, 0, 0, 0.5, 0.5),
            ("c", "produce", None, "t", None, "/x/a", HOUR, None, GB, 0, 0, None, None),
        ],
        HOURLY,
    )
    assert_frames_equal(hourly(hours, prices), expected)
