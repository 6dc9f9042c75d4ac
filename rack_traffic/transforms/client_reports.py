"""Exact bytes from clients, in the place of estimates."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.transforms.split_by_hour import HOUR, hour_of, hours_between, micros, share_of

SERIES = ("cluster", "group", "topic", "partition", "hour")
_KEY = ("cluster", "group", "member_id", "topic", "partition", "from_rack", "to_rack")


def reported_hours(reports: DataFrame) -> DataFrame:
    """(cluster, group, topic, partition, hour, from_rack, to_rack, bytes, covered).

    ``covered`` is the time of the hour, in microseconds, for which clients report this partition,
    the same on all rows of a partition and hour. A report that comes twice counts once.
    """
    times = reports.select(
        *_KEY, "bytes", micros("from_at").alias("start"), micros("to_at").alias("end")
    ).dropDuplicates([*_KEY, "start", "end"])
    hours = times.select("*", F.explode(hours_between("start", "end")).alias("number"))
    time = share_of("number", "start", "end")
    cut = hours.select(
        "cluster",
        "group",
        "topic",
        "partition",
        hour_of("number").alias("hour"),
        "from_rack",
        "to_rack",
        F.round(F.col("bytes") * time / (F.col("end") - F.col("start")))
        .cast("bigint")
        .alias("bytes"),
        # A member that read from two racks in one report's time covers that time once.
        F.struct("member_id", "start", "end").alias("span"),
        time.alias("time"),
    )
    racks = cut.groupBy(*SERIES, "from_rack", "to_rack").agg(F.sum("bytes").alias("bytes"))
    covered = (
        cut.select(*SERIES, "span", "time")
        .distinct()
        .groupBy(*SERIES)
        .agg(F.least(F.sum("time"), F.lit(HOUR)).alias("covered"))
    )
    return racks.join(covered, on=list(SERIES), how="inner")


def with_reports(estimates: DataFrame, reported: DataFrame) -> DataFrame:
    """``estimates`` (kind consume, rows of PARTITION_HOURS) with reports in their place.

    Of a partition's hour, the share that clients cover is theirs, and estimates keep the rest.
    """
    covered = reported.select(*SERIES, "covered").distinct()
    rest = (F.lit(HOUR) - F.coalesce("covered", F.lit(0))) / F.lit(HOUR)
    kept = estimates.join(covered, on=list(SERIES), how="left").select(
        "cluster",
        "kind",
        "group",
        "topic",
        "partition",
        "hour",
        "from_rack",
        "to_rack",
        F.round(F.col("bytes") * rest).cast("bigint").alias("bytes"),
        F.round(F.col("estimated_bytes") * rest).cast("bigint").alias("estimated_bytes"),
        F.lit(0).cast("bigint").alias("reported_bytes"),
        F.round(F.col("unsized_offsets") * rest).cast("bigint").alias("unsized_offsets"),
    )
    exact = reported.select(
        "cluster",
        F.lit("consume").alias("kind"),
        "group",
        "topic",
        "partition",
        "hour",
        "from_rack",
        "to_rack",
        "bytes",
        F.lit(0).cast("bigint").alias("estimated_bytes"),
        F.col("bytes").alias("reported_bytes"),
        F.lit(0).cast("bigint").alias("unsized_offsets"),
    )
    figures = ("bytes", "estimated_bytes", "reported_bytes", "unsized_offsets")
    both = kept.unionByName(exact)
    sums = both.groupBy(*[name for name in both.columns if name not in figures]).agg(
        *(F.sum(name).alias(name) for name in figures)
    )
    return sums.filter((F.col("bytes") > 0) | (F.col("unsized_offsets") > 0))
