"""The bytes that each interval between two commits consumed."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.options import EstimationOptions
from rack_traffic.transforms.commit_intervals import FROM_STATE, SERIES
from rack_traffic.transforms.hours import INTERVAL
from rack_traffic.transforms.partition_states import BOUNDARIES, DENSITIES, PARTITION


def consumption(intervals: DataFrame, estimation: EstimationOptions) -> DataFrame:
    """Return (cluster, group, topic, partition, from_at, to_at, from_rack, from_rack_after,
    to_rack, to_rack_after, bytes, estimated, unsized_offsets): what was read in each interval.

    ``intervals`` is the result of ``commit_intervals``. Bytes are offsets times bytes per offset,
    as on disk at the end of the interval: the density of the newest records for consumers at the
    end of the log, that of older ranges for consumers that lag.

    In some intervals the committed offsets do not show what was read: the offset was reset to an
    earlier one; the topic was deleted and created again; retention removed records before they
    were read; or the rate would be higher than ``max_bytes_per_second``. Their bytes are
    ``estimated``: the mean rate of the intervals before and after, times the time. If the group
    has no owner of the partition at either end, the interval is left out: an operator changed its
    offsets.

    ``from_rack`` and ``to_rack`` are the racks at the beginning of the interval, those with
    ``_after`` at its end. ``unsized_offsets`` are the offsets of intervals whose bytes are unknown
    because the size on disk is, or because the interval is longer than ``max_gap``; ``bytes`` is 0
    there.
    """
    flat = _flatten(intervals)
    measured = flat.withColumn("measured", _measured_bytes(estimation))
    by_time = Window.partitionBy(*SERIES).orderBy("to_at")
    duration = F.col("to_at") - F.col("from_at")
    rate = F.col("measured") / duration
    compared = measured.withColumns(
        {"rate_before": F.lag(rate).over(by_time), "rate_after": F.lead(rate).over(by_time)}
    )
    usual_rate = (
        F.coalesce("rate_before", "rate_after") + F.coalesce("rate_after", "rate_before")
    ) / 2
    # What is left of a compacted range has a mean size only.
    from_compacted = F.coalesce(F.col("from_offset") < F.col("compacted_below"), F.lit(False))
    size = F.coalesce(F.col("measured"), usual_rate * duration, F.lit(0.0))
    sized = (duration <= F.lit(estimation.max_gap_us)) & F.col("sized")
    return compared.filter(~F.col("unowned")).select(
        *PARTITION,
        "group",
        *INTERVAL,
        F.when(sized, size).otherwise(F.lit(0.0)).alias("bytes"),
        (sized & (F.col("measured").isNull() | from_compacted)).alias("estimated"),
        F.when(sized, F.lit(0).cast("bigint"))
        .otherwise(F.greatest(F.col("to_offset") - F.col("from_offset"), F.lit(0)))
        .alias("unsized_offsets"),
    )


def _flatten(intervals: DataFrame) -> DataFrame:
    """Return the fields of the states and owners as columns; if one end is unknown, use the
    other's."""
    to_state = F.col("to_state")
    known = F.col("from_state").isNotNull()
    from_state = {
        name: F.when(known, F.col("from_state")[name]).otherwise(to_state[name])
        for name in FROM_STATE
    }
    owner_before = F.when(F.col("from_owner.owned"), F.col("from_owner"))
    owner_after = F.when(F.col("to_owner.owned"), F.col("to_owner"))
    from_owner = F.coalesce(owner_before, owner_after)
    to_owner = F.coalesce(owner_after, owner_before)
    no = F.lit(False)
    return intervals.select(
        *SERIES,
        "from_at",
        "to_at",
        "from_offset",
        "to_offset",
        _source_rack(from_owner, from_state["leader_rack"], from_state["in_sync_racks"]).alias(
            "from_rack"
        ),
        _source_rack(to_owner, to_state["leader_rack"], to_state["in_sync_racks"]).alias(
            "from_rack_after"
        ),
        from_owner["rack"].alias("to_rack"),
        to_owner["rack"].alias("to_rack_after"),
        (F.col("from_owner.owned").eqNullSafe(no) & F.col("to_owner.owned").eqNullSafe(no)).alias(
            "unowned"
        ),
        to_state["newest_density"].isNotNull().alias("sized"),
        (from_state["topic_hash"] == to_state["topic_hash"]).alias("same_topic"),
        from_state["start_offset"].alias("first_start"),
        from_state["end_offset"].alias("first_end"),
        to_state["start_offset"].alias("last_start"),
        to_state["end_offset"].alias("boundary_0"),
        *(
            to_state[name].alias(name)
            for name in (
                *("newest_density", "oldest_density", "compacted_below"),
                *BOUNDARIES,
                *DENSITIES,
            )
        ),
    )


def _source_rack(owner: Column, leader_rack: Column, in_sync_racks: Column) -> Column:
    """Return the rack that an owner reads from: `placement_core.source_rack` as a column."""
    rack, sends_rack = owner["rack"], owner["sends_rack"]
    is_possible = F.array_contains(in_sync_racks, rack) & ~rack.eqNullSafe(leader_rack)
    may_follow = is_possible & ~sends_rack.eqNullSafe(F.lit(False))
    return F.when(may_follow, F.when(sends_rack, rack)).otherwise(leader_rack)


def _measured_bytes(estimation: EstimationOptions) -> Column:
    """Return the bytes of the offsets between two commits; null if not all of them were read."""
    seconds = (F.col("to_at") - F.col("from_at")) / F.lit(1e6)
    # Retention passed the consumer's position, and the position was nearer to the start of the log
    # than to its end, so the consumer probably skipped what was removed.
    skipped = (F.col("from_offset") < F.col("last_start")) & (
        F.col("from_offset") - F.col("first_start") < F.col("first_end") - F.col("from_offset")
    )
    read = F.col("same_topic") & (F.col("to_offset") >= F.col("from_offset")) & ~skipped
    size = _bytes_of_offsets()
    return F.when(read & (size <= seconds * F.lit(estimation.max_bytes_per_second)), size)


def _bytes_of_offsets() -> Column:
    """Return the sum over the ranges of the log, newest first, each with its density."""
    parts = [_offsets_in(F.col("boundary_0"), None) * F.col("newest_density")]
    upper = "boundary_0"
    for boundary, density in zip(BOUNDARIES, DENSITIES, strict=True):
        parts.append(_offsets_in(F.col(boundary), F.col(upper)) * F.col(density))
        upper = boundary
    parts.append(_offsets_in(None, F.col(upper)) * F.col("oldest_density"))
    return reduce(Column.__add__, parts)


def _offsets_in(low: Column | None, high: Column | None) -> Column:
    """Return the number of the interval's offsets that lie in [low, high)."""
    start = F.col("from_offset") if low is None else F.greatest(F.col("from_offset"), low)
    end = F.col("to_offset") if high is None else F.least(F.col("to_offset"), high)
    return F.greatest(end - start, F.lit(0))
