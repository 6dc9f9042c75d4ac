"""Ownership events: one per change, none for repeated snapshots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from rack_traffic.transforms.commit_intervals import ownership_events
from tests.support.traffic_frames import assert_frames_equal, frame

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)

Event = tuple[int, int, bool, str | None]
"""(minute, partition, owned, rack)."""


def member(
    minute: int,
    name: str | None,
    partitions: list[int],
    rack: str | None = "a",
    state: str = "Stable",
) -> dict[str, Any]:
    return {
        "cluster": "c",
        "group": "g",
        "state": state,
        "member_id": name,
        "rack": rack,
        "assignment": [{"topic": "t", "partitions": partitions}] if partitions else [],
        "taken_at": BEGIN + timedelta(minutes=minute),
    }


def events(spark: SparkSession, members: list[dict[str, Any]]) -> set[Event]:
    start = int(BEGIN.timestamp()) * 10**6
    result = ownership_events(frame(spark, "members", members)).collect()
    rows = [
        ((row["at"] - start) // 60_000_000, row["partition"], row["owned"], row["rack"])
        for row in result
    ]
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_repeated_snapshots_make_no_event(spark: SparkSession) -> None:
    rows = [member(minute, "m", [0, 1]) for minute in range(5)]
    assert events(spark, rows) == {(0, 0, True, "a"), (0, 1, True, "a")}


def test_a_partition_moves_to_another_member(spark: SparkSession) -> None:
    rows = [
        member(0, "m", [0, 1]),
        member(0, "n", [2], "b"),
        member(1, "m", [0]),
        member(1, "n", [1, 2], "b"),
    ]
    assert events(spark, rows) == {
        (0, 0, True, "a"),
        (0, 1, True, "a"),
        (0, 2, True, "b"),
        (1, 1, False, None),
        (1, 1, True, "b"),
    }


def test_another_order_or_null_is_no_change(spark: SparkSession) -> None:
    none = member(3, "m", []) | {"assignment": None}
    rows = [member(0, "m", [0, 1]), member(1, "m", [1, 0]), member(2, "m", []), none]
    assert events(spark, rows) == {
        (0, 0, True, "a"),
        (0, 1, True, "a"),
        (2, 0, False, None),
        (2, 1, False, None),
    }


def test_a_member_leaves_and_rejoins_in_another_rack(spark: SparkSession) -> None:
    rows = [
        member(0, "m", [0]),
        member(1, "n", [0], "b"),
        member(2, "m", [0], "c"),
        member(2, "n", [], "b"),
    ]
    assert events(spark, rows) == {
        (0, 0, True, "a"),
        (1, 0, False, None),
        (1, 0, True, "b"),
        (2, 0, False, None),
        (2, 0, True, "c"),
    }


def test_a_member_leaves_and_rejoins(spark: SparkSession) -> None:
    rows = [
        member(0, "m", [0]),
        member(1, None, [], state="Empty"),
        member(2, None, [], state="Empty"),
        member(3, "m", [0]),
    ]
    assert events(spark, rows) == {(0, 0, True, "a"), (1, 0, False, None), (3, 0, True, "a")}


def test_a_member_moves_to_another_rack(spark: SparkSession) -> None:
    rows = [member(0, "m", [0], "a"), member(1, "m", [0], "b"), member(2, "m", [0], None)]
    assert events(spark, rows) == {(0, 0, True, "a"), (1, 0, True, "b"), (2, 0, True, None)}


def test_snapshots_during_a_rebalance_are_ignored(spark: SparkSession) -> None:
    rows = [
        member(0, "m", [0]),
        member(1, "m", [], state="PreparingRebalance"),
        member(2, "m", [], state="CompletingRebalance"),
        member(3, "m", [0]),
    ]
    assert events(spark, rows) == {(0, 0, True, "a")}


def test_duplicate_and_unsorted_snapshots(spark: SparkSession) -> None:
    rows = [member(2, "m", [1]), member(0, "m", [0]), member(2, "m", [1]), member(1, "m", [0])]
    assert events(spark, rows) == {(0, 0, True, "a"), (2, 0, False, None), (2, 1, True, "a")}


def test_ownership_events(spark: SparkSession) -> None:
    joined = {"protocol": "range", "rack_source": "subscription"}
    rows = [
        member(0, "m", [0]) | {"protocol": "leader-rack-aware-range"},
        member(1, "m", [1], "b"),
        member(2, "m", [1], "b") | joined,
        member(3, None, [], state="Empty"),
    ]
    minute = 60_000_000
    begin = int(BEGIN.timestamp()) * 10**6
    expected = spark.createDataFrame(
        [
            ("c", "g", "t", 0, begin, True, "a", False),
            ("c", "g", "t", 0, begin + minute, False, None, None),
            ("c", "g", "t", 1, begin + minute, True, "b", None),
            ("c", "g", "t", 1, begin + 2 * minute, True, "b", True),
            ("c", "g", "t", 1, begin + 3 * minute, False, None, None),
        ],
        "cluster string, group string, topic string, partition int, at bigint, owned boolean, "
        "rack string, sends_rack boolean",
    )
    assert_frames_equal(ownership_events(frame(spark, "members", rows)), expected)
