"""Bytes and cost per pair of racks and hour."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rack_traffic.prices import GB, PriceTable, level_column, price_column
from rack_traffic.schemas import HOURLY

_KEYS = ("cluster", "kind", "group", "topic", "from_rack", "to_rack", "hour")
_VALUES = ("bytes", "estimated_bytes", "reported_bytes", "unsized_offsets")


def hourly(partition_hours: DataFrame, prices: PriceTable) -> DataFrame:
    """Return the table HOURLY from rows of PARTITION_HOURS."""
    sums = partition_hours.groupBy(*_KEYS).agg(*(F.sum(name).alias(name) for name in _VALUES))
    from_rack, to_rack = F.col("from_rack"), F.col("to_rack")
    with_level = sums.select("*", level_column(from_rack, to_rack).alias("crossed_level"))
    price = price_column(prices, F.col("cluster"), from_rack, to_rack, F.col("crossed_level"))
    with_price = with_level.select("*", price.alias("price_per_gb"))
    cost = F.col("bytes") * F.col("price_per_gb") / F.lit(float(GB))
    with_cost = with_price.select("*", cost.alias("cost"))
    return with_cost.select(*(F.col(each.name).cast(each.dataType) for each in HOURLY))
