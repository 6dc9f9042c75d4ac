"""Bytes per offset and leader racks from snapshots of partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from rack_traffic.transforms.partition_states import FOREVER, partition_states, replica_selectors
from tests.support.traffic_frames import assert_frames_equal, frame

BEGIN = datetime(1970, 1, 2, tzinfo=UTC)
BEGIN_US = 86_400_000_000
MINUTE = 60_000_000
COLUMNS = (
    "topic string, at bigint, leader_rack string, before_end bigint, newest_density double, "
    "boundary_1 bigint, density_1 double, boundary_2 bigint, oldest_density double"
)


def test_partition_states(spark: SparkSession) -> None:
    given = [
        # (topic, minute, topic_id, leader, start_offset, end_offset, size_bytes)
        ("grows", 0, "x", 1, 0, 100, 1000),
        ("grows", 0, "x", 1, 0, 100, 1000),
        ("grows", 1, "x", 1, 0, 200, 2000),
        ("grows", 2, "x", None, 0, 300, 2500),
        ("retention", 0, "x", 1, 0, 100, 1000),
        ("retention", 1, "x", 1, 50, 200, 1500),
        ("recreated", 0, "x", 1, 0, 100, 1000),
        ("recreated", 1, "y", 1, 0, 10, 50),
        ("unsized", 0, "x", 1, 0, 100, None),
    ]
    partitions = frame(
        spark,
        "partitions",
        [
            {
                "cluster": "c",
                "topic": topic,
                "partition": 0,
                "taken_at": BEGIN + timedelta(minutes=minute),
                "topic_id": topic_id,
                "leader": leader,
                "replicas": [1],
                "start_offset": start,
                "end_offset": end,
                "size_bytes": size,
            }
            for topic, minute, topic_id, leader, start, end, size in given
        ],
    )
    racks = spark.createDataFrame(
        [("c", 1, "a", -FOREVER, FOREVER)],
        "cluster string, broker int, rack string, since bigint, until bigint",
    )
    first, second, third = BEGIN_US, BEGIN_US + MINUTE, BEGIN_US + 2 * MINUTE
    expected = [
        # The density of the first snapshot is that of the next growth.
        ("grows", first, "a", None, 10.0, 100, 10.0, 100, 10.0),
        ("grows", second, "a", 100, 10.0, 100, 10.0, 100, 10.0),
        ("grows", third, "a", 200, 5.0, 200, 5.0, 200, 10.0),
        # Growth that retention hides: the mean density of the log.
        ("retention", first, "a", None, 10.0, 100, 10.0, 100, 10.0),
        ("retention", second, "a", 100, 10.0, 100, 10.0, 100, 10.0),
        ("recreated", first, "a", None, 10.0, 100, 10.0, 100, 10.0),
        ("recreated", second, "a", None, 5.0, 10, 5.0, 10, 5.0),
        ("unsized", first, "a", None, None, 100, None, 100, None),
    ]
    selectors = replica_selectors(frame(spark, "brokers", []))
    states = partition_states(partitions, racks, selectors).select(
        *(column.strip().split()[0] for column in COLUMNS.split(","))
    )
    assert_frames_equal(states, spark.createDataFrame(expected, COLUMNS))
