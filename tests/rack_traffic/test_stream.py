"""The streaming job: repeated batches change nothing, and the batch job gives the same tables."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rack_traffic import delta, stream
from rack_traffic.errors import InputError
from rack_traffic.options import EstimationOptions, FlowOptions
from rack_traffic.pipeline import partition_hours, priced_hours
from rack_traffic.prices import PriceTable
from rack_traffic.report.load import Period, find_tables, read_summary
from rack_traffic.schemas import HOURLY
from rack_traffic.stream import (
    StreamOptions,
    create_tables,
    flow_files,
    process_batch,
    rows_of_messages,
    start_stream,
    unknown_messages,
)
from rack_traffic.writers import Writers
from tests.support.traffic_frames import snapshots
from tests.support.traffic_truth import BEGIN

pytestmark = pytest.mark.timeout(900)
"""Publishing hours, and cleaning nine tables, takes a minute each time on two busy cores."""

Rows = dict[str, list[dict[str, Any]]]

STREAM_SECONDS = 240


def message(table: str, rows: list[dict[str, Any]]) -> str:
    """Return a message as a collector sends it."""
    return json.dumps({"table": table, "rows": rows}, default=lambda time: time.isoformat())


def frame_of(spark: SparkSession, values: list[str]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value string")


def rows_of(table: DataFrame) -> list[str]:
    return sorted(str(row) for row in table.select(*HOURLY.names).collect())


def rows_in(spark: SparkSession, path: str) -> DataFrame:
    return delta.read(spark, path)


def files_in(folder: Path, table: str) -> list[Path]:
    """Return the data files that a table has, or had."""
    return [file for file in (folder / table).rglob("*.parquet") if "_delta_log" not in file.parts]


def test_repeated_batches_give_the_tables_of_the_batch_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And old snapshots, hours and files are deleted.

    integration/traffic/test_stream.py kills a stream of simulated clusters with faults.
    """
    options = StreamOptions(
        str(tmp_path),
        estimation=EstimationOptions(max_gap_hours=7.0),
        delay=timedelta(0),
        keep_days=1,
        history=timedelta(0),
    )
    create_tables(spark, options)
    first, second = (
        small_rows([hour for day in days for hour in hours(day, 0, 6, 12, 18)])
        for days in ((1, 2), (3,))
    )
    # Broker 2 is down later on, and still a replica.
    first["brokers"] += small_rows(hours(1, 0), broker=2)["brokers"]
    closed = []
    # With a new checkpoint, other messages have the number of an earlier batch.
    for query, rows in (("one", first), ("two", second)):
        values = [message(table, given) for table, given in rows.items()]
        batch = frame_of(spark, [*values, "no snapshot"])
        if query == "two":
            with monkeypatch.context() as patch:
                patch.setattr(delta, "overwrite_once", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    process_batch(batch, 0, options, query)
        closed += process_batch(batch, 0, options, query)
    assert process_batch(batch, 0, options, query) == []
    (end,) = hours(3, 18)
    assert max(each.until for each in closed) == end
    rows = {table: first[table] + second[table] for table in first}
    whole = priced_hours(
        partition_hours(snapshots(spark, rows), options.estimation), PriceTable(), Writers()
    )
    # Hours and snapshots of the first day are deleted.
    (kept_from,) = hours(2, 0)
    kept = (F.col("hour") >= F.lit(kept_from)) & (F.col("hour") < F.lit(end))
    expected = rows_of(whole.filter(kept))
    # Consumed, replicated, and produced from two racks, in each hour of a day and three quarters.
    assert len(expected) == 4 * 42
    published = rows_in(spark, options.path("hourly"))
    assert rows_of(published) == expected
    for name, given in rows.items():
        # Of each broker, the last snapshot before is kept.
        brokers = 2 if name == "brokers" else 0
        stored = sum(row["taken_at"] >= kept_from for row in given) + brokers
        assert rows_in(spark, options.store(name)).count() == stored, name
    # Broker 2 kept its rack, and the group read 1 kB in each hour.
    sums = published.groupBy("kind", "to_rack").agg(F.sum("bytes") / F.count_distinct("hour"))
    assert sorted(tuple(row) for row in sums.collect()) == [
        ("consume", "rack-1", 1000.0),
        ("produce", "rack-1", 1000.0),
        ("replicate", "rack-2", 1000.0),
    ]
    rejected = rows_in(spark, options.path("rejected_rows")).collect()
    assert [row["row"] for row in rejected] == ["no snapshot"] * 2
    seen = rows_in(spark, options.path("progress")).select("rows", "late").collect()
    assert [tuple(row) for row in seen] == [(12, 0)]
    for name in ("snapshots/commits", "snapshots/partitions", "hourly", "progress"):
        assert len(files_in(tmp_path, name)) <= 10, name
    # Without Spark: what `rackward traffic report` reads.
    table = DeltaTable(options.path("hourly")).to_pyarrow_table(columns=HOURLY.names)
    assert table.schema.field("hour").type == pa.timestamp("us", tz="UTC")
    assert table.num_rows == len(expected)
    summary = read_summary(find_tables(str(tmp_path), {}), Period())
    assert summary.consumed.bytes == 42 * 1000


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def hours(day: int, *of_day: int) -> list[datetime]:
    return [datetime(2026, 3, day, hour, tzinfo=UTC) for hour in of_day]


def small_rows(times: list[datetime], cluster: str = "o'b\\rien", broker: int = 1) -> Rows:
    """Return a snapshot per time of a cluster with one partition, which grows by 1 kB an hour."""
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    rows: Rows = {"brokers": [], "partitions": [], "members": [], "commits": []}
    for at in times:
        offset = int((at - begin).total_seconds() // 3600) * 10
        common = {"cluster": cluster, "taken_at": at}
        rows["brokers"].append(common | {"broker": broker, "rack": f"rack-{broker}"})
        rows["partitions"].append(
            common
            | {"topic": "t", "topic_id": "x", "partition": 0, "leader": 1, "replicas": [1, 2]}
            | {"start_offset": 0, "end_offset": offset, "size_bytes": offset * 100}
        )
        assignment = [{"topic": "t", "partitions": [0]}]
        rows["members"].append(
            common
            | {"group": "g", "state": "Stable", "member_id": "m", "rack": "rack-1"}
            | {"topics": ["t"], "assignment": assignment}
        )
        rows["commits"].append(
            common | {"group": "g", "topic": "t", "partition": 0, "committed_offset": offset}
        )
    return rows


def test_a_stream_continues_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Messages are lines of files here, and those of a topic in integration/traffic."""
    topic, records = tmp_path / "topic", tmp_path / "records"
    topic.mkdir()
    options = StreamOptions(str(tmp_path / "out"), flows=flows_in(records))
    for hour in (0, 1):
        lines = [message(table, rows) for table, rows in small_rows(hours(1, hour)).items()]
        (topic / f"{hour}.txt").write_text("\n".join(lines))
        write_records(records / f"day=1/{hour}.csv", hours(1, hour))
        messages = spark.readStream.text(str(topic))
        query = start_stream(messages, options, flow_files(spark, str(records), None), once=True)
        assert query.awaitTermination(STREAM_SECONDS)
    for table in ("commits", "flows"):
        assert rows_in(spark, options.store(table)).count() == 2, table
    seen = rows_in(spark, options.path("progress")).select("rows", "late").collect()
    assert [tuple(row) for row in seen] == [(2, 0)]
    with pytest.raises(InputError, match="was started with --flows"):
        start_stream(messages, replace(options, flows=None), once=True)


def flows_in(folder: Path) -> FlowOptions:
    return FlowOptions(str(folder), None, {}, lambda _: None)


def write_records(file: Path, times: list[datetime]) -> None:
    """Write a record of 600 bytes to the member for each of the ten minutes from ``times`` on."""
    lines = ["start,end,source_address,source_port,destination_address,destination_port,bytes"]
    for at in times:
        begin = int(at.timestamp())
        lines.append(f"{begin},{begin + 600},10.0.0.1,9092,10.0.1.1,50000,600")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))


def test_late_flow_records_change_published_hours(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half of an hour arrives before it is published, the second half after it."""
    options = StreamOptions(
        str(tmp_path / "out"),
        estimation=EstimationOptions(max_gap_hours=1.0),
        delay=timedelta(0),
        flows=flows_in(tmp_path),
    )
    create_tables(spark, options)
    (begin,) = hours(1, 0)
    rows = small_rows([begin + timedelta(minutes=minute) for minute in range(0, 81, 20)])
    rows["members"] = [row | {"host": "10.0.1.1"} for row in rows["members"]]
    rows["listeners"] = [
        {**row, "host": "h", "address": "10.0.0.1", "port": 9092} for row in rows["brokers"]
    ]
    slots = [begin + timedelta(minutes=minute) for minute in range(0, 60, 10)]
    write_records(tmp_path / "early.csv", slots[:3])
    write_records(tmp_path / "late.csv", slots[3:])
    (tmp_path / "README.csv").write_text("no records\nat all\n")

    def batch(values: list[str], *files: str) -> DataFrame:
        rows = [*((value, None) for value in values), *((None, file) for file in files)]
        return spark.createDataFrame(
            [(value, file and str(tmp_path / file)) for value, file in rows],
            "value string, file string",
        )

    def reads(table: str) -> list[tuple[object, ...]]:
        read = rows_in(spark, options.path(table)).filter("kind = 'consume'")
        named = ("group", "topic", "source", "bytes") if table != "flows_hourly" else ("bytes",)
        return [tuple(row) for row in read.select(*named).collect()]

    messages = [message(table, given) for table, given in rows.items()]
    (closed,) = process_batch(batch(messages, "early.csv"), 0, options, "q")
    assert (closed.since, closed.until) == (begin, begin + timedelta(hours=1))
    assert reads("flows_hourly") == [(1800,)]
    assert reads("hourly") == [("g", "t", "estimated", 1000)]
    assert reads("replaced_hourly") == []
    late = batch([], "late.csv", "README.csv")
    with monkeypatch.context() as patch:
        patch.setattr(stream, "publish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            process_batch(late, 1, options, "q")
    assert process_batch(late, 1, options, "q") == []
    assert reads("flows_hourly") == [(3600,)]
    assert reads("hourly") == [("g", "t", "measured", 3600)]
    assert reads("replaced_hourly") == [("g", "t", "estimated", 1000)]
    kinds = rows_in(spark, options.path("hourly")).select("kind", "source").distinct().collect()
    assert {tuple(row) for row in kinds} == {
        ("consume", "measured"),
        ("produce", "assumed"),
        ("replicate", "estimated"),
    }
    (rejected,) = rows_in(spark, options.path("rejected_rows")).collect()
    assert rejected["row"].endswith("README.csv")


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
