"""How many bytes each interval between two commits took."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.options import Beliefs
from rack_traffic.transforms.commit_intervals import FIRST, SERIES
from rack_traffic.transforms.partition_states import REACHES

_STRETCHED = tuple(
    f"{name}_{n}" for name in ("reach", "density") for n in range(1, len(REACHES) + 1)
)


def consumption(intervals: DataFrame, beliefs: Beliefs) -> DataFrame:
    """(cluster, group, topic, partition, from_at, to_at, from_rack, from_rack_after, to_rack,
    to_rack_after, bytes, estimated, unsized_offsets): what each interval read.

    ``intervals`` are :func:`~rack_traffic.transforms.commit_intervals.commit_intervals`'. Bytes
    are offsets times bytes per offset, as they were on disk at the end of the interval: those of
    the freshest records for readers at the end of the log, those of older stretches for readers
    that lag behind.

    The offsets of some intervals do not say what was read: the offset was set back; the topic was
    created again; retention overtook the reader, which then skips what is gone; or the reader
    would have been faster than can be. They are ``estimated``: the mean rate of the intervals
    before and after, times the time. Where a group has no member at either end, nobody read: an
    operator moved its offsets.

    ``from_rack`` and ``to_rack`` are those at the beginning of the interval, the ``_after`` ones
    those at its end. ``unsized_offsets`` are the offsets of intervals whose bytes cannot be
    told; ``bytes`` is 0 there.
    """
    flat = _flattened(intervals)
    measured = flat.select("*", _measured(beliefs).alias("measured"))
    order = Window.partitionBy(*SERIES).orderBy("to_at")
    rate = F.col("measured") / (F.col("to_at") - F.col("from_at"))
    compared = measured.select(
        "*",
        F.lag(rate).over(order).alias("rate_before"),
        F.lead(rate).over(order).alias("rate_after"),
    )
    usual = (F.coalesce("rate_before", "rate_after") + F.coalesce("rate_after", "rate_before")) / 2
    in_time = (F.col("to_at") - F.col("from_at")) <= F.lit(beliefs.longest_gap)
    estimate = F.coalesce(
        F.col("measured"), usual * (F.col("to_at") - F.col("from_at")), F.lit(0.0)
    )
    told = in_time & F.col("sized")
    return compared.filter(~F.col("abandoned")).select(
        "cluster",
        "group",
        "topic",
        "partition",
        "from_at",
        "to_at",
        "from_rack",
        "from_rack_after",
        "to_rack",
        "to_rack_after",
        F.when(told, estimate).otherwise(F.lit(0.0)).alias("bytes"),
        (told & F.col("measured").isNull()).alias("estimated"),
        F.when(told, F.lit(0).cast("bigint"))
        .otherwise(F.greatest(F.col("to_offset") - F.col("from_offset"), F.lit(0)))
        .alias("unsized_offsets"),
    )


def _flattened(intervals: DataFrame) -> DataFrame:
    """Racks, and the states' figures as of both ends; what one end lacks is the other's."""
    last = F.col("to_state")
    known = F.col("from_state").isNotNull()
    first = {name: F.when(known, F.col("from_state")[name]).otherwise(last[name]) for name in FIRST}
    owned_first = F.when(F.col("from_owner.owned"), F.col("from_owner"))
    owned_last = F.when(F.col("to_owner.owned"), F.col("to_owner"))
    nobody = F.lit(False)
    return intervals.select(
        "series",
        "cluster",
        "group",
        "topic",
        "partition",
        "from_at",
        "to_at",
        "from_offset",
        "to_offset",
        first["leader_rack"].alias("from_rack"),
        last["leader_rack"].alias("from_rack_after"),
        F.coalesce(owned_first, owned_last)["rack"].alias("to_rack"),
        F.coalesce(owned_last, owned_first)["rack"].alias("to_rack_after"),
        (
            F.col("from_owner.owned").eqNullSafe(nobody)
            & F.col("to_owner.owned").eqNullSafe(nobody)
        ).alias("abandoned"),
        last["fresh"].isNotNull().alias("sized"),
        (first["incarnation"] == last["incarnation"]).alias("same_topic"),
        first["start_offset"].alias("first_start"),
        first["end_offset"].alias("first_end"),
        last["start_offset"].alias("last_start"),
        last["end_offset"].alias("reach_0"),
        *(last[name].alias(name) for name in ("fresh", "old", *_STRETCHED)),
    )


def _measured(beliefs: Beliefs) -> Column:
    """Bytes of the offsets between two commits, null where they were not all read."""
    seconds = (F.col("to_at") - F.col("from_at")) / F.lit(1e6)
    overtaken = (F.col("from_offset") < F.col("last_start")) & (
        F.col("from_offset") - F.col("first_start") < F.col("first_end") - F.col("from_offset")
    )
    read = F.col("same_topic") & (F.col("to_offset") >= F.col("from_offset")) & ~overtaken
    size = _bytes_of_offsets()
    return F.when(read & (size <= seconds * F.lit(beliefs.fastest_bytes_per_second)), size)


def _bytes_of_offsets() -> Column:
    """The log in stretches, newest first, each with its own bytes per offset."""
    stretches = [_within(F.col("reach_0"), None) * F.col("fresh")]
    for n in range(1, len(REACHES) + 1):
        low, high = F.col(f"reach_{n}"), F.col(f"reach_{n - 1}")
        stretches.append(_within(low, high) * F.col(f"density_{n}"))
    stretches.append(_within(None, F.col(f"reach_{len(REACHES)}")) * F.col("old"))
    return reduce(Column.__add__, stretches)


def _within(low: Column | None, high: Column | None) -> Column:
    """Offsets of the interval that lie in [low, high)."""
    start = F.col("from_offset") if low is None else F.greatest(F.col("from_offset"), low)
    end = F.col("to_offset") if high is None else F.least(F.col("to_offset"), high)
    return F.greatest(end - start, F.lit(0))
