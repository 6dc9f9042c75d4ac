"""Who owned what, as changes: what snapshots repeat is not told again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from rack_traffic.transforms.ownership import owners
from tests.support.traffic_frames import frame

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


def events(spark: SparkSession, rows: list[dict[str, Any]]) -> set[Event]:
    start = int(BEGIN.timestamp()) * 10**6
    found = owners(frame(spark, "members", rows)).collect()
    told = [
        ((row["at"] - start) // 60_000_000, row["partition"], row["owned"], row["rack"])
        for row in found
    ]
    assert len(set(told)) == len(told)
    return set(told)


def test_only_changes_are_told(spark: SparkSession) -> None:
    rows = [member(minute, "m", [0, 1]) for minute in range(5)]
    assert events(spark, rows) == {(0, 0, True, "a"), (0, 1, True, "a")}


def test_a_partition_changes_hands(spark: SparkSession) -> None:
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


def test_what_is_written_otherwise_is_no_change(spark: SparkSession) -> None:
    none = member(3, "m", []) | {"assignment": None}
    rows = [member(0, "m", [0, 1]), member(1, "m", [1, 0]), member(2, "m", []), none]
    assert events(spark, rows) == {
        (0, 0, True, "a"),
        (0, 1, True, "a"),
        (2, 0, False, None),
        (2, 1, False, None),
    }


def test_a_member_leaves_and_comes_back_elsewhere(spark: SparkSession) -> None:
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


def test_a_member_leaves_and_comes_back(spark: SparkSession) -> None:
    rows = [
        member(0, "m", [0]),
        member(1, None, [], state="Empty"),
        member(2, None, [], state="Empty"),
        member(3, "m", [0]),
    ]
    assert events(spark, rows) == {(0, 0, True, "a"), (1, 0, False, None), (3, 0, True, "a")}


def test_a_member_that_moves_to_another_rack(spark: SparkSession) -> None:
    rows = [member(0, "m", [0], "a"), member(1, "m", [0], "b"), member(2, "m", [0], None)]
    assert events(spark, rows) == {(0, 0, True, "a"), (1, 0, True, "b"), (2, 0, True, None)}


def test_a_rebalance_in_the_air_says_nothing(spark: SparkSession) -> None:
    rows = [
        member(0, "m", [0]),
        member(1, "m", [], state="PreparingRebalance"),
        member(2, "m", [], state="CompletingRebalance"),
        member(3, "m", [0]),
    ]
    assert events(spark, rows) == {(0, 0, True, "a")}


def test_snapshots_that_come_twice_and_in_any_order(spark: SparkSession) -> None:
    rows = [member(2, "m", [1]), member(0, "m", [0]), member(2, "m", [1]), member(1, "m", [0])]
    assert events(spark, rows) == {(0, 0, True, "a"), (2, 0, False, None), (2, 1, True, "a")}
