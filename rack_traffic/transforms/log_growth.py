"""Produced and replicated bytes, from the growth of the logs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rack_traffic.options import EstimationOptions
from rack_traffic.transforms.broker_racks import with_rack
from rack_traffic.transforms.hours import whole_part
from rack_traffic.transforms.partition_states import PARTITION


def log_growth(states: DataFrame, racks: DataFrame, estimation: EstimationOptions) -> DataFrame:
    """Return (cluster, topic, partition, kind, from_at, to_at, from_rack, from_rack_after, to_rack,
    to_rack_after, bytes, estimated, unsized_offsets): the appended bytes between the snapshots of
    a partition, as input of ``split_by_hour``.

    ``states`` is the result of ``partition_states`` and ``racks`` that of ``broker_racks``. There
    is one row of kind ``produce``, from an unknown rack to the leader's, and one of kind
    ``replicate`` per follower, from the leader's rack to the follower's. A follower that was down
    copies the bytes later; they count when they were appended. If the leader changed, the old
    leader has the first half of the time and the new leader the second half.
    """
    by_leader = _split_by_leader(_appended(states, estimation))
    followers = F.filter("replicas", lambda broker: broker != F.col("leader"))
    # A null follower stands for the producers.
    producers = F.array(F.lit(None).cast("int"))
    copies = by_leader.select(
        *(name for name in by_leader.columns if name != "replicas"),
        F.explode(F.concat(producers, followers)).alias("follower"),
    )
    with_racks = with_rack(copies, racks, "follower", "to_at", "follower_rack")
    produced = F.col("follower").isNull()
    from_rack = F.when(~produced, F.col("leader_rack"))
    to_rack = F.when(produced, F.col("leader_rack")).otherwise(F.col("follower_rack"))
    return with_racks.select(
        *PARTITION,
        F.when(produced, F.lit("produce")).otherwise(F.lit("replicate")).alias("kind"),
        "from_at",
        "to_at",
        from_rack.alias("from_rack"),
        from_rack.alias("from_rack_after"),
        to_rack.alias("to_rack"),
        to_rack.alias("to_rack_after"),
        "bytes",
        F.lit(False).alias("estimated"),
        "unsized_offsets",
    )


def _appended(states: DataFrame, estimation: EstimationOptions) -> DataFrame:
    """Return the bytes that were appended to a partition between its snapshots."""
    offsets = F.greatest(F.col("end_offset") - F.col("before_end"), F.lit(0))
    sized = F.col("newest_density").isNotNull() & (
        F.col("at") - F.col("before_at") <= F.lit(estimation.max_gap_us)
    )
    size = offsets * F.col("newest_density")
    return states.filter(F.col("before_at") < F.col("at")).select(
        *PARTITION,
        F.col("before_at").alias("from_at"),
        F.col("at").alias("to_at"),
        "leader",
        "replicas",
        "before_leader",
        "before_rack",
        "leader_rack",
        F.when(sized, size).otherwise(F.lit(0.0)).alias("bytes"),
        F.when(sized, F.lit(0).cast("bigint")).otherwise(offsets).alias("unsized_offsets"),
    )


def _split_by_leader(appended: DataFrame) -> DataFrame:
    """Return ``appended`` with one leader per row: two halves if the leader changed."""
    start, end = F.col("from_at"), F.col("to_at")
    middle = start + whole_part(end - start, 2)
    leader, rack = F.col("leader"), F.col("leader_rack")
    changed = (F.col("before_leader") != leader) & (end - start > 1)
    halves = F.array(
        _leadership(start, middle, F.col("before_leader"), F.col("before_rack")),
        _leadership(middle, end, leader, rack),
    )
    whole = F.array(_leadership(start, end, leader, rack))
    parts = appended.select(
        *PARTITION,
        start.alias("start"),
        (end - start).alias("length"),
        "replicas",
        "bytes",
        "unsized_offsets",
        F.explode(F.when(changed, halves).otherwise(whole)).alias("leadership"),
    )
    length, offsets = F.col("length"), F.col("unsized_offsets")
    share = (F.col("leadership.to_at") - F.col("leadership.from_at")) / length
    # Rounded totals, so that the two halves add up.
    until, before = (
        F.round(offsets * ((F.col(f"leadership.{name}") - F.col("start")) / length))
        for name in ("to_at", "from_at")
    )
    return parts.select(
        *PARTITION,
        "leadership.from_at",
        "leadership.to_at",
        "leadership.leader",
        "leadership.leader_rack",
        "replicas",
        (F.col("bytes") * share).alias("bytes"),
        (until - before).cast("bigint").alias("unsized_offsets"),
    )


def _leadership(from_at: Column, to_at: Column, leader: Column, rack: Column) -> Column:
    return F.struct(
        from_at.alias("from_at"),
        to_at.alias("to_at"),
        leader.alias("leader"),
        rack.alias("leader_rack"),
    )
