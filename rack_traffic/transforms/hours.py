"""Bytes and cost per hour and pair of racks: intervals are divided into hours, and added up.

Times in these transforms are whole microseconds since 1970: they sort and subtract faster than
timestamps. Hours are numbered from 1970 too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.output_tables import ASSUMED
from rack_traffic.prices import GB
from rack_traffic.schemas import HOURLY
from rack_traffic.transforms.writer_racks import WRITTEN_TO, part_of, with_measured
from rack_traffic.writers import ALL_TOPICS, Writers

HOUR_US = 3_600_000_000
"""Microseconds of an hour."""


RACKS = ("from_rack", "to_rack")
SIZES = ("bytes", "estimated_bytes", "unsized_offsets")
"""What is added up, per pair of RACKS; see ``output_tables.PARTITION_HOURS``."""


def whole_part(value: Column, divisor: int) -> Column:
    """Return ``value`` divided by ``divisor``, as a whole number."""
    return F.call_function("div", value, F.lit(divisor))


_WHOLE, _FIRST_HALF, _SECOND_HALF = 0, 1, 2


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
    numbers = F.sequence(
        whole_part(F.col("start"), HOUR_US), whole_part(F.col("end") - F.lit(1), HOUR_US)
    )
    hours = halves.withColumn("hour_number", F.explode(numbers))
    hour = F.col("hour_number") * F.lit(HOUR_US)
    begin, end = F.greatest("start", hour), F.least("end", hour + F.lit(HOUR_US))
    parts = hours.select(
        *keys,
        "hour_number",
        *RACKS,
        (total_until(end, "bytes") - total_until(begin, "bytes")).alias("bytes"),
        "estimated",
        (total_until(end, "unsized_offsets") - total_until(begin, "unsized_offsets")).alias(
            "unsized_offsets"
        ),
    )
    return parts.select(
        *keys,
        "hour_number",
        *RACKS,
        "bytes",
        F.when(F.col("estimated"), F.col("bytes")).otherwise(0).alias("estimated_bytes"),
        "unsized_offsets",
    )


def total_until(at: Column, value: str) -> Column:
    """Return the part of an interval's value until a time, rounded.

    The interval has the columns ``from_at`` and ``length``."""
    share = (at - F.col("from_at")) / F.col("length")
    return F.round(F.col(value) * share).cast("bigint")


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


def hourly(
    partition_hours: DataFrame,
    writers: Writers,
    measured: DataFrame | None,
    priced_pairs: DataFrame,
) -> DataFrame:
    """Return the table HOURLY from rows of PARTITION_HOURS.

    ``measured`` is the result of `writer_racks.measured_racks`, None without flows.
    ``priced_pairs`` has the columns PRICE_KEY, ``crossed_level`` and ``price_per_gb``.
    """
    keys = ("cluster", "kind", "group", "topic", *RACKS, "hour")
    sums = partition_hours.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in SIZES))
    read = sums.filter(F.col("kind") == "consume").withColumn("source", F.lit("estimated"))
    appended = _with_producers(sums.filter(F.col("kind") != "consume"), writers, measured)
    # A pair with an unknown rack has no match, so its level, price and cost are null.
    with_price = read.unionByName(appended).join(
        F.broadcast(priced_pairs), on=list(PRICE_KEY), how="left"
    )
    cost = F.col("bytes") * F.col("price_per_gb") / F.lit(float(GB))
    return with_price.withColumn("cost", cost).select(
        *(F.col(column.name).cast(column.dataType) for column in HOURLY)
    )


def _with_producers(appended: DataFrame, writers: Writers, measured: DataFrame | None) -> DataFrame:
    """Divide produced bytes of unknown racks among those of the producers; add ``source``.

    The racks of an hour are those of that hour's rows, so that the result does not depend on which
    hours are computed together. A part has what the rounded total grows by: the parts add up.
    """
    of_hour = Window.partitionBy("cluster", "hour")
    rows = appended.withColumn("racks", F.array_sort(F.collect_set("to_rack").over(of_hour)))
    count = F.size("racks")
    parts = F.transform(
        "racks",
        lambda rack, number: part_of(rack, number / count, (number + 1) / count, F.lit(ASSUMED)),
    )
    if ALL_TOPICS in writers.shares:
        parts = _declared(writers.shares[ALL_TOPICS])
    if measured is not None:
        rows = rows.join(F.broadcast(measured), on=list(WRITTEN_TO), how="left")
        parts = with_measured(parts)
    for topic, shares in writers.shares.items():
        if topic != ALL_TOPICS:
            parts = F.when(F.col("topic") == topic, _declared(shares)).otherwise(parts)
    is_unknown = (F.col("kind") == "produce") & F.col("from_rack").isNull()
    is_divided = is_unknown & F.col("to_rack").isNotNull()
    whole = part_of(F.col("from_rack"), F.lit(0.0), F.lit(1.0), F.lit("estimated"))
    return (
        rows.withColumn("part", F.explode(F.when(is_divided, parts).otherwise(F.array(whole))))
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
            F.col("part.source").alias("source"),
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
            part_of(F.lit(rack), F.lit(low), F.lit(high), F.lit(ASSUMED))
            for rack, (low, high) in zip(shares, pairwise(bounds), strict=True)
        )
    )
