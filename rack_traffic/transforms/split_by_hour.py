"""Intervals cut to hours, and where a rack changed."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# ---- Times as whole microseconds: they sort and subtract faster than timestamps.

HOUR = 3_600_000_000
"""Microseconds of an hour."""


def micros(timestamp: str) -> Column:
    """The column ``timestamp`` in microseconds since 1970."""
    return F.unix_micros(F.col(timestamp))


def hours_between(start: str, end: str) -> Column:
    """The numbers, since 1970, of the hours that [start, end) touches; both in microseconds."""
    return F.sequence(F.expr(f"{start} div {HOUR}"), F.expr(f"({end} - 1) div {HOUR}"))


def share_of(hour: str, start: str, end: str) -> Column:
    """Microseconds of [start, end) within the hour of that number."""
    begins = F.col(hour) * F.lit(HOUR)
    return F.least(F.col(end), begins + F.lit(HOUR)) - F.greatest(F.col(start), begins)


def hour_of(number: str) -> Column:
    """The time at which the hour of that number begins."""
    return F.timestamp_seconds(F.col(number) * F.lit(3600))


RACKS = ("from_rack", "to_rack")

# The parts of an interval that has one pair of racks throughout, or one in either half.
_WHOLE, _FIRST, _LAST = 0, 1, 2
_HALF = "from_at + (to_at - from_at) div 2"


def hourly_pieces(intervals: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """(keys, hour, from_rack, to_rack, bytes, estimated_bytes, unsized_offsets), in whole bytes.

    ``intervals`` has ``keys`` and from_at, to_at (microseconds), from_rack, from_rack_after,
    to_rack, to_rack_after, bytes (fractions), estimated, unsized_offsets. Bytes are spread evenly
    over an interval's time. Where a rack differs between its ends, it changed half-way, as far as
    anyone can know.

    Whole bytes add up to the same sum in any order, so that a result does not depend on how the
    work was divided.
    """
    legs = intervals.select("*", F.explode(_legs()).alias("leg")).select(
        *keys,
        (F.col("to_at") - F.col("from_at")).alias("length"),
        "bytes",
        "estimated",
        "unsized_offsets",
        F.when(F.col("leg") == _LAST, F.expr(_HALF)).otherwise(F.col("from_at")).alias("start"),
        F.when(F.col("leg") == _FIRST, F.expr(_HALF)).otherwise(F.col("to_at")).alias("end"),
        *(
            F.when(F.col("leg") == _LAST, F.col(f"{rack}_after")).otherwise(F.col(rack)).alias(rack)
            for rack in RACKS
        ),
    )
    hours = legs.select("*", F.explode(hours_between("start", "end")).alias("number"))
    share = share_of("number", "start", "end") / F.col("length")
    cut = hours.select(
        *keys,
        "number",
        *RACKS,
        F.round(F.col("bytes") * share).cast("bigint").alias("bytes"),
        "estimated",
        F.round(F.col("unsized_offsets") * share).cast("bigint").alias("unsized_offsets"),
    )
    return cut.select(
        *keys,
        "number",
        *RACKS,
        "bytes",
        F.when(F.col("estimated"), F.col("bytes")).otherwise(0).alias("estimated_bytes"),
        "unsized_offsets",
    )


def summed(pieces: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """The sums of ``pieces`` per keys, hour and pair of racks; rows of nothing are left out."""
    figures = ("bytes", "estimated_bytes", "unsized_offsets")
    sums = pieces.groupBy(*keys, "number", *RACKS).agg(
        *(F.sum(name).alias(name) for name in figures)
    )
    return sums.filter((F.col("bytes") > 0) | (F.col("unsized_offsets") > 0)).select(
        *keys, hour_of("number").alias("hour"), *RACKS, *figures
    )


def _legs() -> Column:
    """One stretch of time, or two where a rack changed."""
    unchanged = [F.col(rack).eqNullSafe(F.col(f"{rack}_after")) for rack in RACKS]
    whole = (unchanged[0] & unchanged[1]) | (F.col("to_at") - F.col("from_at") < 2)
    return F.when(whole, F.array(F.lit(_WHOLE))).otherwise(F.array(F.lit(_FIRST), F.lit(_LAST)))
