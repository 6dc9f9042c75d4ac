"""What a run did, for people and for the next program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rack_traffic.quality import Counts


def traffic_totals(hourly: DataFrame) -> dict[str, Any]:
    """Sums of the table HOURLY: the hours it covers, and bytes and cost per kind.

    ``local``, ``crossing`` and ``unknown`` bytes add up to ``bytes``.
    """
    level = F.col("crossed_level")
    found = (
        hourly.groupBy("kind")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("hour").alias("first_hour"),
            F.max("hour").alias("last_hour"),
            F.sum("bytes").alias("bytes"),
            F.sum(F.when(level == 0, F.col("bytes")).otherwise(0)).alias("local"),
            F.sum(F.when(level > 0, F.col("bytes")).otherwise(0)).alias("crossing"),
            F.sum(F.when(level.isNull(), F.col("bytes")).otherwise(0)).alias("unknown"),
            F.sum("estimated_bytes").alias("estimated"),
            F.sum("reported_bytes").alias("reported"),
            F.sum("unsized_offsets").alias("unsized_offsets"),
            F.sum("cost").alias("cost"),
        )
        .orderBy("kind")
        .collect()
    )
    kinds = [row.asDict() for row in found]
    return {
        "rows": sum(each.pop("rows") for each in kinds),
        "first_hour": min((each.pop("first_hour") for each in kinds), default=None),
        "last_hour": max((each.pop("last_hour") for each in kinds), default=None),
        "kinds": {each.pop("kind"): each for each in kinds},
    }


def summary(
    began: datetime,
    ended: datetime,
    options: Mapping[str, Any],
    counts: Mapping[str, Counts],
    totals: Mapping[str, Any],
) -> dict[str, Any]:
    """The summary of a run; times are ISO 8601 in UTC when it is written."""
    return {
        "began": began,
        "ended": ended,
        "options": dict(options),
        "input": {table: asdict(each) for table, each in counts.items()},
        "traffic": dict(totals),
    }


def as_json(value: Mapping[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(value, default=_plain, sort_keys=False)


def write_summary(spark: SparkSession, value: Mapping[str, Any], path: str) -> None:
    """Write it as a folder that holds one text file, wherever Spark can write."""
    line = spark.createDataFrame([(as_json(value),)], "value string")
    line.coalesce(1).write.mode("overwrite").text(path)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in a summary")
