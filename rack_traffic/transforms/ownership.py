"""The member that owns each partition of a group, as events over time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from placement_core import LEADER_READING_PROTOCOLS

STABLE_STATES = ("Stable", "Empty", "Dead", "Reconciling", "Assigning")
"""The group states in which the assignments of the members are valid."""

_PAIRS = "array<struct<topic:string,partition:int>>"


def ownership_events(members: DataFrame) -> DataFrame:
    """Return (cluster, group, topic, partition, at, owned, rack, sends_rack): a row per change of
    an owner.

    From ``at`` (microseconds) on, the partition is read in ``rack`` (null: unknown) if ``owned`` is
    true, and by no member if it is false: its owner left the group or gave it up. ``sends_rack`` is
    whether the owner fetches with its rack, see `placement_core.source_rack`. A snapshot that
    equals the one before makes no event, so there are far fewer events than members times their
    partitions.

    Groups whose consumers assign partitions to themselves have no members, and no events.
    """
    of_group = Window.partitionBy("cluster", "group")
    stable = members.filter(F.col("state").isin(*STABLE_STATES)).select(
        "cluster",
        "group",
        F.unix_micros("taken_at").alias("at"),
        "member_id",
        "rack",
        "assignment",
        sends_rack().alias("sends_rack"),
    )
    numbered = stable.withColumn("snapshot", F.dense_rank().over(of_group.orderBy("at")))
    next_snapshot = of_group.orderBy("snapshot").rangeBetween(1, 1)
    present = (
        numbered.withColumn("next_at", F.min("at").over(next_snapshot))
        .filter(F.col("member_id").isNotNull())
        .dropDuplicates(["cluster", "group", "member_id", "snapshot"])
    )
    return _events(_changed(present))


def sends_rack() -> Column:
    """Return false for LEADER_READING_PROTOCOLS, true for other members that join with a rack."""
    return F.when(F.col("protocol").isin(*LEADER_READING_PROTOCOLS), F.lit(False)).when(
        F.col("rack_source") == "subscription", F.lit(True)
    )


def _changed(present: DataFrame) -> DataFrame:
    """Return the rows of ``present`` that differ from the member's row before, with its values.

    Assignments are compared as a whole first, because nearly all of them are unchanged.
    """
    of_member = Window.partitionBy("cluster", "group", "member_id").orderBy("snapshot")
    stayed = F.col("before_snapshot").eqNullSafe(F.col("snapshot") - 1)
    leaves = F.col("next_at").isNotNull() & ~F.col("after_snapshot").eqNullSafe(
        F.col("snapshot") + 1
    )
    compared = present.withColumns(
        {
            **{
                f"before_{name}": F.lag(name).over(of_member)
                for name in ("snapshot", "rack", "sends_rack", "assignment")
            },
            "after_snapshot": F.lead("snapshot").over(of_member),
        }
    ).withColumns(
        {
            "stayed": stayed,
            "same_rack": stayed
            & F.col("rack").eqNullSafe(F.col("before_rack"))
            & F.col("sends_rack").eqNullSafe(F.col("before_sends_rack")),
            "leaves": leaves,
        }
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
    at, owner = F.col("at"), (F.lit(True), F.col("rack"), F.col("sends_rack"))
    nobody = (F.lit(False), F.lit(None).cast("string"), F.lit(None).cast("boolean"))
    events = changed.select(
        "cluster",
        "group",
        F.inline(
            F.array(
                _event(gained, at, *owner),
                _event(given_up, at, *nobody),
                _event(left, F.col("next_at"), *nobody),
            )
        ),
    )
    return events.withColumn("pair", F.explode("pairs")).select(
        "cluster", "group", "pair.topic", "pair.partition", "at", "owned", "rack", "sends_rack"
    )


def _event(pairs: Column, at: Column, owned: Column, rack: Column, sends_rack: Column) -> Column:
    return F.struct(
        pairs.alias("pairs"),
        at.alias("at"),
        owned.alias("owned"),
        rack.alias("rack"),
        sends_rack.alias("sends_rack"),
    )


def _pairs(assignment: str) -> Column:
    """Return an assignment as an array of (topic, partition); empty if it is null."""
    pairs = F.flatten(F.transform(assignment, _pairs_of_topic))
    return F.coalesce(pairs, F.array().cast(_PAIRS))


def _pairs_of_topic(topic: Column) -> Column:
    name = topic["topic"]
    return F.transform(
        topic["partitions"], lambda number: F.struct(name.alias("topic"), number.alias("partition"))
    )
