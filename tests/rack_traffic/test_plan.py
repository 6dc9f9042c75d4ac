"""Physical plans: one shuffle per key, no range join, and no Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import Snapshots, consumed_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.transforms.hourly import hourly
from rack_traffic.transforms.partition_states import (
    broker_racks,
    partition_states,
    replica_selectors,
)
from tests.support.traffic_frames import stored

EMPTY: dict[str, list[dict[str, Any]]] = {
    name: [] for name in ("brokers", "partitions", "members", "commits")
}


def plan_of(rows: DataFrame) -> list[str]:
    text = rows._jdf.queryExecution().executedPlan().toString()
    return [line.strip(" :+-*()0123456789") for line in text.splitlines() if line.strip()]


def states_of(tables: Snapshots) -> DataFrame:
    return partition_states(
        tables.partitions, broker_racks(tables.brokers), replica_selectors(tables.brokers)
    )


def exchanges(plan: list[str]) -> list[str]:
    """Return the columns of each shuffle."""
    return [
        re.sub(r"#\d+", "", exchange[1])
        for line in plan
        if (exchange := re.match(r"Exchange hashpartitioning\((.*), \d+\)", line))
    ]


@pytest.fixture(scope="module")
def plan(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the plan from commits to hours."""
    tables = stored(spark, EMPTY, tmp_path_factory.mktemp("snapshots"))
    states = states_of(tables)
    return plan_of(consumed_hours(tables, states, EstimationOptions()))


def test_commits_are_shuffled_once(plan: list[str]) -> None:
    # The union of commits, states and owners is shuffled once, after the smaller partition states.
    assert exchanges(plan).count("cluster, topic, partition") == 2
    assert plan[0].startswith(("Project", "HashAggregate", "Filter"))
    union = next(index for index, line in enumerate(plan) if line.startswith("Union"))
    assert exchanges(plan[:union]) == ["cluster, topic, partition"]
    for line in plan:
        assert not line.startswith(("CartesianProduct", "BroadcastNestedLoopJoin")), line
        assert "Python" not in line, line
        assert "Arrow" not in line, line


def test_commits_are_sorted_twice_by_a_number_first(plan: list[str]) -> None:
    """By time within the partition, and within the group; all later windows use the second sort."""
    union = next(index for index, line in enumerate(plan) if line.startswith("Union"))
    sorts = [
        re.sub(r"#\d+L?| ASC NULLS FIRST", "", line)
        for line in plan[:union]
        if line.startswith("Sort ")
    ]
    assert sorts == [
        "Sort [series_hash, cluster, topic, partition, group, at, row_kind, committed_offset],"
        " false,",
        "Sort [partition_hash, cluster, topic, partition, at, row_kind], false,",
    ]


def test_states_and_owners_are_shuffled_once_each(spark: SparkSession, tmp_path: Path) -> None:
    tables = stored(spark, EMPTY, tmp_path)
    states = plan_of(states_of(tables))
    shuffled = exchanges(states)
    assert shuffled.count("cluster, topic, partition") == 1
    # The others have a row per broker.
    assert {each for each in shuffled if "topic" not in each} <= {
        "cluster, broker",
        "cluster",
        "_cluster",
    }


def test_the_hourly_table_is_one_small_shuffle(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "partition_hours")
    spark.createDataFrame([], PARTITION_HOURS).write.parquet(path)
    plan = plan_of(hourly(spark.read.parquet(path), PriceTable()))
    assert exchanges(plan) == ["cluster, kind, group, topic, from_rack, to_rack, hour"]
