"""Exact bytes that clients report, which replace estimates."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.transforms.hourly import HOUR_US, hour_numbers, hour_start, micros, overlap_us

_PARTITION_HOUR = ("cluster", "group", "topic", "partition", "hour")
_REPORT = ("cluster", "group", "member_id", "topic", "partition", "from_rack", "to_rack")


def reported_hours(reports: DataFrame) -> DataFrame:
    """Return (cluster, group, topic, partition, hour, from_rack, to_rack, bytes, covered_us).

    ``covered_us`` is the time of the hour, in microseconds, for which clients reported the
    partition; it is the same in all rows of a partition and hour. Duplicate reports count once.
    """
    timed = reports.select(
        *_REPORT, "bytes", micros("from_at").alias("start"), micros("to_at").alias("end")
    ).dropDuplicates([*_REPORT, "start", "end"])
    hours = timed.withColumn("hour_number", F.explode(hour_numbers("start", "end")))
    overlap = overlap_us("hour_number", "start", "end")
    parts = hours.select(
        "cluster",
        "group",
        "topic",
        "partition",
        hour_start("hour_number").alias("hour"),
        "from_rack",
        "to_rack",
        F.round(F.col("bytes") * overlap / (F.col("end") - F.col("start")))
        .cast("bigint")
        .alias("bytes"),
        # A report is one row per rack from which the member read; its time counts once.
        F.struct("member_id", "start", "end").alias("report"),
        overlap.alias("overlap"),
    )
    sizes = parts.groupBy(*_PARTITION_HOUR, "from_rack", "to_rack").agg(
        F.sum("bytes").alias("bytes")
    )
    covered = (
        parts.select(*_PARTITION_HOUR, "report", "overlap")
        .distinct()
        .groupBy(*_PARTITION_HOUR)
        .agg(F.least(F.sum("overlap"), F.lit(HOUR_US)).alias("covered_us"))
    )
    return sizes.join(covered, on=list(_PARTITION_HOUR), how="inner")


def replace_estimates(estimates: DataFrame, reported: DataFrame) -> DataFrame:
    """Return ``estimates`` with the bytes of ``reported`` for the time that reports cover.

    ``estimates`` are rows of PARTITION_HOURS of kind ``consume``; ``reported`` is the result of
    :func:`reported_hours`. An estimate keeps the share of the hour that no report covers.
    """
    covered = reported.select(*_PARTITION_HOUR, "covered_us").distinct()
    uncovered = (F.lit(HOUR_US) - F.coalesce("covered_us", F.lit(0))) / F.lit(HOUR_US)
    remaining = estimates.join(covered, on=list(_PARTITION_HOUR), how="left").select(
        "cluster",
        "kind",
        "group",
        "topic",
        "partition",
        "hour",
        "from_rack",
        "to_rack",
        F.round(F.col("bytes") * uncovered).cast("bigint").alias("bytes"),
        F.round(F.col("estimated_bytes") * uncovered).cast("bigint").alias("estimated_bytes"),
        F.lit(0).cast("bigint").alias("reported_bytes"),
        F.round(F.col("unsized_offsets") * uncovered).cast("bigint").alias("unsized_offsets"),
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
    values = ("bytes", "estimated_bytes", "reported_bytes", "unsized_offsets")
    both = remaining.unionByName(exact)
    sums = both.groupBy(*[name for name in both.columns if name not in values]).agg(
        *(F.sum(name).alias(name) for name in values)
    )
    return sums.filter((F.col("bytes") > 0) | (F.col("unsized_offsets") > 0))
