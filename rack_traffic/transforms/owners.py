"""Who owned each partition of a group, as changes over time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.clock import micros

SETTLED = ("Stable", "Empty", "Dead", "Reconciling", "Assigning")
"""The states in which a group says who owns what; in the others assignments are in the air."""


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
        "cluster",
        "group",
        micros("taken_at").alias("at"),
        "member_id",
        "rack",
        F.coalesce(
            F.flatten(F.transform("assignment", _pairs)),
            F.array().cast("array<struct<topic:string,partition:int>>"),
        ).alias("has"),
    )
    numbered = told.select("*", F.dense_rank().over(of_group.orderBy("at")).alias("turn"))
    next_turn = of_group.orderBy("turn").rangeBetween(1, 1)
    of_member = Window.partitionBy("cluster", "group", "member_id").orderBy("turn")
    seen = (
        numbered.select("*", F.min("at").over(next_turn).alias("next_at"))
        .filter(F.col("member_id").isNotNull())
        .dropDuplicates(["cluster", "group", "member_id", "turn"])
    )
    compared = seen.select(
        "*",
        F.lag("turn").over(of_member).alias("before_turn"),
        F.lag("rack").over(of_member).alias("before_rack"),
        F.lag("has").over(of_member).alias("before_has"),
        F.lead("turn").over(of_member).alias("next_turn"),
    )
    stayed = F.col("before_turn").eqNullSafe(F.col("turn") - 1)
    same = stayed & F.col("rack").eqNullSafe(F.col("before_rack"))
    left = F.col("next_at").isNotNull() & ~F.col("next_turn").eqNullSafe(F.col("turn") + 1)
    gained = _events(
        compared,
        F.when(same, F.array_except("has", "before_has")).otherwise(F.col("has")),
        F.col("at"),
        owned=True,
    )
    gave = _events(
        compared.filter(stayed), F.array_except("before_has", "has"), F.col("at"), owned=False
    )
    gone = _events(compared.filter(left), F.col("has"), F.col("next_at"), owned=False)
    return gained.unionByName(gave).unionByName(gone)


def _pairs(topic: Column) -> Column:
    name = topic["topic"]
    return F.transform(
        topic["partitions"], lambda number: F.struct(name.alias("topic"), number.alias("partition"))
    )


def _events(rows: DataFrame, pairs: Column, at: Column, *, owned: bool) -> DataFrame:
    return rows.select(
        "cluster", "group", at.alias("at"), "rack", F.explode(pairs).alias("pair")
    ).select(
        "cluster",
        "group",
        "pair.topic",
        "pair.partition",
        "at",
        F.lit(owned).alias("owned"),
        F.when(F.lit(owned), F.col("rack")).alias("rack"),
    )
