"""The batch job from Parquet to Parquet, and its command."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rack_traffic.batch import BatchOptions, run_traffic, run_what_if
from rack_traffic.errors import InputError
from rack_traffic.schemas import HOURLY, PARTITION_HOURS, RANKING, SET_ASIDE, WHAT_IF
from rack_traffic.storage import hold
from rack_traffic.what_if.inputs import Interval
from tests.support.traffic_frames import frame
from tests.support.traffic_truth import BEGIN, observe, simulate

NOW = datetime(2026, 4, 1, tzinfo=UTC)


def clock() -> datetime:
    return NOW


def write(spark: SparkSession, root: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    """The tables of ``rows`` as a collector leaves them."""
    for table, given in rows.items():
        dated = frame(spark, table, given).withColumn("date", F.to_date("taken_at"))
        dated.coalesce(1).write.partitionBy("date").parquet(str(root / table))


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An hour and a half of a world, every minute, with two rows that break their contract."""
    root = tmp_path_factory.mktemp("snapshots")
    rows = observe(simulate(3, hours=1), every=60)
    rows["commits"][0] = rows["commits"][0] | {"committed_offset": -1}
    rows["commits"][1] = rows["commits"][1] | {"topic": None}
    write(spark, root, rows)
    return root


def test_all_of_it(
    spark: SparkSession, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = BatchOptions(str(source), str(tmp_path))
    with caplog.at_level("INFO", "rackward.traffic"):
        told = run_traffic(spark, job, clock)
    assert [each.split()[0] for each in caplog.messages] == ["counting", "working", "adding"]
    hourly = spark.read.parquet(str(tmp_path / "hourly"))
    hours = spark.read.parquet(str(tmp_path / "partition_hours"))
    aside = spark.read.parquet(str(tmp_path / "set_aside"))
    assert hourly.schema == HOURLY
    assert hours.schema == PARTITION_HOURS
    assert aside.schema == SET_ASIDE
    assert told["input"]["commits"]["set_aside"] == {
        "committed_offset is negative": 1,
        "topic is missing": 1,
    }
    assert aside.count() == 2
    assert told["began"] == told["ended"] == NOW
    sums = hourly.groupBy("kind").agg(F.sum("bytes").alias("bytes"), F.sum("cost").alias("cost"))
    for row in sums.collect():
        kind = told["traffic"]["kinds"][row["kind"]]
        assert kind["bytes"] == row["bytes"] > 0
        assert kind["local"] + kind["crossing"] + kind["unknown"] == kind["bytes"]
        assert kind["cost"] == pytest.approx(row["cost"])
    assert set(told["traffic"]["kinds"]) == {"consume", "produce", "replicate"}
    odd = hourly.filter(
        (F.col("crossed_level") > 0) & (F.abs(F.col("cost") - F.col("bytes") * 0.02 / 1e9) > 1e-9)
    )
    assert odd.count() == 0
    (line,) = spark.read.text(str(tmp_path / "summary")).collect()
    assert json.loads(line["value"])["traffic"]["rows"] == hourly.count()

    ranked = run_what_if(spark, job, Interval.ALL).collect()
    what_if = spark.read.parquet(str(tmp_path / "what_if"))
    assert what_if.schema == WHAT_IF
    assert spark.read.parquet(str(tmp_path / "ranking")).schema == RANKING
    groups = {(row["cluster"], row["group"]) for row in ranked}
    assert ("east", "billing") in groups
    assert ("east", "flink") not in groups, "consumers without a group have no assignment to change"
    assert [row["rank"] for row in ranked] == list(range(1, len(ranked) + 1))
    assert ranked[0]["saving_per_month"] > 0


def test_some_hours_are_as_in_all(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    """A run over one hour reads what that hour depends on, and gives the same rows for it."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    run_traffic(spark, BatchOptions(str(source), str(whole)), clock)
    until = datetime.fromtimestamp(BEGIN.timestamp() + 3600, UTC)
    run_traffic(spark, BatchOptions(str(source), str(part), BEGIN, until), clock)
    rows = spark.read.parquet(str(whole / "hourly")).filter(
        (F.col("hour") >= F.lit(BEGIN)) & (F.col("hour") < F.lit(until))
    )
    assert sorted(map(str, rows.collect())) == sorted(
        map(str, spark.read.parquet(str(part / "hourly")).collect())
    )


def test_nothing_wrong_is_a_table_too(spark: SparkSession) -> None:
    """It takes the place of what an earlier run found."""
    rows = observe(simulate(3, hours=1))
    given = hold({table: frame(spark, table, of_table) for table, of_table in rows.items()})
    aside = given.aside(spark, given.counts())
    assert (aside.schema, aside.count()) == (SET_ASIDE, 0)


def test_a_folder_without_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the snapshots in") as caught:
        run_traffic(spark, BatchOptions(str(tmp_path), str(tmp_path / "out")), clock)
    assert "\n" not in str(caught.value)
