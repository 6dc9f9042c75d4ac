"""The recommended change for each group, ranked by the saving."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.schemas import RANKING

TOLERANCE = 0.01
"""A smaller change is preferred if it misses at most this share of the possible saving."""

_GROUP = ("cluster", "group", "interval_start", "interval_end")

_INSTRUCTIONS = {
    "as_is": "no change",
    "rackward_cooperative_sticky": "set the group's assignor to "
    "leader-rack-aware-cooperative-sticky",
    "rackward_range": "set the group's assignor to leader-rack-aware-range",
    "follower_fetching": "set replica.selector.class to the rack-aware selector on every broker, "
    "and client.rack on every member",
}
# Apache Kafka's assignors are not recommended: that they cost less now is a coincidence, which the
# next rebalance may end.
_NOT_RECOMMENDED = ("apache_range", "apache_cooperative_sticky")


def ranking(what_if: DataFrame) -> DataFrame:
    """Return the table RANKING from rows of WHAT_IF: a row per group and interval.

    The scenario of a group is ``as_is`` if no change would save anything. Equal savings are sorted
    by name.
    """
    of_group = Window.partitionBy(*_GROUP)
    is_now = F.col("scenario") == "as_is"
    now = F.max(
        F.when(is_now, F.struct("cost_per_month", "local_bytes", "crossing_bytes", "assignor"))
    )
    candidates = what_if.filter(~F.col("scenario").isin(*_NOT_RECOMMENDED))
    compared = candidates.select(
        "*",
        now.over(of_group).alias("now"),
        F.min("cost_per_month").over(of_group).alias("lowest_cost"),
    )
    saving = F.col("now.cost_per_month") - F.col("lowest_cost")
    good_enough = compared.filter(
        F.col("cost_per_month") <= F.col("lowest_cost") + saving * F.lit(TOLERANCE)
    ).select("*", _effort().alias("effort"))
    by_effort = of_group.orderBy("effort", "cost_per_month")
    best = good_enough.select("*", F.row_number().over(by_effort).alias("position")).filter(
        F.col("position") == 1
    )
    recommended = best.select(
        "cluster",
        "group",
        "interval_start",
        "interval_end",
        F.col("now.cost_per_month").alias("cost_per_month_now"),
        F.col("cost_per_month").alias("cost_per_month_after"),
        (F.col("now.cost_per_month") - F.col("cost_per_month")).alias("saving_per_month"),
        _locality(F.col("now.local_bytes"), F.col("now.crossing_bytes")).alias("locality_now"),
        _locality(F.col("local_bytes"), F.col("crossing_bytes")).alias("locality_after"),
        "scenario",
        _change().alias("change"),
    )
    ranks = Window.orderBy(F.desc("saving_per_month"), "cluster", "group", "interval_start")
    ranked = recommended.select("*", F.row_number().over(ranks).alias("rank"))
    return ranked.select(*(F.col(each.name).cast(each.dataType) for each in RANKING))


def _effort() -> Column:
    """Return how much an operator has to change, from 0.

    It is less to change the assignor's name than to change the rebalance protocol too, to lay out
    leaders as well, or to configure every broker and every client.
    """
    is_range = F.col("now.assignor").contains("range")
    scenario = F.col("scenario")
    return (
        F.when(scenario == "as_is", 0)
        .when(scenario == "rackward_range", F.when(is_range, 1).otherwise(2))
        .when(scenario == "rackward_cooperative_sticky", F.when(is_range, 2).otherwise(1))
        .when(scenario == "rackward_after_leader_layout", 3)
        .otherwise(4)
    )


def _change() -> Column:
    scenario = F.col("scenario")
    layout = F.format_string(
        f"{_INSTRUCTIONS['rackward_cooperative_sticky']}, and change %d preferred leaders",
        F.col("leader_moves"),
    )
    change = F.when(scenario == "rackward_after_leader_layout", layout)
    for name, instruction in _INSTRUCTIONS.items():
        change = change.when(scenario == name, F.lit(instruction))
    return change


def _locality(local: Column, crossing: Column) -> Column:
    return local / F.nullif(local + crossing, F.lit(0))
