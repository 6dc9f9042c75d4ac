"""What producers wrote and followers copied, from how the logs grew."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rack_traffic.beliefs import Beliefs
from rack_traffic.transforms.broker_racks import with_rack
from rack_traffic.transforms.partition_states import KEY


def produced(states: DataFrame, beliefs: Beliefs) -> DataFrame:
    """The intervals in which producers wrote, as :func:`~rack_traffic.transforms.pieces` takes
    them.

    Bytes go to the leader's rack; where they come from is not known, and stays so.
    """
    unknown = F.lit(None).cast("string")
    return _growths(states, beliefs).select(
        *KEY,
        "from_at",
        "to_at",
        unknown.alias("from_rack"),
        unknown.alias("from_rack_after"),
        F.coalesce("before_rack", "leader_rack").alias("to_rack"),
        F.col("leader_rack").alias("to_rack_after"),
        "bytes",
        "estimated",
        "unsized_offsets",
    )


def replicated(states: DataFrame, racks: DataFrame, beliefs: Beliefs) -> DataFrame:
    """The same for what followers copied: once per follower, from the leader's rack to its own.

    A follower that was down copies later what it missed: it is counted when it was written.
    """
    copies = _per_leader(_growths(states, beliefs)).select(
        *KEY,
        "from_at",
        "to_at",
        "leader",
        "leader_rack",
        "bytes",
        "estimated",
        "unsized_offsets",
        F.explode("replicas").alias("follower"),
    )
    others = copies.filter(~F.col("follower").eqNullSafe(F.col("leader")))
    return with_rack(others, racks, "follower", "to_at", "follower_rack").select(
        *KEY,
        "from_at",
        "to_at",
        F.col("leader_rack").alias("from_rack"),
        F.col("leader_rack").alias("from_rack_after"),
        F.col("follower_rack").alias("to_rack"),
        F.col("follower_rack").alias("to_rack_after"),
        "bytes",
        "estimated",
        "unsized_offsets",
    )


def _per_leader(growths: DataFrame) -> DataFrame:
    """``growths`` in two halves where the leader changed: its followers are others then."""
    start, end = F.col("from_at"), F.col("to_at")
    middle = F.expr("from_at + (to_at - from_at) div 2")
    leader, rack = F.col("leader"), F.col("leader_rack")
    moved = (F.col("before_leader") != leader) & (end - start > 1)
    halves = F.array(
        _reign(start, middle, F.col("before_leader"), F.col("before_rack")),
        _reign(middle, end, leader, rack),
    )
    reigns = F.when(moved, halves).otherwise(F.array(_reign(start, end, leader, rack)))
    parts = growths.select(
        *KEY,
        (end - start).alias("length"),
        "replicas",
        "bytes",
        "estimated",
        "unsized_offsets",
        F.explode(reigns).alias("reign"),
    )
    share = (F.col("reign.to_at") - F.col("reign.from_at")) / F.col("length")
    return parts.select(
        *KEY,
        "reign.from_at",
        "reign.to_at",
        "reign.leader",
        "reign.leader_rack",
        "replicas",
        (F.col("bytes") * share).alias("bytes"),
        "estimated",
        F.round(F.col("unsized_offsets") * share).cast("bigint").alias("unsized_offsets"),
    )


def _reign(from_at: Column, to_at: Column, leader: Column, rack: Column) -> Column:
    return F.struct(
        from_at.alias("from_at"),
        to_at.alias("to_at"),
        leader.alias("leader"),
        rack.alias("leader_rack"),
    )


def _growths(states: DataFrame, beliefs: Beliefs) -> DataFrame:
    """What was appended to a partition between its snapshots, racks and replicas at the end."""
    offsets = F.greatest(F.col("end_offset") - F.col("before_end"), F.lit(0))
    told = F.col("fresh").isNotNull() & (
        F.col("at") - F.col("before_at") <= F.lit(beliefs.longest_gap)
    )
    return states.filter(F.col("before_at") < F.col("at")).select(
        *KEY,
        F.col("before_at").alias("from_at"),
        F.col("at").alias("to_at"),
        "leader",
        "replicas",
        "before_leader",
        "before_rack",
        "leader_rack",
        F.when(told, offsets * F.col("fresh")).otherwise(F.lit(0.0)).alias("bytes"),
        F.lit(False).alias("estimated"),
        F.when(told, F.lit(0).cast("bigint")).otherwise(offsets).alias("unsized_offsets"),
    )
