"""The table WHAT_IF: the metrics of all groups under all scenarios, computed on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from assignors import Member
from placement_core import TopicPartition
from placement_core.flow import IntArray
from placement_core.leaders import components
from rack_traffic.output_tables import HOURS_PER_MONTH, WHAT_IF
from rack_traffic.prices import GB, PriceTable, crossed_level
from rack_traffic.schemas import spark_schema
from rack_traffic.snapshot_tables import arrow_types
from rack_traffic.what_if.assignments import scenario_assignments
from rack_traffic.what_if.inputs import (
    NO_OWNER,
    GroupCase,
    PartitionCase,
    ScenarioAssignment,
    ScenarioMetrics,
)
from rack_traffic.what_if.leader_layout import groups_sharing_topics, leader_layout


def scenario_metrics(
    case: GroupCase,
    scenario: ScenarioAssignment,
    current: ScenarioAssignment,
    prices: PriceTable,
) -> ScenarioMetrics:
    """Return locality, bytes, cost, load and moves of ``scenario``, relative to ``current``."""
    # Pairs of a source's and a reader's rack, as numbers: source * number of racks + reader.
    reader_racks = [*(member.rack for member in case.members), None]
    racks = list(dict.fromkeys([*scenario.source, *reader_racks]))
    code = {rack: number for number, rack in enumerate(racks)}
    sources = np.array([code[rack] for rack in scenario.source], np.int64)
    # The owner NO_OWNER, -1, has the last of the racks, which is unknown.
    readers = np.array([code[rack] for rack in reader_racks], np.int64)[scenario.owner]
    pairs = sources * len(racks) + readers
    bytes_of = np.array([each.bytes for each in case.partitions.values()], np.int64)
    pair_bytes = _sums(pairs, bytes_of, len(racks) ** 2)
    pair_counts = np.bincount(pairs, minlength=len(racks) ** 2)
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    cost = 0.0
    for pair in np.flatnonzero(pair_counts).tolist():
        source, reader = racks[pair // len(racks)], racks[pair % len(racks)]
        level = crossed_level(source, reader)
        locality = "unknown" if level is None else "crossing" if level else "local"
        counts[locality] += int(pair_counts[pair])
        sizes[locality] += int(pair_bytes[pair])
        if level:
            cost += int(pair_bytes[pair]) * (prices.price(case.cluster, source, reader) or 0.0) / GB
    owned = scenario.owner != NO_OWNER
    loads = np.bincount(scenario.owner[owned], minlength=len(case.members))
    bytes_read = _sums(scenario.owner[owned], bytes_of[owned], len(case.members))
    return ScenarioMetrics(
        scenario=scenario.scenario,
        assignor=scenario.assignor,
        members=len(case.members),
        partitions=len(case.partitions),
        off_rack_partitions=counts["crossing"],
        unknown_partitions=counts["unknown"],
        bytes=sum(sizes.values()),
        local_bytes=sizes["local"],
        crossing_bytes=sizes["crossing"],
        unknown_bytes=sizes["unknown"],
        cost=cost,
        cost_per_month=cost / case.hours * HOURS_PER_MONTH if case.hours else 0.0,
        max_partitions=int(loads.max()),
        min_partitions=int(loads.min()),
        max_bytes=int(bytes_read.max()),
        mean_bytes=float(bytes_read.mean()),
        # Owned partitions that get another owner, or none.
        moves=int(
            np.count_nonzero((current.owner != NO_OWNER) & (current.owner != scenario.owner))
        ),
        leader_moves=scenario.leader_moves,
        shared_topics=case.shared_topics,
    )


def _sums(index: IntArray, values: IntArray, size: int) -> IntArray:
    """Return an array of ``size`` sums: of the ``values`` with each ``index``."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, index, values)
    return sums


MAX_LOCAL_PARTITIONS = 20_000
"""Up to so many partitions of all groups, the assignments are computed in this process: that takes
a few seconds, like the start of a Python worker."""

MAX_TASKS = 64


