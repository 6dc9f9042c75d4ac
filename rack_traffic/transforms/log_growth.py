"""What producers wrote and followers copied, from how the logs grew."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from rack_traffic.options import Beliefs
from rack_traffic.transforms.broker_racks import with_rack
from rack_traffic.transforms.partition_states import KEY


def appended(states: DataFrame, racks: DataFrame, beliefs: Beliefs) -> DataFrame:
    """The intervals of what was written, as :mod:`~rack_traffic.transforms.split_by_hour` takes
    them, with ``kind``: (cluster, topic, partition, kind, from_at, to_at, racks, bytes ...).

    ``produce`` goes from an unknown rack to the leader's, once; ``replicate`` from the leader's
    rack to each follower's. A follower that was down copies later what it missed: it is
    counted when it was written. Where the leader changed, each has half of the time between the
    two snapshots, with followers of its own.
    """
    reigns = _reigns(_growths(states, beliefs))
    followers = F.filter("replicas", lambda broker: broker != F.col("leader"))
    producers = F.array(F.lit(None).cast("int"))
    copies = reigns.select(
        *(name for name in reigns.columns if name != "replicas"),
        F.explode(F.concat(producers, followers)).alias("follower"),
    )
    placed = with_rack(copies, racks, "follower", "to_at", "follower_rack")
    produced = F.col("follower").isNull()
    source = F.when(~produced, F.col("leader_rack"))
    target = F.when(produced, F.col("leader_rack")).otherwise(F.col("follower_rack"))
    return placed.select(
        *KEY,
        F.when(produced, F.lit("produce")).otherwise(F.lit("replicate")).alias("kind"),
        "from_at",
        "to_at",
        source.alias("from_rack"),
        source.alias("from_rack_after"),
        target.alias("to_rack"),
        target.alias("to_rack_after"),
        "bytes",
        F.lit(False).alias("estimated"),
        "unsized_offsets",
    )


def _growths(states: DataFrame, beliefs: Beliefs) -> DataFrame:
    """What was appended to a partition between its snapshots."""
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
        F.when(told, F.lit(0).cast("bigint")).otherwise(offsets).alias("unsized_offsets"),
    )


def _reigns(growths: DataFrame) -> DataFrame:
    """``growths`` per leader: in two halves where it changed."""
    start, end = F.col("from_at"), F.col("to_at")
    middle = F.expr("from_at + (to_at - from_at) div 2")
    leader, rack = F.col("leader"), F.col("leader_rack")
    moved = (F.col("before_leader") != leader) & (end - start > 1)
    halves = F.array(
        _reign(start, middle, F.col("before_leader"), F.col("before_rack")),
        _reign(middle, end, leader, rack),
    )
    parts = growths.select(
        *KEY,
        (end - start).alias("length"),
        "replicas",
        "bytes",
        "unsized_offsets",
        F.explode(F.when(moved, halves).otherwise(F.array(_reign(start, end, leader, rack)))).alias(
            "reign"
        ),
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
        F.round(F.col("unsized_offsets") * share).cast("bigint").alias("unsized_offsets"),
    )


def _reign(from_at: Column, to_at: Column, leader: Column, rack: Column) -> Column:
    return F.struct(
        from_at.alias("from_at"),
        to_at.alias("to_at"),
        leader.alias("leader"),
        rack.alias("leader_rack"),
    )
