"""Bytes and cost per hour and pair of racks: distribution of intervals over hours, and sums.

Times in these transforms are whole microseconds since 1970: they sort and subtract faster than
timestamps. Hours are numbered from 1970 too.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rack_traffic.prices import GB, PriceTable, level_column, price_column
from rack_traffic.schemas import HOURLY

HOUR_US = 3_600_000_000
"""Microseconds of an hour."""


def micros(timestamp: str) -> Column:
    """Return the column ``timestamp`` in microseconds since 1970."""
    return F.unix_micros(F.col(timestamp))


def hour_numbers(start: str, end: str) -> Column:
    """Return an array of the hours that [start, end) overlaps; both columns in microseconds."""
    return F.sequence(F.expr(f"{start} div {HOUR_US}"), F.expr(f"({end} - 1) div {HOUR_US}"))


def hour_start(hour_number: str) -> Column:
    """Return the timestamp at which the hour of that number begins."""
    return F.timestamp_seconds(F.col(hour_number) * F.lit(3600))


_RACKS = ("from_rack", "to_rack")
_WHOLE, _FIRST_HALF, _SECOND_HALF = 0, 1, 2
_MIDDLE = "from_at + (to_at - from_at) div 2"


def split_by_hour(intervals: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return (keys, hour_number, from_rack, to_rack, bytes, estimated_bytes, unsized_offsets): the
    part of each interval in each hour that it overlaps.

    ``intervals`` has ``keys`` and from_at, to_at (microseconds), from_rack, from_rack_after,
    to_rack, to_rack_after, bytes (a fraction), estimated (boolean), unsized_offsets. Bytes and
    offsets are distributed evenly over an interval's time. If a rack differs between its two ends,
    the first half has the racks at the beginning and the second half those at the end.

    Results are whole: their sums do not depend on the order of addition, so that the same input
    gives the same result however Spark partitions it. A part has what the rounded total since the
    beginning of the interval grows by, so that the parts add up to the interval.
    """
    is_second = F.col("half") == _SECOND_HALF
    halves = intervals.withColumn("half", F.explode(_halves())).select(
        *keys,
        "from_at",
        (F.col("to_at") - F.col("from_at")).alias("length"),
        "bytes",
        "estimated",
        "unsized_offsets",
        F.when(is_second, F.expr(_MIDDLE)).otherwise(F.col("from_at")).alias("start"),
        F.when(F.col("half") == _FIRST_HALF, F.expr(_MIDDLE))
        .otherwise(F.col("to_at"))
        .alias("end"),
        *(
            F.when(is_second, F.col(f"{rack}_after")).otherwise(F.col(rack)).alias(rack)
            for rack in _RACKS
        ),
    )
    hours = halves.withColumn("hour_number", F.explode(hour_numbers("start", "end")))
    hour = F.col("hour_number") * F.lit(HOUR_US)
    begin, end = F.greatest("start", hour), F.least("end", hour + F.lit(HOUR_US))
    parts = hours.select(
        *keys,
        "hour_number",
        *_RACKS,
        (_total_until(end, "bytes") - _total_until(begin, "bytes")).alias("bytes"),
        "estimated",
        (_total_until(end, "unsized_offsets") - _total_until(begin, "unsized_offsets")).alias(
            "unsized_offsets"
        ),
    )
    return parts.select(
        *keys,
        "hour_number",
        *_RACKS,
        "bytes",
        F.when(F.col("estimated"), F.col("bytes")).otherwise(0).alias("estimated_bytes"),
        "unsized_offsets",
    )


def _total_until(at: Column, value: str) -> Column:
    """Return the part of an interval's value until a time, rounded."""
    share = (at - F.col("from_at")) / F.col("length")
    return F.round(F.col(value) * share).cast("bigint")


def sum_by_hour(parts: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return (keys, hour, from_rack, to_rack, bytes, estimated_bytes, unsized_offsets): the sums
    of the result of :func:`split_by_hour`, without rows that are zero."""
    values = ("bytes", "estimated_bytes", "unsized_offsets")
    sums = parts.groupBy(*keys, "hour_number", *_RACKS).agg(
        *(F.sum(name).alias(name) for name in values)
    )
    return sums.filter((F.col("bytes") > 0) | (F.col("unsized_offsets") > 0)).select(
        *keys, hour_start("hour_number").alias("hour"), *_RACKS, *values
    )


def _halves() -> Column:
    """Return an array: the whole interval, or its two halves if a rack changes."""
    unchanged = [F.col(rack).eqNullSafe(F.col(f"{rack}_after")) for rack in _RACKS]
    whole = (unchanged[0] & unchanged[1]) | (F.col("to_at") - F.col("from_at") < 2)
    return F.when(whole, F.array(F.lit(_WHOLE))).otherwise(
        F.array(F.lit(_FIRST_HALF), F.lit(_SECOND_HALF))
    )


# ---- Bytes and cost per pair of racks and hour.

_KEYS = ("cluster", "kind", "group", "topic", "from_rack", "to_rack", "hour")
_VALUES = ("bytes", "estimated_bytes", "unsized_offsets")


def hourly(partition_hours: DataFrame, prices: PriceTable) -> DataFrame:
    """Return the table HOURLY from rows of PARTITION_HOURS."""
    sums = partition_hours.groupBy(*_KEYS).agg(*(F.sum(name).alias(name) for name in _VALUES))
    from_rack, to_rack = F.col("from_rack"), F.col("to_rack")
    price = price_column(prices, F.col("cluster"), from_rack, to_rack, F.col("crossed_level"))
    cost = F.col("bytes") * F.col("price_per_gb") / F.lit(float(GB))
    with_cost = (
        sums.withColumn("crossed_level", level_column(from_rack, to_rack))
        .withColumn("price_per_gb", price)
        .withColumn("cost", cost)
    )
    return with_cost.select(*(F.col(each.name).cast(each.dataType) for each in HOURLY))
