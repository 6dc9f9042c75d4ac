"""The streaming job: repeated batches change nothing, and the batch job gives the same tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import partition_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import HOURLY
from rack_traffic.stream import StreamOptions, process_batch, rows_of_messages, unknown_messages
from rack_traffic.transforms.hourly import hourly
from tests.support.traffic_frames import snapshots
from tests.support.traffic_truth import BEGIN, Fault, observe, simulate

Rows = dict[str, list[dict[str, Any]]]


def message(table: str, rows: list[dict[str, Any]]) -> str:
    """Return a message as a collector sends it."""
    return json.dumps({"table": table, "rows": rows}, default=lambda time: time.isoformat())


def batches(rows: Rows, minutes: int) -> Iterator[list[str]]:
    """Return messages with the rows, so many minutes of snapshots per batch."""
    ends = max(row["taken_at"] for table in rows.values() for row in table)
    begin = min(row["taken_at"] for table in rows.values() for row in table)
    while begin <= ends:
        end = begin + timedelta(minutes=minutes)
        yield [
            message(table, [row for row in given if begin <= row["taken_at"] < end])
            for table, given in rows.items()
        ]
        begin = end


def frame_of(spark: SparkSession, values: list[str]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value string")


def rows_of(table: DataFrame) -> list[str]:
    return sorted(str(row) for row in table.select(*HOURLY.names).collect())


def test_repeated_batches_give_the_tables_of_the_batch_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    faults = frozenset({Fault.DUPLICATES, Fault.LATE, Fault.RECREATED, Fault.REBALANCING})
    rows = observe(simulate(5, hours=2, faults=faults), every=120)
    options = StreamOptions(
        str(tmp_path), estimation=EstimationOptions(max_gap_hours=1.0), delay_minutes=5
    )
    closed = []
    for number, values in enumerate(batches(rows, 60)):
        batch = frame_of(spark, [*values, "no snapshot"])
        first = process_batch(batch, number, options)
        if number == 1:
            assert process_batch(batch, number, options) == first
        closed += first
    assert max(each.until for each in closed) == BEGIN + timedelta(hours=2)
    whole = hourly(partition_hours(snapshots(spark, rows), options.estimation), PriceTable())
    expected = rows_of(whole.filter(F.col("hour") < F.lit(BEGIN + timedelta(hours=2))))
    assert len(expected) > 100
    assert rows_of(spark.read.parquet(options.path("hourly"))) == expected
    rejected = spark.read.parquet(options.path("rejected_rows"))
    assert rejected.filter(F.col("row") == "no snapshot").count() == number + 1
    progress = spark.read.parquet(options.path("progress"))
    seen = progress.agg(F.sum("rows"), F.sum("late")).collect()[0]
    assert tuple(seen) == (len(rows["commits"]), 0)


def test_rows_of_messages(spark: SparkSession) -> None:
    row = {"cluster": "c", "group": "g", "topic": "t", "partition": 1, "committed_offset": 7}
    batch = frame_of(
        spark,
        [
            message("commits", [row | {"taken_at": BEGIN}, row | {"committed_offset": "x"}]),
            message("brokers", [{"cluster": "c", "broker": 1, "taken_at": BEGIN}]),
            message("secrets", []),
            "{",
            "[]",
        ],
    )
    parsed = rows_of_messages(batch, "commits").collect()
    assert [(each["committed_offset"], each["partition"]) for each in parsed] == [(7, 1), (None, 1)]
    assert parsed[0]["taken_at"].timestamp() == BEGIN.timestamp()
    assert [each["broker"] for each in rows_of_messages(batch, "brokers").collect()] == [1]
    rejected = unknown_messages(batch).collect()
    assert sorted(each["row"] for each in rejected) == sorted([message("secrets", []), "{", "[]"])
