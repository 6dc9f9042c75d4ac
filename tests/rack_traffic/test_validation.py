"""Rows that break their contract are set aside, counted and explained."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rack_traffic.errors import InputError
from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.validation import CONTRACTS, check, conform, counted
from tests.support.traffic_frames import frame

AT = datetime(2026, 3, 2, 10, tzinfo=UTC)
GOOD: dict[str, dict[str, Any]] = {
    "brokers": {"cluster": "c", "broker": 1, "taken_at": AT},
    "partitions": {
        "cluster": "c",
        "topic": "t",
        "topic_id": "x",
        "partition": 0,
        "replicas": [1],
        "start_offset": 5,
        "end_offset": 5,
        "taken_at": AT,
    },
    "members": {"cluster": "c", "group": "g", "state": "Empty", "taken_at": AT},
    "commits": {
        "cluster": "c",
        "group": "g",
        "topic": "t",
        "partition": 0,
        "committed_offset": 0,
        "taken_at": AT,
    },
    "client_reports": {
        "cluster": "c",
        "group": "g",
        "member_id": "m",
        "topic": "t",
        "partition": 0,
        "bytes": 0,
        "from_at": AT,
        "to_at": AT + timedelta(seconds=1),
    },
}
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("brokers", {"broker": -1}, "broker is negative"),
    ("brokers", {"cluster": ""}, "cluster is empty"),
    ("partitions", {"end_offset": 4}, "end_offset is below start_offset"),
    ("partitions", {"start_offset": -1}, "start_offset is negative"),
    ("partitions", {"size_bytes": -1}, "size_bytes is negative"),
    ("partitions", {"replicas": []}, "there is no replica"),
    ("partitions", {"partition": -1}, "partition is negative"),
    ("members", {"member_id": ""}, "a member has no id"),
    (
        "members",
        {"member_id": "m", "assignment": [{"topic": "t", "partitions": [0, -1]}]},
        "a partition is assigned by a negative number",
    ),
    ("commits", {"committed_offset": -1}, "committed_offset is negative"),
    ("commits", {"topic": ""}, "topic is empty"),
    ("commits", {"taken_at": datetime(1970, 1, 1, tzinfo=UTC)}, "taken_at is out of range"),
    ("client_reports", {"to_at": AT}, "to_at is not after from_at"),
    ("client_reports", {"bytes": -1}, "bytes is negative"),
    ("client_reports", {"to_at": AT + timedelta(days=2)}, "the report is longer than a day"),
]


@pytest.mark.parametrize("table", sorted(CONTRACTS))
def test_each_reason_has_its_count(spark: SparkSession, table: str) -> None:
    bad = [(change, why) for name, change, why in BAD if name == table]
    bad += [({name: None}, f"{name} is missing") for name in CONTRACTS[table].required]
    rows = [GOOD[table], *(GOOD[table] | change for change, _ in bad), GOOD[table]]
    checked = check(frame(spark, table, rows), CONTRACTS[table])
    counts = counted(checked)
    assert counts.rows == len(rows)
    assert counts.set_aside == {why: 1 for _, why in bad}
    assert checked.good.count() == 2
    assert checked.good.columns == SNAPSHOTS[table].names
    aside = checked.aside.collect()
    assert {row["reason"] for row in aside} == {why for _, why in bad}
    assert {row["table"] for row in aside} == {table}
    assert all(isinstance(json.loads(row["row"]), dict) for row in aside)


def test_a_missing_column_is_an_error_that_names_it(spark: SparkSession) -> None:
    rows = frame(spark, "commits", [GOOD["commits"]]).drop("committed_offset")
    with pytest.raises(InputError, match=r"commits has no column \['committed_offset'\]"):
        conform(rows, "commits")


def test_a_column_of_another_type_is_an_error(spark: SparkSession) -> None:
    rows = frame(spark, "commits", [GOOD["commits"]]).withColumn("partition", F.lit("0"))
    with pytest.raises(InputError, match=r"commits\.partition is string: it has to be int"):
        conform(rows, "commits")


def test_numbers_may_be_wider_and_columns_more(spark: SparkSession) -> None:
    rows = frame(spark, "commits", [GOOD["commits"]]).withColumns(
        {"partition": F.lit(3).cast("bigint"), "extra": F.lit(1)}
    )
    found = conform(rows, "commits")
    assert found.schema == SNAPSHOTS["commits"]
    assert found.collect()[0]["partition"] == 3
    # What does not fit is missing, and so set aside, instead of wrong or a crash.
    wide = rows.withColumn("partition", F.lit(2**40))
    assert counted(check(wide, CONTRACTS["commits"])).set_aside == {"partition is missing": 1}
