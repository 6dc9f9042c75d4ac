"""The what-if of producers: what they write as it is, and with a rack-aware partitioner; and what
replicas copy and clients in no group read, which no scenario changes."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from placement_core.racks import DEFAULT_MAX_SHARE
from rack_traffic.advice import PRODUCER_STEP, steps_text
from rack_traffic.options import Interval
from rack_traffic.output_tables import (
    HOURS_PER_MONTH,
    NO_GROUP,
    PRODUCERS,
    RACK_AWARE_PRODUCERS,
    REPLICATION,
)
from rack_traffic.pipeline import priced_pairs
from rack_traffic.prices import GB, PriceTable
from rack_traffic.schemas import WHAT_IF
from rack_traffic.transforms.hours import PRICE_KEY
from rack_traffic.what_if.changes import NO_CHANGE
from rack_traffic.what_if.inputs import covered_spans, interval_start

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
