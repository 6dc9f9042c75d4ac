"""In which rack each broker stood, and when."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.transforms.split_by_hour import micros

ALWAYS = 1 << 62
"""Later, or with a minus sign earlier, than every time in microseconds."""


def broker_racks(brokers: DataFrame) -> DataFrame:
    """(cluster, broker, rack, since, until): the spans [since, until) of each broker's rack.

    A broker hardly ever changes its rack, so this is little more than a row per broker. The first
    rack that is known of a broker holds from the beginning, since brokers may be read after what
    stands on them. A change is taken to be half-way between the two snapshots that show it. A
    rack that a broker says only at times is taken to hold in between.
    """
    series = Window.partitionBy("cluster", "broker").orderBy("at", "rack")
    known = brokers.filter(F.col("rack").isNotNull()).select(
        "cluster", "broker", "rack", micros("taken_at").alias("at")
    )
    changes = known.select(
        "*",
        F.lag("rack").over(series).alias("before"),
        F.lag("at").over(series).alias("before_at"),
    ).filter(F.col("before").isNull() | (F.col("before") != F.col("rack")))
    spans = changes.select(
        "cluster",
        "broker",
        "rack",
        F.coalesce(F.expr("before_at + (at - before_at) div 2"), F.lit(-ALWAYS)).alias("since"),
    )
    order = Window.partitionBy("cluster", "broker").orderBy("since")
    return spans.select(
        "cluster",
        "broker",
        "rack",
        "since",
        F.coalesce(F.lead("since").over(order), F.lit(ALWAYS)).alias("until"),
    )


def with_rack(rows: DataFrame, racks: DataFrame, broker: str, at: str, name: str) -> DataFrame:
    """``rows`` and the rack ``name`` in which the broker of column ``broker`` stood at ``at``.

    ``at`` is a column of microseconds; the rack is null where none is known.
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
    held: Column = (
        (rows["cluster"] == F.col("_cluster"))
        & (F.col(broker) == F.col("_broker"))
        & (F.col(at) >= F.col("since"))
        & (F.col(at) < F.col("until"))
    )
    return rows.join(spans, held, how="left").select(*rows.columns, name)
