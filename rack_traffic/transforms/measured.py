"""Measured hours: the bytes of flow records take the place of the estimate where they are complete.

docs/traffic-rules.md has the rules.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.hours import HOUR_US, RACKS, whole_part

SLOT_US = 600_000_000
"""Ten minutes, the longest window of the flow logs of clouds."""
SLOTS = HOUR_US // SLOT_US

KIND_HOUR = ("cluster", "kind", "hour")
"""What is measured or estimated as a whole."""

_PART = ("group", "topic", "writer_rack")
"""What an estimate knows and flow records do not; ``writer_rack`` is that of assumed producers."""


def covered_hours(records: DataFrame, brokers: DataFrame) -> DataFrame:
    """Return (cluster, hour): the hours in which records of every broker cover every ten minutes.

    ``records`` is the result of `flows.records_of_brokers`, ``brokers`` the snapshots of brokers.
    """
    last = F.greatest(F.col("end"), F.col("start") + F.lit(1)) - F.lit(1)
    slots = F.sequence(whole_part(F.col("start"), SLOT_US), whole_part(last, SLOT_US))
    ends = records.select("cluster", F.explode(F.array("broker", "peer")).alias("broker"), slots)
    seen = ends.toDF("cluster", "broker", "slots").filter(F.col("broker").isNotNull())
    hour = whole_part(F.col("slot"), SLOTS).alias("hour_number")
    complete = (
        seen.select("cluster", "broker", F.explode("slots").alias("slot"))
        .distinct()
        .groupBy("cluster", "broker", hour)
        .agg((F.count(F.lit(1)) == SLOTS).alias("complete"))
    )
    known = brokers.select(
        "cluster", "broker", whole_part(F.unix_micros("taken_at"), HOUR_US).alias("hour_number")
    ).distinct()
    return (
        known.join(complete, ["cluster", "broker", "hour_number"], how="left")
        .groupBy("cluster", "hour_number")
        .agg(F.every(F.coalesce("complete", F.lit(False))).alias("is_covered"))
        .filter("is_covered")
        .select("cluster", F.timestamp_seconds(F.col("hour_number") * F.lit(3600)).alias("hour"))
    )


def measured_kinds(flows: DataFrame, covered: DataFrame) -> DataFrame:
    """Return the KIND_HOUR of rows of FLOWS_HOURLY in the hours ``covered``."""
    counted = flows.filter(F.col("bytes") > 0)
    return counted.join(covered, ["cluster", "hour"], how="left_semi").select(*KIND_HOUR).distinct()


def divided_flows(flows: DataFrame, estimated: DataFrame) -> DataFrame:
    """Return (cluster, kind, group, topic, from_rack, to_rack, hour, source, bytes): measured bytes
    divided among the groups and topics of the estimate.

    ``flows`` are rows of FLOWS_HOURLY and ``estimated`` those of HOURLY, of the same KIND_HOUR. The
    parts of a row of ``flows`` add up to it.
    """
    is_produce, is_read = F.col("kind") == "produce", F.col("kind") == "consume"
    group = F.when(is_read, F.col("group"))
    broker_rack = F.when(is_produce, F.col("to_rack")).otherwise(F.col("from_rack"))
    sums = flows.groupBy(
        *(*KIND_HOUR, *RACKS),
        broker_rack.alias("broker_rack"),
        group.alias("group"),
        (is_read & F.coalesce(F.col("groups") == 0, F.lit(False))).alias("in_no_group"),
    ).agg(F.sum("bytes").alias("bytes"))
    known = estimated.filter(F.col("bytes") > 0).select(
        *(*KIND_HOUR, "group", "topic"),
        F.when(is_produce, F.col("from_rack")).alias("writer_rack"),
        broker_rack.alias("broker_rack"),
        "bytes",
    )
    of_rack = _with_parts(sums, _parts(known, "broker_rack"), "of_rack", "broker_rack")
    of_hour = _with_parts(of_rack, _parts(known), "of_hour")
    whole = F.array(
        F.struct(
            F.col("group"),
            F.lit(None).cast("string").alias("topic"),
            F.lit(None).cast("string").alias("writer_rack"),
            F.lit(0.0).alias("low"),
            F.lit(1.0).alias("high"),
        )
    )
    parts = F.when(F.col("in_no_group"), whole).otherwise(F.coalesce("of_rack", "of_hour", whole))
    exploded = of_hour.withColumn("part", F.explode(parts))
    size, part = F.col("bytes"), F.col("part")
    is_assumed = is_produce & F.col("from_rack").isNull() & part["writer_rack"].isNotNull()
    divided = exploded.select(
        *KIND_HOUR,
        part["group"].alias("group"),
        part["topic"].alias("topic"),
        F.when(is_assumed, part["writer_rack"]).otherwise(F.col("from_rack")).alias("from_rack"),
        "to_rack",
        F.when(is_assumed, F.lit("assumed")).otherwise(F.lit("measured")).alias("source"),
        (F.round(size * part["high"]) - F.round(size * part["low"])).cast("bigint").alias("bytes"),
    ).filter(F.col("bytes") > 0)
    keys = [name for name in divided.columns if name != "bytes"]
    return divided.groupBy(*keys).agg(F.sum("bytes").alias("bytes"))


def _parts(known: DataFrame, *more: str) -> DataFrame:
    """Return (KIND_HOUR, of_group, more, parts): an array of _PART, low and high, in their order.

    ``low`` and ``high`` are the parts of 1 at which each begins and ends, by its bytes. A group has
    its own array; all groups and topics together have one with ``of_group`` null.
    """
    keys = (*KIND_HOUR, "of_group", *more)
    none = F.lit(None).cast("string")
    scopes = known.withColumn("of_group", F.explode(F.array_distinct(F.array("group", none))))
    sums = scopes.groupBy(*keys, *_PART).agg(F.sum("bytes").alias("bytes"))
    until = F.sum("bytes").over(Window.partitionBy(*keys).orderBy(*_PART))
    whole = F.sum("bytes").over(Window.partitionBy(*keys))
    bounds = sums.withColumns(
        {"low": (until - F.col("bytes")) / whole, "high": until / whole},
    )
    each = F.struct(*_PART, "low", "high")
    return bounds.groupBy(*keys).agg(F.sort_array(F.collect_list(each)).alias("parts"))


def _with_parts(rows: DataFrame, parts: DataFrame, name: str, *more: str) -> DataFrame:
    """Return ``rows`` with the ``parts`` of their kind, hour, group and ``more``; null if none."""
    renamed = parts.select(
        *(F.col(column).alias(f"_{column}") for column in (*KIND_HOUR, "of_group", *more)),
        F.col("parts").alias(name),
    )
    same: Column = F.col("group").eqNullSafe(F.col("_of_group"))
    for column in (*KIND_HOUR, *more):
        same = same & F.col(column).eqNullSafe(F.col(f"_{column}"))
    return rows.join(renamed, same, how="left").select(*rows.columns, name)
