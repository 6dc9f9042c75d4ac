"""Invalid rows are rejected with a reason, and counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rack_traffic.errors import InputError
from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.validation import cast_columns, count_rows, validate
from tests.support.traffic_frames import frame

AT = datetime(2026, 3, 2, 10, tzinfo=UTC)
VALID: dict[str, dict[str, Any]] = {
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
    "listeners": {"cluster": "c", "broker": 1, "port": 9092, "taken_at": AT},
}
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("brokers", {"broker": -1}, "broker is negative"),
    ("brokers", {"cluster": ""}, "cluster is empty"),
    ("partitions", {"end_offset": 4}, "end_offset is below start_offset"),
    ("partitions", {"start_offset": -1}, "start_offset is negative"),
    ("partitions", {"size_bytes": -1}, "size_bytes is negative"),
    ("partitions", {"replicas": []}, "replicas is empty"),
    ("partitions", {"partition": -1}, "partition is negative"),
    ("members", {"member_id": ""}, "member_id is empty"),
    (
        "members",
        {"member_id": "m", "assignment": [{"topic": "t", "partitions": [0, -1]}]},
        "assignment has a negative partition",
    ),
    ("listeners", {"port": 0}, "port is not in 1 to 65535"),
    ("commits", {"committed_offset": -1}, "committed_offset is negative"),
    ("commits", {"topic": ""}, "topic is empty"),
    ("commits", {"taken_at": datetime(1970, 1, 1, tzinfo=UTC)}, "taken_at is out of range"),
]


@pytest.mark.parametrize("table", SNAPSHOTS)
def test_each_reason_is_counted(spark: SparkSession, table: str) -> None:
    invalid = [(change, why) for name, change, why in INVALID if name == table]
    # Without a topic id, partitions are compared as if it never changed.
    required = VALID[table].keys() - {"topic_id"}
    invalid += [({name: None}, f"{name} is missing") for name in required]
    rows = [VALID[table], *(VALID[table] | change for change, _ in invalid), VALID[table]]
    checked = validate(frame(spark, table, rows), table)
    counts = count_rows([checked])[table]
    assert counts.rows == len(rows)
    assert counts.rejected == {why: 1 for _, why in invalid}
    assert checked.valid.count() == 2
    assert checked.valid.columns == SNAPSHOTS[table].names
    rejected = checked.rejected.collect()
    assert {row["reason"] for row in rejected} == {why for _, why in invalid}
    assert {row["table"] for row in rejected} == {table}
    assert all(isinstance(json.loads(row["row"]), dict) for row in rejected)


def test_a_missing_column_is_an_error(spark: SparkSession) -> None:
    rows = frame(spark, "commits", [VALID["commits"]]).drop("committed_offset")
    with pytest.raises(InputError, match=r"commits has no column \['committed_offset'\]"):
        cast_columns(rows, "commits")


def test_a_column_of_another_type_is_an_error(spark: SparkSession) -> None:
    rows = frame(spark, "commits", [VALID["commits"]]).withColumn("partition", F.lit("0"))
    with pytest.raises(InputError, match=r"commits\.partition has the type string: it must be int"):
        cast_columns(rows, "commits")


def test_wider_numbers_and_other_columns_are_accepted(spark: SparkSession) -> None:
    rows = frame(spark, "commits", [VALID["commits"]]).withColumns(
        {"partition": F.lit(3).cast("bigint"), "extra": F.lit(1)}
    )
    accepted = cast_columns(rows, "commits")
    assert accepted.schema == SNAPSHOTS["commits"]
    assert accepted.collect()[0]["partition"] == 3
    # A number that does not fit becomes null, so the row is rejected.
    wide = rows.withColumn("partition", F.lit(2**40))
    counts = count_rows([validate(wide, "commits")])
    assert counts["commits"].rejected == {"partition is missing": 1}
