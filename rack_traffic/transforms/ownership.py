"""The member that owns each partition of a group, as events over time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.hourly import micros

STABLE_STATES = ("Stable", "Empty", "Dead", "Reconciling", "Assigning")
"""The group states in which the assignments of the members are valid."""

_PAIRS = "array<struct<topic:string,partition:int>>"


def ownership_events(members: DataFrame) -> DataFrame:
    """Return (cluster, group, topic, partition, at, owned, rack): a row per change of an owner.

    From ``at`` (microseconds) on, the partition is read in ``rack`` (null: unknown) if ``owned`` is
    true, and by no member if it is false: its owner left the group or gave it up. A snapshot that
    equals the one before makes no event, so there are far fewer events than members times their
    partitions.

    Groups whose consumers assign partitions to themselves have no members, and no events.
    """
    of_group = Window.partitionBy("cluster", "group")
    stable = members.filter(F.col("state").isin(*STABLE_STATES)).select(
        "cluster", "group", micros("taken_at").alias("at"), "member_id", "rack", "assignment"
    )
    numbered = stable.select("*", F.dense_rank().over(of_group.orderBy("at")).alias("snapshot"))
    next_snapshot = of_group.orderBy("snapshot").rangeBetween(1, 1)
    present = (
        numbered.select("*", F.min("at").over(next_snapshot).alias("next_at"))
        .filter(F.col("member_id").isNotNull())
        .dropDuplicates(["cluster", "group", "member_id", "snapshot"])
    )
    return _events(_changed(present))


def _changed(present: DataFrame) -> DataFrame:
    """Return the rows of ``present`` that differ from the member's row before, with its values.

    Assignments are compared as a whole first, because nearly all of them are unchanged.
    """
    of_member = Window.partitionBy("cluster", "group", "member_id").orderBy("snapshot")
    stayed = F.col("before_snapshot").eqNullSafe(F.col("snapshot") - 1)
    leaves = F.col("next_at").isNotNull() & ~F.col("after_snapshot").eqNullSafe(
        F.col("snapshot") + 1
    )
    compared = present.select(
        "*",
        *(
            F.lag(name).over(of_member).alias(f"before_{name}")
            for name in ("snapshot", "rack", "assignment")
        ),
        F.lead("snapshot").over(of_member).alias("after_snapshot"),
    ).select(
        "*",
        stayed.alias("stayed"),
        (stayed & F.col("rack").eqNullSafe(F.col("before_rack"))).alias("same_rack"),
        leaves.alias("leaves"),
    )
    unchanged = F.col("same_rack") & F.col("assignment").eqNullSafe(F.col("before_assignment"))
    return compared.filter(F.col("leaves") | ~unchanged)


def _events(changed: DataFrame) -> DataFrame:
    """Return the events of each row: partitions that its member gains, gives up, and leaves."""
    now, before = _pairs("assignment"), _pairs("before_assignment")
    none = F.array().cast(_PAIRS)
    gained = F.when(F.col("same_rack"), F.array_except(now, before)).otherwise(now)
    given_up = F.when(F.col("stayed"), F.array_except(before, now)).otherwise(none)
    left = F.when(F.col("leaves"), now).otherwise(none)
    at, no_rack = F.col("at"), F.lit(None).cast("string")
    events = changed.select(
        "cluster",
        "group",
        F.inline(
            F.array(
                _event(gained, at, F.lit(True), F.col("rack")),
                _event(given_up, at, F.lit(False), no_rack),
                _event(left, F.col("next_at"), F.lit(False), no_rack),
            )
        ),
    )
    return events.select("*", F.explode("pairs").alias("pair")).select(
        "cluster", "group", "pair.topic", "pair.partition", "at", "owned", "rack"
    )


def _event(pairs: Column, at: Column, owned: Column, rack: Column) -> Column:
    return F.struct(pairs.alias("pairs"), at.alias("at"), owned.alias("owned"), rack.alias("rack"))


def _pairs(assignment: str) -> Column:
    """Return an assignment as an array of (topic, partition); empty if it is null."""
    pairs = F.flatten(F.transform(assignment, _pairs_of_topic))
    return F.coalesce(pairs, F.array().cast(_PAIRS))


def _pairs_of_topic(topic: Column) -> Column:
    name = topic["topic"]
    return F.transform(
        topic["partitions"], lambda number: F.struct(name.alias("topic"), number.alias("partition"))
    )
