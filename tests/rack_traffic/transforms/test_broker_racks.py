"""The rack of a broker over time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from rack_traffic.transforms.partition_states import FOREVER, broker_racks, with_rack
from tests.support.traffic_frames import assert_frames_equal, frame

MINUTE = 60_000_000
BEGIN = datetime(1970, 1, 2, tzinfo=UTC)
BEGIN_US = 86_400_000_000
SPANS = "cluster string, broker int, rack string, since bigint, until bigint"


def test_broker_racks(spark: SparkSession) -> None:
    """A rack changes half-way between two snapshots; a missing rack is no change."""
    brokers = frame(
        spark,
        "brokers",
        [
            {
                "cluster": "c",
                "broker": broker,
                "rack": rack,
                "taken_at": BEGIN + timedelta(minutes=minute),
            }
            for broker, minute, rack in (
                (1, 0, "a"),
                (1, 1, None),
                (1, 2, "a"),
                (1, 2, "a"),
                (1, 4, "b"),
                (2, 0, None),
                (3, 4, "a"),
            )
        ],
    )
    change = BEGIN_US + 3 * MINUTE
    expected = [
        ("c", 1, "a", -FOREVER, change),
        ("c", 1, "b", change, FOREVER),
        ("c", 3, "a", -FOREVER, FOREVER),
    ]
    assert_frames_equal(broker_racks(brokers), spark.createDataFrame(expected, SPANS))


def test_with_rack(spark: SparkSession) -> None:
    racks = spark.createDataFrame([("c", 1, "a", -FOREVER, 10), ("c", 1, "b", 10, FOREVER)], SPANS)
    columns = "cluster string, leader int, at bigint"
    given = [("c", 1, 9), ("c", 1, 10), ("c", 2, 9), ("d", 1, 9), ("c", None, 9)]
    rows = with_rack(spark.createDataFrame(given, columns), racks, "leader", "at", "leader_rack")
    expected = [(*row, rack) for row, rack in zip(given, ("a", "b", None, None, None), strict=True)]
    assert_frames_equal(rows, spark.createDataFrame(expected, f"{columns}, leader_rack string"))
