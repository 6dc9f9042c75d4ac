"""Snapshots as they travel on a Kafka topic."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from rack_traffic.schemas import SNAPSHOTS


def rows_of_messages(messages: DataFrame, table: str) -> DataFrame:
    """The rows of one snapshot table in ``messages`` (a string column ``value``).

    What a row lacks, or has in another type, is null, and for its contract to judge.
    """
    told = _read(messages, table).filter(F.col("message.table") == table)
    return told.select(F.explode("message.rows").alias("row")).select("row.*")


def unreadable(messages: DataFrame) -> DataFrame:
    """The messages that name no table of snapshots, in the columns of ``schemas.SET_ASIDE``."""
    named = messages.select("value", F.get_json_object("value", "$.table").alias("table"))
    known = F.coalesce(F.col("table").isin(*SNAPSHOTS), F.lit(False))
    return named.filter(~known).select(
        F.coalesce("table", F.lit("")).alias("table"),
        F.lit("the message names no table of snapshots").alias("reason"),
        F.coalesce("value", F.lit("")).alias("row"),
    )


def _read(messages: DataFrame, table: str) -> DataFrame:
    form = StructType(
        [
            StructField("table", StringType()),
            StructField("rows", ArrayType(SNAPSHOTS[table])),
        ]
    )
    return messages.select(F.from_json("value", form, {"timeZone": "UTC"}).alias("message"))
