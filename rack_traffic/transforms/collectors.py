"""Several collectors of one cluster, whose clocks differ.

If the clocks of two collectors differ by more than the time between their passes, the rows of both
are in the wrong order when they are sorted by time: an offset of one collector is followed by an
older and lower one of the other. Taken for resets, these steps back would count much of the traffic
twice. Each collector on its own sees everything in the right order, so one of them counts at a
time.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.transforms.hours import whole_part

SPAN_US = 600_000_000
"""The microseconds for which one collector counts. A collector that ends in the middle leaves a gap
of less than that, which another would have filled; and every change of the collector may move
traffic by the difference of the clocks."""

ENOUGH = 0.5
"""A collector with this share of the most rows is as good as the one that has them: a few missed
snapshots are better than a change of the clock."""


def several_collectors(rows: DataFrame) -> DataFrame:
    """Return the clusters that have several collectors; reads two columns of ``rows``."""
    # The first and the last name would be found by sorting all rows, a number by hashes.
    of_cluster = rows.groupBy("cluster").agg(F.count_distinct("collector").alias("collectors"))
    return of_cluster.filter(F.col("collectors") > 1).select("cluster")


def one_collector(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    """Return the rows of one collector per ``keys`` and ten minutes: the first name among those
    that have enough rows there.

    ``rows`` have columns ``taken_at`` and ``collector``. Rows without a collector have the same.
    """
    span = whole_part(F.unix_micros("taken_at"), SPAN_US)
    collector = F.coalesce("collector", F.lit(""))
    counts = rows.groupBy(*keys, span.alias("span"), collector.alias("name")).agg(
        F.count(F.lit(1)).alias("rows")
    )
    found = counts.groupBy(*keys, "span").agg(
        F.max("rows").alias("most"), F.collect_list(F.struct("name", "rows")).alias("collectors")
    )
    enough = F.filter("collectors", lambda each: each["rows"] >= F.col("most") * F.lit(ENOUGH))
    chosen = found.select(
        *(F.col(name).alias(f"chosen_{name}") for name in (*keys, "span")),
        F.array_min(F.transform(enough, lambda each: each["name"])).alias("chosen"),
    )
    same = [F.col(name) == F.col(f"chosen_{name}") for name in keys]
    return rows.join(
        chosen,
        [*same, span == F.col("chosen_span"), collector == F.col("chosen")],
        how="left_semi",
    )
