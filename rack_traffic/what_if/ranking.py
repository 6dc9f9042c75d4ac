"""The change to make for each group, ranked by the money that it saves."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.schemas import RANKING

ENOUGH = 0.01
"""A lesser change is preferred as long as it leaves no more than this share of the saving."""

_GROUP = ("cluster", "group", "interval_start", "interval_end")

# What an operator has to do, least first: an assignor's name in the clients' configuration; the
# same for clients that have to change the rebalance protocol too; that and a leader layout; or
# every broker's selector and every client's rack. Apache's own assignors are no advice: that they
# happen to cost less today says nothing of tomorrow.
_OURS = {
    "rackward_cooperative_sticky": "set the group's assignor to "
    "leader-rack-aware-cooperative-sticky",
    "rackward_range": "set the group's assignor to leader-rack-aware-range",
}


def ranking(what_if: DataFrame) -> DataFrame:
    """The table RANKING from rows of WHAT_IF: a row per group and interval.

    A group that nothing would make cheaper stays ``as_is``. Equal savings are in order of names.
    """
    of_group = Window.partitionBy(*_GROUP)
    is_now = F.col("scenario") == "as_is"
    now = F.max(
        F.when(is_now, F.struct("cost_per_month", "local_bytes", "crossing_bytes", "assignor"))
    )
    candidates = what_if.filter(
        ~F.col("scenario").isin("apache_range", "apache_cooperative_sticky")
    )
    compared = candidates.select(
        "*",
        now.over(of_group).alias("now"),
        F.min("cost_per_month").over(of_group).alias("least"),
    )
    saving = F.col("now.cost_per_month") - F.col("least")
    good = compared.filter(
        F.col("cost_per_month") <= F.col("least") + saving * F.lit(ENOUGH)
    ).select("*", _effort().alias("effort"))
    order = of_group.orderBy("effort", "cost_per_month")
    best = good.select("*", F.row_number().over(order).alias("place")).filter(F.col("place") == 1)
    saved = best.select(
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
    ranked = saved.select("*", F.row_number().over(ranks).alias("rank"))
    return ranked.select(*(F.col(each.name).cast(each.dataType) for each in RANKING))


def _effort() -> Column:
    ranged = F.col("now.assignor").contains("range")
    scenario = F.col("scenario")
    return (
        F.when(scenario == "as_is", 0)
        .when(scenario == "rackward_range", F.when(ranged, 1).otherwise(2))
        .when(scenario == "rackward_cooperative_sticky", F.when(ranged, 2).otherwise(1))
        .when(scenario == "rackward_after_leader_layout", 3)
        .otherwise(4)
    )


def _change() -> Column:
    scenario = F.col("scenario")
    told = F.when(scenario == "as_is", F.lit("leave it as it is"))
    for name, words in _OURS.items():
        told = told.when(scenario == name, F.lit(words))
    layout = F.format_string(
        f"{_OURS['rackward_cooperative_sticky']}, and change %d preferred leaders",
        F.col("leader_moves"),
    )
    return told.when(scenario == "rackward_after_leader_layout", layout).otherwise(
        F.lit(
            "set replica.selector.class to the rack-aware selector on every broker, "
            "and client.rack on every member"
        )
    )


def _locality(local: Column, crossing: Column) -> Column:
    return local / F.nullif(local + crossing, F.lit(0))
