"""Produced and replicated bytes from the growth of logs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.transforms.consumption import log_growth
from rack_traffic.transforms.partition_states import FOREVER
from tests.support.traffic_frames import assert_frames_equal

STATES = (
    "cluster string, topic string, partition int, before_at bigint, at bigint, before_end bigint, "
    "end_offset bigint, before_leader int, before_rack string, leader int, leader_rack string, "
    "replicas array<int>, newest_density double"
)
GROWTH = (
    "cluster string, topic string, partition int, kind string, from_at bigint, to_at bigint, "
    "from_rack string, from_rack_after string, to_rack string, to_rack_after string, "
    "bytes double, estimated boolean, unsized_offsets bigint"
)


def test_log_growth(spark: SparkSession) -> None:
    hour = 3_600_000_000
    racks = spark.createDataFrame(
        [("c", 1, "a", -FOREVER, FOREVER), ("c", 2, "b", -FOREVER, FOREVER)],
        "cluster string, broker int, rack string, since bigint, until bigint",
    )
    states = spark.createDataFrame(
        [
            ("c", "same leader", 0, 0, 100, 5, 15, 1, "a", 1, "a", [1, 2], 2.0),
            ("c", "new leader", 0, 0, 100, 5, 15, 2, "b", 1, "a", [1, 2], 2.0),
            ("c", "unknown size", 0, 0, 100, 5, 15, 1, "a", 1, "a", [1], None),
            ("c", "long gap", 0, 0, 3 * hour, 5, 15, 1, "a", 1, "a", [1], 2.0),
            ("c", "first snapshot", 0, None, 100, None, 15, None, None, 1, "a", [1], 2.0),
        ],
        STATES,
    )

    def row(
        topic: str,
        times: tuple[int, int],
        racks: tuple[str | None, str],
        size: float,
        unsized: int = 0,
    ) -> tuple[object, ...]:
        kind = "produce" if racks[0] is None else "replicate"
        pair = (racks[0], racks[0], racks[1], racks[1])
        return ("c", topic, 0, kind, *times, *pair, size, False, unsized)

    expected = [
        row("same leader", (0, 100), (None, "a"), 20.0),
        row("same leader", (0, 100), ("a", "b"), 20.0),
        row("new leader", (0, 50), (None, "b"), 10.0),
        row("new leader", (0, 50), ("b", "a"), 10.0),
        row("new leader", (50, 100), (None, "a"), 10.0),
        row("new leader", (50, 100), ("a", "b"), 10.0),
        row("unknown size", (0, 100), (None, "a"), 0.0, 10),
        row("long gap", (0, 3 * hour), (None, "a"), 0.0, 10),
    ]
    growth = log_growth(states, racks, EstimationOptions(max_gap_hours=2.0))
    assert_frames_equal(growth, spark.createDataFrame(expected, GROWTH))
