"""The table WHAT_IF, computed on Spark: groups under all scenarios, producers, and the rest.

Producers are as they are, and with a rack-aware partitioner; what replicas copy and clients in no
group read, no scenario changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from assignors import Member
from placement_core import RACK_AWARE_SELECTOR, TopicPartition
from placement_core.leaders import components
from placement_core.racks import DEFAULT_MAX_SHARE
from rack_traffic.advice import CLASSIC, FIXED_PROTOCOLS, PRODUCER_STEP, MemberClient, steps_text
from rack_traffic.options import Interval
from rack_traffic.pipeline import priced_pairs
from rack_traffic.prices import GB, PriceTable
from rack_traffic.schemas import WHAT_IF
from rack_traffic.tables import (
    HOURS_PER_MONTH,
    NO_GROUP,
    PRODUCERS,
    RACK_AWARE_PRODUCERS,
    REPLICATION,
    columns_schema,
)
from rack_traffic.tables import WHAT_IF as WHAT_IF_COLUMNS
from rack_traffic.transforms.hours import PRICE_KEY
from rack_traffic.what_if.cases import (
    GroupCase,
    PartitionCase,
    scenario_metrics,
)
from rack_traffic.what_if.inputs import covered_spans, interval_start
from rack_traffic.what_if.scenarios import (
    NO_CHANGE,
    change_text,
    groups_sharing_topics,
    leader_layout,
    scenario_assignments,
)

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
        return spark.createDataFrame(_evaluate(prices)(inputs.toArrow()), WHAT_IF)
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
        .applyInArrow(_evaluate(prices), WHAT_IF)
    )


def _evaluate(prices: PriceTable) -> Callable[[pa.Table], pa.Table]:
    schema = columns_schema(WHAT_IF_COLUMNS)

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


# ---- Producers, replicas and clients in no group.

_FLOW = (*PRICE_KEY, "interval_start", "topic")


def producers_what_if(
    hourly: DataFrame,
    partition_hours: DataFrame,
    brokers: DataFrame,
    prices: PriceTable,
    interval: Interval,
    max_gap: timedelta,
) -> DataFrame:
    """Return rows of WHAT_IF per cluster and interval: PRODUCERS as they are and with a rack-aware
    partitioner, and REPLICATION and NO_GROUP as they are.

    The racks of producers are those of the table HOURLY. A job collects the pairs of racks.
    """
    start = interval_start(F.col("hour"), interval).alias("interval_start")
    appended = hourly.filter(F.col("group").isNull()).select("*", start)
    flows = appended.groupBy(*_FLOW).agg(F.sum("bytes").alias("bytes"))
    led = partition_hours.filter((F.col("kind") == "produce") & F.col("to_rack").isNotNull())
    leaders = led.groupBy("cluster", start, "topic", F.col("to_rack").alias("from_rack")).agg(
        F.count_distinct("partition").alias("led")
    )
    now = flows.withColumn("scenario", F.lit("as_is"))
    scenarios = now.unionByName(_rack_aware(flows.filter(F.col("kind") == "produce"), leaders))
    pairs = flows.select(*PRICE_KEY).distinct().collect()
    priced = hourly.sparkSession.createDataFrame(priced_pairs(map(tuple, pairs), prices))
    spans = covered_spans(appended, brokers, interval, max_gap)
    level, size = F.col("crossed_level"), F.col("bytes")
    key = ("cluster", "interval_start", "kind", "scenario")
    sums = (
        scenarios.join(F.broadcast(priced), on=list(PRICE_KEY), how="left")
        .groupBy(*key)
        .agg(
            F.round(_sum(F.when(level == 0, size))).alias("local_bytes"),
            F.round(_sum(F.when(level > 0, size))).alias("crossing_bytes"),
            F.round(_sum(F.when(level.isNull(), size))).alias("unknown_bytes"),
            _sum(size * F.col("price_per_gb") / F.lit(float(GB))).alias("cost"),
        )
    )
    with_hours = sums.join(spans, on=["cluster", "interval_start"], how="inner")
    kind = F.col("kind")
    group = F.when(kind == "produce", F.lit(PRODUCERS)).when(kind == "consume", F.lit(NO_GROUP))
    group = group.otherwise(F.lit(REPLICATION))
    columns = {
        "group": group,
        "layout_group": group,
        "interval_start": F.greatest("interval_start", "first_hour"),
        "assignor": F.lit(""),
        "bytes": F.col("local_bytes") + F.col("crossing_bytes") + F.col("unknown_bytes"),
        "cost_per_month": F.col("cost") * F.lit(HOURS_PER_MONTH) / F.col("hours"),
        "change": F.when(
            F.col("scenario") == RACK_AWARE_PRODUCERS, F.lit(steps_text([PRODUCER_STEP]))
        ).otherwise(F.lit(NO_CHANGE)),
    }
    rows = with_hours.withColumns(columns)
    return rows.select(
        *(
            (F.col(each.name) if each.name in rows.columns else F.lit(0))
            .cast(each.dataType)
            .alias(each.name)
            for each in WHAT_IF
        )
    )


def _rack_aware(flows: DataFrame, leaders: DataFrame) -> DataFrame:
    """Return ``flows`` as a rack-aware partitioner would change them.

    Producers write to the partitions that their rack leads, up to ``max_share``. The rest, and what
    is written from racks that lead none, goes to the other racks in the same proportions as now.
    Records with a key are not told apart: the result is that without keys.
    """
    topic = ("cluster", "interval_start", "topic")
    of_topic = Window.partitionBy(*topic)
    of_source = Window.partitionBy(*topic, "from_rack")
    is_local = F.col("from_rack") == F.col("to_rack")
    partitions = leaders.withColumns(
        {"partitions": F.sum("led").over(of_topic), "racks": F.count("*").over(of_topic)}
    )
    compared = flows.join(partitions, on=[*topic, "from_rack"], how="left").withColumns(
        {
            "written": F.sum("bytes").over(of_source),
            "local": _sum(F.when(is_local, F.col("bytes"))).over(of_source),
            "share": F.lit(DEFAULT_MAX_SHARE) * F.col("led") * F.col("racks") / F.col("partitions"),
        }
    )
    limit = F.col("written") * F.least(F.col("share"), F.lit(1.0))
    stays = F.when(F.col("local") > 0, F.greatest("local", limit)).otherwise(0)
    rest = F.col("written") - F.col("stays")
    other = F.col("written") - F.col("local")
    return compared.withColumn("stays", stays).select(
        *_FLOW,
        F.when(is_local, F.col("stays"))
        .when(other > 0, F.col("bytes") * rest / other)
        .otherwise(F.col("bytes"))
        .alias("bytes"),
        F.lit(RACK_AWARE_PRODUCERS).alias("scenario"),
    )


def _sum(values: Column) -> Column:
    return F.sum(F.coalesce(values, F.lit(0)))
