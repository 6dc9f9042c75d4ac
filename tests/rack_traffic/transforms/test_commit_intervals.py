"""Pairs of successive commits with states and owners at both ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rack_traffic.transforms.commit_intervals import TO_STATE, commit_intervals
from tests.support.traffic_frames import assert_frames_equal, frame

BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def test_commit_intervals(spark: SparkSession) -> None:
    commits = frame(
        spark,
        "commits",
        [
            {
                "cluster": "c",
                "group": group,
                "topic": "t",
                "partition": 0,
                "committed_offset": offset,
                "taken_at": BEGIN + timedelta(seconds=second),
            }
            for group, second, offset in (
                ("g", 1, 10),
                ("g", 2, 20),
                ("g", 2, 20),
                ("g", 4, 50),
                ("h", 1, 5),
                ("h", 4, 6),
                ("single", 1, 1),
            )
        ],
    )
    state = spark.createDataFrame(
        [("c", "t", 0, 2 * SECOND, "a"), ("c", "t", 0, 3 * SECOND, "b")],
        "cluster string, topic string, partition int, at bigint, leader_rack string",
    )
    empty = {name: F.lit(None) for name in TO_STATE if name != "leader_rack"}
    types = {
        "newest_density": "double",
        "oldest_density": "double",
        "in_sync_racks": "array<string>",
    }
    states = state.withColumns(
        {
            name: null.cast("double" if name.startswith("density") else types.get(name, "bigint"))
            for name, null in empty.items()
        }
    )
    owners = spark.createDataFrame(
        [
            ("c", "g", "t", 0, 2 * SECOND, True, "x", True),
            ("c", "g", "t", 0, 3 * SECOND, False, None, None),
        ],
        "cluster string, group string, topic string, partition int, at bigint, owned boolean, "
        "rack string, sends_rack boolean",
    )
    intervals = commit_intervals(commits, states, owners).select(
        "group",
        (F.col("from_at") / SECOND).cast("int").alias("from_second"),
        (F.col("to_at") / SECOND).cast("int").alias("to_second"),
        "from_offset",
        "to_offset",
        F.col("from_state.leader_rack").alias("from_leader_rack"),
        F.col("to_state.leader_rack").alias("to_leader_rack"),
        F.col("from_owner.rack").alias("from_owner_rack"),
        F.col("to_owner.owned").alias("to_owned"),
    )
    expected = spark.createDataFrame(
        [
            ("g", 1, 2, 10, 20, None, "a", None, True),
            ("g", 2, 4, 20, 50, "a", "b", "x", False),
            ("h", 1, 4, 5, 6, None, "b", None, None),
        ],
        "group string, from_second int, to_second int, from_offset bigint, to_offset bigint, "
        "from_leader_rack string, to_leader_rack string, from_owner_rack string, to_owned boolean",
    )
    assert_frames_equal(intervals, expected)
