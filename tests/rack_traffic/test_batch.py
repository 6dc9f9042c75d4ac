"""The batch jobs, from Parquet files to Delta tables."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rack_traffic.batch import BatchOptions, run_traffic, run_what_if
from rack_traffic.errors import InputError, SparkError
from rack_traffic.options import FlowOptions, Interval
from rack_traffic.prices import PriceRule, PriceTable
from rack_traffic.schemas import FLOWS_HOURLY, HOURLY, OUTPUT, REJECTED_ROWS
from rack_traffic.session import spark_errors
from rack_traffic.storage import read_table
from tests.support.traffic_frames import write_snapshots
from tests.support.traffic_truth import BEGIN, observe, simulate

NOW = datetime(2026, 4, 1, tzinfo=UTC)


def clock() -> datetime:
    return NOW


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an hour and a half of snapshots, one per minute, with two invalid rows, and flows."""
    root = tmp_path_factory.mktemp("snapshots")
    rows = observe(simulate(3, hours=1), every=60)
    rows["listeners"] = [
        {"cluster": "east", "broker": 0, "host": "h", "address": "10.0.0.1", "port": 9092}
        | {"taken_at": BEGIN}
    ]
    begin = int(BEGIN.timestamp())
    (root / "flows.csv").write_text(
        "start,end,source_address,source_port,destination_address,destination_port,bytes\n"
        f"{begin + 3000},{begin + 4200},10.0.0.1,9092,10.0.1.1,50000,1001\n"
        f"{begin + 3000},{begin + 4200},10.0.1.1,50000,10.0.0.1,9092,-1\n"
    )
    rows["commits"][0] = rows["commits"][0] | {"committed_offset": -1}
    rows["commits"][1] = rows["commits"][1] | {"topic": None}
    write_snapshots(root, rows)
    return root


@pytest.fixture(scope="module")
def whole(
    spark: SparkSession, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[BatchOptions, dict[str, Any]]:
    """Return a job that has run over all snapshots, and its summary."""
    flows = FlowOptions(str(source / "flows.csv"), None, {}, {"10.0.1.1": "z"}.get)
    job = BatchOptions(str(source), str(tmp_path_factory.mktemp("tables")), flows=flows)
    return job, run_traffic(spark, job, clock)


def test_all_tables(spark: SparkSession, whole: tuple[BatchOptions, dict[str, Any]]) -> None:
    job, summary = whole
    hourly = read_table(spark, job.path("hourly"), HOURLY)
    rejected = read_table(spark, job.path("rejected_rows"), REJECTED_ROWS)
    tables = ("hourly", "partition_hours", "replaced_hourly", "flows_hourly", "rejected_rows")
    for name in tables:
        table = DeltaTable(job.path(name))
        assert [each.name for each in table.schema().fields] == [*OUTPUT[name].names, "date"]
        assert len(table.file_uris()) <= 2, name
    assert summary["input"]["commits"]["rejected"] == {
        "committed_offset is negative": 1,
        "topic is missing": 1,
    }
    assert summary["input"]["flows"]["rejected"] == {"bytes is negative": 1}
    assert rejected.count() == 3
    assert summary["began"] == summary["ended"] == NOW
    sums = hourly.groupBy("kind").agg(F.sum("bytes").alias("bytes"), F.sum("cost").alias("cost"))
    for row in sums.collect():
        kind = summary["traffic"]["kinds"][row["kind"]]
        assert kind["bytes"] == row["bytes"] > 0
        assert kind["local"] + kind["crossing"] + kind["unknown"] == kind["bytes"]
        assert kind["cost"] == pytest.approx(row["cost"])
    assert set(summary["traffic"]["kinds"]) == {"consume", "produce", "replicate"}
    wrong_cost = hourly.filter(
        (F.col("crossed_level") > 0) & (F.abs(F.col("cost") - F.col("bytes") * 0.02 / 1e9) > 1e-9)
    )
    assert wrong_cost.count() == 0
    measured = read_table(spark, job.path("flows_hourly"), FLOWS_HOURLY).orderBy("hour").collect()
    assert [(row["client"], row["to_rack"], row["bytes"]) for row in measured] == [
        ("10.0.1.1", "z", 501),
        ("10.0.1.1", "z", 500),
    ]
    assert summary["measured"] == {"consume": 1001}
    (line,) = spark.read.text(job.path("summary")).collect()
    assert json.loads(line["value"])["traffic"]["rows"] == hourly.count()

    ranked = run_what_if(spark, job, Interval.ALL).collect()
    assert DeltaTable(job.path("what_if")).to_pyarrow_table().num_rows > len(ranked)
    groups = {(row["cluster"], row["group"]) for row in ranked}
    assert ("east", "billing") in groups
    assert ("east", "flink") not in groups, (
        "consumers that assign partitions to themselves have no assignment to change"
    )
    assert [row["rank"] for row in ranked] == list(range(1, len(ranked) + 1))
    assert ranked[0]["saving_per_month"] > 0


def test_a_period_replaces_its_hours_only(
    spark: SparkSession,
    whole: tuple[BatchOptions, dict[str, Any]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A run over one hour reads all snapshots on which the hour depends."""
    target = shutil.copytree(whole[0].target, tmp_path / "tables")
    job = replace(whole[0], target=str(target))

    def rows(table: str) -> list[str]:
        return sorted(map(str, read_table(spark, job.path(table), OUTPUT[table]).collect()))

    hours, measured = rows("partition_hours"), rows("flows_hourly")
    until = BEGIN + timedelta(hours=1)
    free = PriceTable((PriceRule(0.0),))
    period = replace(job, since=until, until=until + timedelta(hours=1), prices=free)
    with caplog.at_level("INFO", "rackward.traffic"):
        summary = run_traffic(spark, period, clock)
    assert [each.split()[0] for each in caplog.messages] == ["counting", *["computing"] * 3]
    assert summary["measured"] == {"consume": 500}
    assert rows("flows_hourly") == measured
    assert summary["traffic"]["first_hour"].timestamp() == until.timestamp()
    assert rows("partition_hours") == hours
    hourly = read_table(spark, job.path("hourly"), HOURLY)
    costs = hourly.groupBy(F.col("hour") < F.lit(until)).agg(F.sum("cost") > 0)
    assert dict(map(tuple, costs.collect())) == {True: True, False: False}


def test_a_folder_without_snapshots_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the snapshots in") as caught:
        run_traffic(spark, BatchOptions(str(tmp_path), str(tmp_path / "out")), clock)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_the_folder_of_a_stream_is_refused(
    spark: SparkSession, source: Path, tmp_path: Path, scheme: str
) -> None:
    (tmp_path / "progress" / "_delta_log").mkdir(parents=True)
    with pytest.raises(InputError, match="the tables of rackward traffic stream"):
        run_traffic(spark, BatchOptions(str(source), f"{scheme}{tmp_path}"), clock)
    assert [each.name for each in tmp_path.iterdir()] == ["progress"]


def test_a_folder_that_spark_cannot_read_is_an_error(spark: SparkSession, source: Path) -> None:
    with pytest.raises(SparkError, match="No FileSystem for scheme"), spark_errors():
        run_traffic(spark, BatchOptions(str(source), "dbfs:/tables"), clock)
