"""Bytes and cost per hour and pair of racks: intervals are divided into hours, and added up.

Times in these transforms are whole microseconds since 1970: they sort and subtract faster than
timestamps. Hours are numbered from 1970 too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.prices import GB
from rack_traffic.schemas import HOURLY
from rack_traffic.writers import ALL_TOPICS, Writers

HOUR_US = 3_600_000_000
"""Microseconds of an hour."""

RACKS = ("from_rack", "to_rack")
INTERVAL = ("from_at", "to_at", *(f"{rack}{end}" for rack in RACKS for end in ("", "_after")))
"""The time of an interval in microseconds, and the racks at its beginning and its end."""

SIZES = ("bytes", "estimated_bytes", "unsized_offsets")
"""What is added up, per pair of RACKS; see ``tables.PARTITION_HOURS``."""


def whole_part(value: Column, divisor: int) -> Column:
    """Return ``value`` divided by ``divisor``, as a whole number."""
    return F.call_function("div", value, F.lit(divisor))


_WHOLE, _FIRST_HALF, _SECOND_HALF = 0, 1, 2


def split_by_hour(intervals: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return (keys, hour_number, from_rack, to_rack, bytes, unsized_offsets, estimated_bytes): the
    part of each interval in each hour that it overlaps.

    ``intervals`` has ``keys``, INTERVAL, bytes (a fraction), estimated (boolean) and
    unsized_offsets. Bytes and offsets are distributed evenly over an interval's time. If a rack
    differs between its two ends, the first half has the racks at the beginning and the second half
    those at the end.

    Results are whole: their sums do not depend on the order of addition, so that the same input
    gives the same result however Spark partitions it. A part has what the rounded total since the
    beginning of the interval grows by (`part_in_hour`), so that the parts add up to the interval.
    """
    is_second = F.col("half") == _SECOND_HALF
    middle = F.col("from_at") + whole_part(F.col("to_at") - F.col("from_at"), 2)
    halves = intervals.withColumn("half", F.explode(_halves())).select(
        *keys,
        "from_at",
        (F.col("to_at") - F.col("from_at")).alias("length"),
        "bytes",
        "estimated",
        "unsized_offsets",
        F.when(is_second, middle).otherwise(F.col("from_at")).alias("start"),
        F.when(F.col("half") == _FIRST_HALF, middle).otherwise(F.col("to_at")).alias("end"),
        *(
            F.when(is_second, F.col(f"{rack}_after")).otherwise(F.col(rack)).alias(rack)
            for rack in RACKS
        ),
    )
    numbers = hour_numbers(F.col("start"), F.col("end"))
    parts = halves.withColumn("hour_number", F.explode(numbers)).select(
        *keys,
        "hour_number",
        *RACKS,
        "estimated",
        *(part_in_hour("start", "end", value) for value in ("bytes", "unsized_offsets")),
    )
    estimated_bytes = F.when(F.col("estimated"), F.col("bytes")).otherwise(0)
    return parts.withColumn("estimated_bytes", estimated_bytes).drop("estimated")


def hour_numbers(start: Column, end: Column) -> Column:
    """Return an array of the numbers of the hours that [start, end) overlaps."""
    return F.sequence(whole_part(start, HOUR_US), whole_part(end - F.lit(1), HOUR_US))


def part_in_hour(start: str, end: str, value: str) -> Column:
    """Return what the rounded total of ``value`` grows by between two times, in ``hour_number``.

    The interval, of which [start, end) is a part, has the columns ``from_at`` and ``length``.
    """
    hour = F.col("hour_number") * F.lit(HOUR_US)
    begin, until = F.greatest(start, hour), F.least(end, hour + F.lit(HOUR_US))
    totals = [
        F.round(F.col(value) * ((at - F.col("from_at")) / F.col("length"))).cast("bigint")
        for at in (begin, until)
    ]
    return (totals[1] - totals[0]).alias(value)


