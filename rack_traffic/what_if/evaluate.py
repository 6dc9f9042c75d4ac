"""The table WHAT_IF: the metrics of all groups under all scenarios, computed on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from assignors import Member
from placement_core import RACK_AWARE_SELECTOR, TopicPartition
from placement_core.leaders import components
from rack_traffic.advice import CLASSIC, FIXED_PROTOCOLS, MemberClient
from rack_traffic.output_tables import WHAT_IF
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import spark_schema
from rack_traffic.snapshot_tables import columns_schema
from rack_traffic.what_if.assignments import scenario_assignments
from rack_traffic.what_if.cases import (
    GroupCase,
    PartitionCase,
    scenario_metrics,
)
from rack_traffic.what_if.changes import change_text
from rack_traffic.what_if.leader_layout import groups_sharing_topics, leader_layout

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
    schema = columns_schema(WHAT_IF)

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
            names = sorted(each.group for each in groups)
            rows += [
                common
                | asdict(scenario_metrics(case, each, scenarios[0], prices))
                | {"change": change_text(case, each, names)}
                for each in scenarios
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
        assigned_by_brokers=row["group_type"] not in (None, CLASSIC)
        or row["protocol"] in FIXED_PROTOCOLS,
        type=row["group_type"] or CLASSIC,
        clients={
            each["member_id"]: MemberClient(
                each["member_id"],
                each["client_id"] or "",
                each["host"] or "",
                can_send_rack=True if each["rack_source"] == "subscription" else None,
            )
            for each in row["members"]
        },
        selecting=frozenset(
            each["broker"]
            for each in row["brokers"]
            if each["replica_selector"] == RACK_AWARE_SELECTOR
        ),
        sends_rack={
            each["member_id"]: each["sends_rack"]
            for each in row["members"]
            if each["sends_rack"] is not None
        },
    )