def what_if(inputs: DataFrame, prices: PriceTable) -> DataFrame:
    """Return the table WHAT_IF from the rows of ``group_inputs``.

    ``inputs`` is read twice and should be persisted: first by this function, for the topics of each
    group. Groups that share topics are then computed in one task, others in parallel.
    """
    spark = inputs.sparkSession
    key = ("cluster", F.unix_micros("interval_start").alias("start"), "group")
    topics = F.transform("topics", lambda each: each["topic"]).alias("topics")
    groups = inputs.select(*key, topics, F.size("sizes").alias("partitions")).collect()
    if sum(row["partitions"] for row in groups) <= MAX_LOCAL_PARTITIONS:
        return spark.createDataFrame(_evaluate(prices)(inputs.toArrow()), spark_schema(WHAT_IF))
    numbers = components(
        [[(row["cluster"], row["start"], topic) for topic in row["topics"]] for row in groups]
    )
    columns = {name: [row[name] for row in groups] for name in ("cluster", "start", "group")}
    component = spark.createDataFrame(pa.table({**columns, "component": numbers}))
    return (
        inputs.withColumn("start", F.unix_micros("interval_start"))
        .join(F.broadcast(component), on=list(columns), how="inner")
        .drop("start")
        # A number that Spark does not reduce: a few megabytes are a lot of work.
        .repartition(min(MAX_TASKS, len(set(numbers))), "component")
        .groupBy("component")
        .applyInArrow(_evaluate(prices), spark_schema(WHAT_IF))
    )


def _evaluate(prices: PriceTable) -> Callable[[pa.Table], pa.Table]:
    schema = pa.schema(list(arrow_types(WHAT_IF).items()))

    def evaluate(table: pa.Table) -> pa.Table:
        of_cluster: dict[tuple[str, datetime], list[Mapping[str, Any]]] = {}
        for row in table.to_pylist():
            of_cluster.setdefault((row["cluster"], row["interval_start"]), []).append(row)
        rows = [each for rows in of_cluster.values() for each in what_if_rows(rows, prices)]
        return pa.Table.from_pylist(rows, schema)

    return evaluate


def what_if_rows(inputs: Sequence[Mapping[str, Any]], prices: PriceTable) -> list[dict[str, Any]]:
    """Return the rows of WHAT_IF of the groups of one cluster and interval that have partitions."""
    by_group = {row["group"]: row for row in inputs}
    cases = [case for case in map(group_case, inputs) if case.partitions]
    rows = []
    names = [each.name for each in fields(ScenarioMetrics)]
    for groups in groups_sharing_topics(cases):
        layout = leader_layout(groups)
        for case in groups:
            row = by_group[case.group]
            scenarios = scenario_assignments(case, layout)
            common = {
                "cluster": case.cluster,
                "group": case.group,
                "interval_start": max(row["interval_start"], row["first_hour"]),
                "interval_end": row["interval_end"],
                "hours": case.hours,
                "layout_group": layout.first_group,
            }
            rows += [
                common | {name: getattr(metrics, name) for name in names}
                for each in scenarios
                for metrics in [scenario_metrics(case, each, scenarios[0], prices)]
            ]
    return rows


def group_case(row: Mapping[str, Any]) -> GroupCase:
    """Return a row of ``group_inputs`` as a plain value."""
    sizes = {(each["topic"], each["partition"]): each["bytes"] for each in row["sizes"]}
    partitions = {
        TopicPartition(topic["topic"], each["partition"]): PartitionCase(
            each["leader"],
            tuple(each["replicas"]),
            tuple(each["isr"] or ()),
            sizes.get((topic["topic"], each["partition"]), 0),
        )
        for topic in sorted(row["topics"], key=lambda topic: str(topic["topic"]))
        for each in sorted(topic["partitions"], key=lambda each: int(each["partition"]))
    }
    members = tuple(
        Member(
            id=each["member_id"],
            topics=frozenset(each["topics"] or ()),
            rack=each["rack"],
            instance_id=each["instance_id"],
            owned={pair["topic"]: pair["partitions"] for pair in each["assignment"] or ()},
            generation=0,
        )
        for each in sorted(row["members"], key=lambda each: str(each["member_id"]))
    )
    return GroupCase(
        cluster=row["cluster"],
        group=row["group"],
        assignor=row["protocol"] or "",
        hours=row["hours"],
        members=members,
        partitions=partitions,
        racks={each["broker"]: each["rack"] for each in row["brokers"]},
        shared_topics=row["shared_topics"],
        assigned_by_brokers=row["group_type"] not in (None, "classic"),
    )
