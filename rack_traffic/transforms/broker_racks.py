"""The rack of each broker over time."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.hourly import micros

FOREVER = 1 << 62
"""A time in microseconds after every other time; before every other time if negative."""


def broker_racks(brokers: DataFrame) -> DataFrame:
    """Return (cluster, broker, rack, since, until): a row per time span [since, until) in which a
    broker has one rack; times are in microseconds.

    Brokers rarely change their rack, so this is about one row per broker. The first known rack of
    a broker holds from the beginning of time, because a snapshot of the brokers may be later than
    other snapshots. A change is assumed half-way between the two snapshots that show it. A rack
    that is missing in some snapshots is assumed not to have changed there.
    """
    by_time = Window.partitionBy("cluster", "broker").orderBy("at", "rack")
    known = brokers.filter(F.col("rack").isNotNull()).select(
        "cluster", "broker", "rack", micros("taken_at").alias("at")
    )
    changes = known.select(
        "*",
        F.lag("rack").over(by_time).alias("before_rack"),
        F.lag("at").over(by_time).alias("before_at"),
    ).filter(F.col("before_rack").isNull() | (F.col("before_rack") != F.col("rack")))
    middle = F.expr("before_at + (at - before_at) div 2")
    spans = changes.select(
        "cluster",
        "broker",
        "rack",
        F.coalesce(middle, F.lit(-FOREVER)).alias("since"),
    )
    by_since = Window.partitionBy("cluster", "broker").orderBy("since")
    return spans.select(
        "*", F.coalesce(F.lead("since").over(by_since), F.lit(FOREVER)).alias("until")
    )


def with_rack(rows: DataFrame, racks: DataFrame, broker: str, at: str, name: str) -> DataFrame:
    """Return ``rows`` with a column ``name``: the rack of ``broker`` at the time ``at``.

    ``racks`` is the result of :func:`broker_racks`; ``broker`` and ``at`` (microseconds) are
    columns of ``rows``. The rack is null if it is unknown.
    """
    spans = F.broadcast(
        racks.select(
            F.col("cluster").alias("_cluster"),
            F.col("broker").alias("_broker"),
            F.col("rack").alias(name),
            "since",
            "until",
        )
    )
    matches = (
        (rows["cluster"] == F.col("_cluster"))
        & (F.col(broker) == F.col("_broker"))
        & (F.col(at) >= F.col("since"))
        & (F.col(at) < F.col("until"))
    )
    return rows.join(spans, matches, how="left").select(*rows.columns, name)