def sum_by_hour(parts: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return (keys, hour, from_rack, to_rack, bytes, estimated_bytes, unsized_offsets): the sums
    of the result of :func:`split_by_hour`, without rows that are zero."""
    sums = parts.groupBy(*keys, "hour_number", *RACKS).agg(
        *(F.sum(name).alias(name) for name in SIZES)
    )
    return sums.filter((F.col("bytes") > 0) | (F.col("unsized_offsets") > 0)).select(
        *keys,
        F.timestamp_seconds(F.col("hour_number") * F.lit(3600)).alias("hour"),
        *RACKS,
        *SIZES,
    )


def _halves() -> Column:
    """Return an array: the whole interval, or its two halves if a rack changes."""
    unchanged = [F.col(rack).eqNullSafe(F.col(f"{rack}_after")) for rack in RACKS]
    whole = (unchanged[0] & unchanged[1]) | (F.col("to_at") - F.col("from_at") < 2)
    return F.when(whole, F.array(F.lit(_WHOLE))).otherwise(
        F.array(F.lit(_FIRST_HALF), F.lit(_SECOND_HALF))
    )


# ---- Bytes and cost per pair of racks and hour.

PRICE_KEY = ("cluster", "kind", *RACKS)
"""The columns of which the price is a function."""


def rack_pairs(partition_hours: DataFrame) -> DataFrame:
    """Return the distinct PRICE_KEY of PARTITION_HOURS with a known destination."""
    return partition_hours.select(*PRICE_KEY).filter(F.col("to_rack").isNotNull()).distinct()


def hourly(partition_hours: DataFrame, writers: Writers, priced_pairs: DataFrame) -> DataFrame:
    """Return the table HOURLY from rows of PARTITION_HOURS.

    ``priced_pairs`` has the columns PRICE_KEY, ``crossed_level`` and ``price_per_gb``.
    """
    keys = ("cluster", "kind", "group", "topic", *RACKS, "hour")
    sums = partition_hours.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in SIZES))
    read = sums.filter(F.col("kind") == "consume").withColumn("source", F.lit("estimated"))
    appended = _with_producers(sums.filter(F.col("kind") != "consume"), writers)
    return with_cost(read.unionByName(appended), priced_pairs)


def with_cost(sums: DataFrame, priced_pairs: DataFrame) -> DataFrame:
    """Return the table HOURLY from rows that have all but level, price and cost; see `hourly`."""
    # A pair with an unknown rack has no match, so its level, price and cost are null.
    with_price = sums.join(F.broadcast(priced_pairs), on=list(PRICE_KEY), how="left")
    cost = F.col("bytes") * F.col("price_per_gb") / F.lit(float(GB))
    return with_price.withColumn("cost", cost).select(
        *(F.col(column.name).cast(column.dataType) for column in HOURLY)
    )


def _with_producers(appended: DataFrame, writers: Writers) -> DataFrame:
    """Divide produced bytes of unknown racks among those of the producers; add ``source``.

    The racks of an hour are those of that hour's rows, so that the result does not depend on which
    hours are computed together. A part has what the rounded total grows by: the parts add up.
    """
    of_hour = Window.partitionBy("cluster", "hour")
    count = F.size("racks")
    parts = F.transform(
        "racks",
        lambda rack, number: F.struct(
            rack.alias("rack"),
            (number / count).alias("low"),
            ((number + 1) / count).alias("high"),
        ),
    )
    for topic, shares in sorted(writers.shares.items(), key=lambda each: each[0] != ALL_TOPICS):
        of_topic = F.lit(topic == ALL_TOPICS) | (F.col("topic") == topic)
        parts = F.when(of_topic, _declared(shares)).otherwise(parts)
    is_unknown = (F.col("kind") == "produce") & F.col("from_rack").isNull()
    is_assumed = is_unknown & F.col("to_rack").isNotNull()
    whole = F.struct(
        F.col("from_rack").alias("rack"), F.lit(0.0).alias("low"), F.lit(1.0).alias("high")
    )
    return (
        appended.withColumn("racks", F.array_sort(F.collect_set("to_rack").over(of_hour)))
        .withColumn("part", F.explode(F.when(is_assumed, parts).otherwise(F.array(whole))))
        .select(
            *("cluster", "kind", "group", "topic", "to_rack", "hour"),
            F.col("part.rack").alias("from_rack"),
            *(
                (
                    F.round(F.col(name) * F.col("part.high"))
                    - F.round(F.col(name) * F.col("part.low"))
                )
                .cast("bigint")
                .alias(name)
                for name in SIZES
            ),
            F.when(is_assumed, F.lit("assumed")).otherwise(F.lit("estimated")).alias("source"),
        )
        .filter((F.col("bytes") > 0) | (F.col("unsized_offsets") > 0))
    )


def _declared(shares: Mapping[str, float]) -> Column:
    """Return an array of racks with the part of 1 at which each begins and ends."""
    ends = [*accumulate(shares.values())]
    # The last ends at 1, whatever the sum of the floats is.
    bounds = [0.0, *ends[:-1], 1.0]
    return F.array(
        *(
            F.struct(F.lit(rack).alias("rack"), F.lit(low).alias("low"), F.lit(high).alias("high"))
            for rack, (low, high) in zip(shares, pairwise(bounds), strict=True)
        )
    )
