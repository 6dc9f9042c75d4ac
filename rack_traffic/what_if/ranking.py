"""The recommended change for each group, ranked by the saving."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.schemas import RANKING
from rack_traffic.tables import LEADER_LAYOUTS

TOLERANCE = 0.01
"""A smaller change is preferred if it misses at most this share of the possible saving."""

_GROUP = ("cluster", "group", "interval_start", "interval_end")


def ranking(what_if: DataFrame) -> DataFrame:
    """Return the table RANKING from rows of WHAT_IF: a row per group and interval.

    The scenario of a group is ``as_is`` if no change would save anything. Equal savings are sorted
    by name.
    """
    # Without a change: what the group's client cannot have, and Apache Kafka's assignors. That
    # these cost less now is a coincidence, which the next rebalance may end.
    candidates = _with_layout_for_all_or_none(what_if.filter(F.col("change").isNotNull()))
    of_group = Window.partitionBy(*_GROUP)
    is_now = F.col("scenario") == "as_is"
    now = F.max(
        F.when(
            is_now,
            F.struct(
                "cost_per_month", "local_bytes", "crossing_bytes", "unknown_bytes", "assignor"
            ),
        )
    )
    compared = candidates.withColumns(
        {
            "now": now.over(of_group),
            "lowest_cost": F.min(F.when(F.col("can_be_made"), F.col("cost_per_month"))).over(
                of_group
            ),
        }
    ).filter(F.col("can_be_made"))
    # A layout for several groups may cost one of them more.
    saving = F.greatest(F.col("now.cost_per_month") - F.col("lowest_cost"), F.lit(0.0))
    good_enough = compared.filter(
        F.col("cost_per_month") <= F.col("lowest_cost") + saving * F.lit(TOLERANCE)
    ).withColumn("effort", _effort())
    by_effort = of_group.orderBy("effort", "cost_per_month")
    best = good_enough.withColumn("position", F.row_number().over(by_effort)).filter(
        F.col("position") == 1
    )
    recommended = best.select(
        *_GROUP,
        "hours",
        F.col("now.cost_per_month").alias("cost_per_month_now"),
        F.col("cost_per_month").alias("cost_per_month_after"),
        (F.col("now.cost_per_month") - F.col("cost_per_month")).alias("saving_per_month"),
        _locality("now.").alias("locality_now"),
        _locality("").alias("locality_after"),
        (F.col("now.unknown_bytes") / F.nullif(_bytes("now."), F.lit(0))).alias("unknown_now"),
        "scenario",
        "change",
    )
    # One partition: a number needs the order of all rows, of which each group and interval has one.
    ranks = Window.orderBy(F.desc("saving_per_month"), "cluster", "group", "interval_start")
    ranked = recommended.withColumn("rank", F.row_number().over(ranks))
    return ranked.select(*(F.col(each.name).cast(each.dataType) for each in RANKING))


def _with_layout_for_all_or_none(candidates: DataFrame) -> DataFrame:
    """Return ``candidates`` with a column ``can_be_made``: whether the scenario is compatible with
    those of the groups that share topics.

    New leaders affect all groups that read the topics. So a layout is for all groups of a
    ``layout_group``, if the sum of their costs is lower than with the best changes of each group
    that leave leaders as they are, or else for none.
    """
    scenario, cost = F.col("scenario"), F.col("cost_per_month")
    is_layout = scenario.isin(*LEADER_LAYOUTS)
    of_group = candidates.groupBy(*_GROUP, "layout_group").agg(
        F.max(F.when(scenario == "as_is", cost)).alias("now"),
        F.max(F.when(is_layout, cost)).alias("layout"),
        F.min(F.when(~is_layout, cost)).alias("other"),
        F.min(F.when(~is_layout & (scenario != "follower_fetching"), cost)).alias("smaller"),
    )
    of_layout = of_group.groupBy("cluster", "layout_group", "interval_start").agg(
        *(F.sum(name).alias(name) for name in ("now", "layout", "other", "smaller"))
    )
    lowest = F.least("layout", "other", "smaller")
    limit = lowest + (F.col("now") - lowest) * F.lit(TOLERANCE)
    with_decision = of_layout.select(
        "cluster",
        "layout_group",
        "interval_start",
        # Producers have no layout.
        F.coalesce((F.col("layout") <= limit) & (F.col("smaller") > limit), F.lit(False)).alias(
            "layout_for_all"
        ),
    )
    return candidates.join(
        with_decision, on=["cluster", "layout_group", "interval_start"], how="inner"
    ).withColumn("can_be_made", F.col("layout_for_all") == is_layout)


def _effort() -> Column:
    """Return how much an operator has to change, from 0.

    It is less to change the assignor's name than to change the rebalance protocol too, to give it
    weights, to lay out leaders as well, or to configure every broker and every client.
    """
    is_range = F.col("now.assignor").contains("range")
    scenario = F.col("scenario")
    return (
        F.when(scenario == "as_is", 0)
        .when(scenario == "rackward_range", F.when(is_range, 1).otherwise(2))
        .when(scenario == "rackward_cooperative_sticky", F.when(is_range, 2).otherwise(1))
        .when(scenario == "rackward_by_bytes", 3)
        .when(scenario.isin(*LEADER_LAYOUTS), 4)
        .otherwise(5)
    )


def _locality(prefix: str) -> Column:
    """Return the share of local bytes in all bytes; null if no rack is known."""
    local, crossing = (F.col(f"{prefix}{name}_bytes") for name in ("local", "crossing"))
    return F.when(local + crossing > 0, local / _bytes(prefix))


def _bytes(prefix: str) -> Column:
    local, crossing, unknown = (
        F.col(f"{prefix}{name}_bytes") for name in ("local", "crossing", "unknown")
    )
    return local + crossing + unknown
