"""Who owned each partition of a group, as changes over time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.split_by_hour import micros

SETTLED = ("Stable", "Empty", "Dead", "Reconciling", "Assigning")
"""The states in which a group says who owns what; in the others assignments are in the air."""

_PAIRS = "array<struct<topic:string,partition:int>>"


def owners(members: DataFrame) -> DataFrame:
    """(cluster, group, topic, partition, at, owned, rack): an event per change.

    From ``at`` (microseconds) on, the partition is read in ``rack`` (null: not known) where it is
    ``owned``, and by no member where it is not: its owner left, or gave it away. Snapshots of a
    group that repeat what is known make no event, so this is small beside the members' rows
    times their partitions.

    Consumers that assign partitions to themselves are members of nothing: their groups have no
    events.
    """
    of_group = Window.partitionBy("cluster", "group")
    told = members.filter(F.col("state").isin(*SETTLED)).select(
        "cluster", "group", micros("taken_at").alias("at"), "member_id", "rack", "assignment"
    )
    numbered = told.select("*", F.dense_rank().over(of_group.orderBy("at")).alias("turn"))
    next_turn = of_group.orderBy("turn").rangeBetween(1, 1)
    seen = (
        numbered.select("*", F.min("at").over(next_turn).alias("next_at"))
        .filter(F.col("member_id").isNotNull())
        .dropDuplicates(["cluster", "group", "member_id", "turn"])
    )
    return _events(_changed(seen))


def _changed(seen: DataFrame) -> DataFrame:
    """The rows of ``seen`` that may tell anything new, with what was known of their members.

    Assignments are compared as they are written, and taken apart later: nearly all of them are
    those of the snapshot before.
    """
    of_member = Window.partitionBy("cluster", "group", "member_id").orderBy("turn")
    stayed = F.col("before_turn").eqNullSafe(F.col("turn") - 1)
    left = F.col("next_at").isNotNull() & ~F.col("next_turn").eqNullSafe(F.col("turn") + 1)
    compared = seen.select(
        "*",
        *(
            F.lag(name).over(of_member).alias(f"before_{name}")
            for name in ("turn", "rack", "assignment")
        ),
        F.lead("turn").over(of_member).alias("next_turn"),
    ).select(
        "*",
        stayed.alias("stayed"),
        (stayed & F.col("rack").eqNullSafe(F.col("before_rack"))).alias("same_rack"),
        left.alias("left"),
    )
    repeated = F.col("same_rack") & F.col("assignment").eqNullSafe(F.col("before_assignment"))
    return compared.filter(F.col("left") | ~repeated)


def _events(changed: DataFrame) -> DataFrame:
    """What every row of ``changed`` says that its member gained, gave away, and left behind."""
    has, had = _pairs("assignment"), _pairs("before_assignment")
    nothing = F.array().cast(_PAIRS)
    gained = F.when(F.col("same_rack"), F.array_except(has, had)).otherwise(has)
    gave = F.when(F.col("stayed"), F.array_except(had, has)).otherwise(nothing)
    gone = F.when(F.col("left"), has).otherwise(nothing)
    at, nowhere = F.col("at"), F.lit(None).cast("string")
    told = changed.select(
        "cluster",
        "group",
        F.inline(
            F.array(
                _event(gained, at, F.lit(True), F.col("rack")),
                _event(gave, at, F.lit(False), nowhere),
                _event(gone, F.col("next_at"), F.lit(False), nowhere),
            )
        ),
    )
    return told.select("*", F.explode("pairs").alias("pair")).select(
        "cluster", "group", "pair.topic", "pair.partition", "at", "owned", "rack"
    )


def _event(pairs: Column, at: Column, owned: Column, rack: Column) -> Column:
    return F.struct(pairs.alias("pairs"), at.alias("at"), owned.alias("owned"), rack.alias("rack"))


def _pairs(assignment: str) -> Column:
    """The topics and partitions of an assignment, one by one; none where it is null."""
    pairs = F.flatten(F.transform(assignment, _pairs_of_topic))
    return F.coalesce(pairs, F.array().cast(_PAIRS))


def _pairs_of_topic(topic: Column) -> Column:
    name = topic["topic"]
    return F.transform(
        topic["partitions"], lambda number: F.struct(name.alias("topic"), number.alias("partition"))
    )
