"""Bytes per pair of racks and hour, and what they cost."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.prices import GB, PriceTable, level_column, price_column
from rack_traffic.schemas import HOURLY

_KEYS = ("cluster", "kind", "group", "topic", "from_rack", "to_rack", "hour")
_FIGURES = ("bytes", "estimated_bytes", "reported_bytes", "unsized_offsets")


def hourly(partition_hours: DataFrame, prices: PriceTable) -> DataFrame:
    """The table HOURLY from rows of PARTITION_HOURS."""
    sums = partition_hours.groupBy(*_KEYS).agg(*(F.sum(name).alias(name) for name in _FIGURES))
    levels = sums.select(
        "*", level_column(F.col("from_rack"), F.col("to_rack")).alias("crossed_level")
    )
    priced = levels.select(
        "*",
        price_column(
            prices,
            F.col("cluster"),
            F.col("from_rack"),
            F.col("to_rack"),
            F.col("crossed_level"),
        ).alias("price_per_gb"),
    )
    costed = priced.select(
        "*", (F.col("bytes") * F.col("price_per_gb") / F.lit(float(GB))).alias("cost")
    )
    return costed.select(*(F.col(each.name).cast(each.dataType) for each in HOURLY))
