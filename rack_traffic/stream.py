"""The streaming job: a topic of snapshots in, the same tables out, hour by hour.

Every micro-batch is first added to a store of snapshots, under its own number; then the hours that
it closes are made from the store by the transforms of the batch job, and take the place of what was
there. Both steps have the same outcome however often they are done, and Structured Streaming does a
batch again, with the same messages, until it is in the checkpoint: so nothing is lost or counted
twice, wherever the process dies.

Windows that reach over rows (the commit before, the leader as of the time) are beyond what
Structured Streaming does between micro-batches; the store stands in for its state, and
:mod:`rack_traffic.stream` for its watermark, one per cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rack_traffic.errors import TrafficError
from rack_traffic.options import Beliefs
from rack_traffic.pipeline import Snapshots, partition_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.session import log
from rack_traffic.storage import TIME_OF, hold, read_snapshots
from rack_traffic.transforms.hourly import hourly
from rack_traffic.validation import CONTRACTS

# ---- Which hours of which cluster a stream may publish: a pure rule of what was seen.

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Closing:
    """Hours of a cluster to publish: those that begin at [since, until)."""

    cluster: str
    since: datetime
    until: datetime


def closings(
    before: Mapping[str, datetime],
    after: Mapping[str, datetime],
    first: Mapping[str, datetime],
    delay: timedelta,
    longest_gap: timedelta,
) -> list[Closing]:
    """What a batch closes, given the newest time of each cluster before and after it.

    The watermark of a cluster is its newest time less ``delay``; hours that end at or before it are
    closed. A cluster's clock moves its own hours alone. Whenever an hour closes, those before it
    that may still change, since an interval of up to ``longest_gap`` may end after them, are
    published anew, down to the cluster's ``first`` time.
    """
    found = []
    for cluster in sorted(after):
        until = _hour(after[cluster] - delay)
        closed = _hour(before[cluster] - delay) if cluster in before else _hour(first[cluster])
        if until > closed:
            since = max(_hour(first[cluster]), _hour(closed - longest_gap))
            found.append(Closing(cluster, since, until))
    return found


def final_before(newest: datetime, delay: timedelta, longest_gap: timedelta) -> datetime:
    """What is taken before this time comes too late: its hours are not published any more."""
    return _hour(newest - delay) - longest_gap


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


# ---- Snapshots as they travel on a Kafka topic.


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


LOGS_LOOK_BACK = timedelta(hours=24)
"""How much further partitions are read back: bytes per offset of readers that lag."""

Seen = dict[str, Any]
"""A row of the table ``progress``."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_PROGRESS = StructType(
    [
        StructField("cluster", StringType()),
        StructField("first", TimestampType()),
        StructField("newest", TimestampType()),
        StructField("rows", LongType()),
        StructField("late", LongType()),
    ]
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where the stream writes (``target``, a folder of its own), and how long it waits.

    ``delay_minutes`` is how late a snapshot may arrive before its hour closes. Snapshots that are
    later still are counted in when the next hour closes, unless they are from before the longest
    gap (``beliefs``), which are counted as late.
    """

    target: str
    prices: PriceTable = field(default_factory=PriceTable)
    beliefs: Beliefs = field(default_factory=lambda: Beliefs(longest_gap_hours=2.0))
    delay_minutes: float = 10.0

    def path(self, table: str) -> str:
        """Where a table is: ``snapshots/<name>``, ``partition_hours``, ``hourly``, ``set_aside``,
        ``progress`` or ``checkpoint``."""
        return f"{self.target.rstrip('/')}/{table}"

    @property
    def delay(self) -> timedelta:
        """``delay_minutes`` as a span of time."""
        return timedelta(minutes=self.delay_minutes)

    @property
    def longest_gap(self) -> timedelta:
        """The beliefs' longest gap as a span of time."""
        return timedelta(hours=self.beliefs.longest_gap_hours)


def kafka_messages(
    spark: SparkSession, settings: Mapping[str, str], topic: str, most_per_batch: int | None
) -> DataFrame:
    """The topic as a stream of ``value``; ``settings`` are the consumer's, in Java's words.

    Raises TrafficError where the Kafka connector is not on Spark's class path.
    """
    reader = spark.readStream.format("kafka").option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("failOnDataLoss", "true")
    if most_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", most_per_batch)
    for name, value in settings.items():
        reader = reader.option(f"kafka.{name}", value)
    try:
        return reader.load().select(F.col("value").cast("string").alias("value"))
    except Exception as error:
        if "Failed to find data source: kafka" not in str(error):
            raise
        raise TrafficError(
            "Spark has no Kafka connector: start it with --packages "
            "org.apache.spark:spark-sql-kafka-0-10_2.13 of Spark's version"
        ) from error


def start_stream(
    messages: DataFrame, options: StreamOptions, *, once: bool, every_seconds: int = 60
) -> StreamingQuery:
    """Begin, or go on where the checkpoint says; ``once``: stop at the end of what there is."""

    def process(batch: DataFrame, number: int) -> None:
        log.info("batch %d: %s", number, _told(process_batch(batch, number, options)))

    writer = messages.writeStream.foreachBatch(process).option(
        "checkpointLocation", options.path("checkpoint")
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_seconds} seconds").start()


def process_batch(messages: DataFrame, number: int, options: StreamOptions) -> list[Closing]:
    """One micro-batch, any number of times with the same outcome: what it closes comes back."""
    spark = messages.sparkSession
    kept = messages.persist()
    try:
        given = hold({table: rows_of_messages(kept, table) for table in SNAPSHOTS})
        aside = [each.aside for each in given.checked.values()]
        _replace(
            reduce(DataFrame.unionByName, aside, unreadable(kept)), number, options, "set_aside"
        )
        for table, each in given.checked.items():
            day = F.to_date(TIME_OF.get(table, "taken_at"))
            dated = each.good.select(*each.good.columns, day.alias("date"))
            _replace(dated, number, options, f"snapshots/{table}", "date")
        before = _progress(spark, number - 1, options)
        after = _write_progress(spark, number, given.snapshots, before, options)
    finally:
        kept.unpersist()
    closing = closings(
        {name: row["newest"] for name, row in before.items()},
        {name: row["newest"] for name, row in after.items()},
        {name: row["first"] for name, row in after.items()},
        options.delay,
        options.longest_gap,
    )
    if closing:
        publish(spark, closing, options)
    return closing


def _told(closing: list[Closing]) -> str:
    """What a batch has closed, in a line."""
    hours = (
        f"{each.since:%Y-%m-%d %H:%M} to {each.until:%Y-%m-%d %H:%M} UTC of {each.cluster}"
        for each in closing
    )
    return f"published {', '.join(hours)}" if closing else "closed no hour"


def publish(spark: SparkSession, closing: list[Closing], options: StreamOptions) -> None:
    """Make the hours of ``closing`` from the store, and put them in the place of older ones."""
    since = min(each.since for each in closing)
    read_since = since - options.longest_gap - timedelta(hours=1)
    tables: dict[str, DataFrame | None] = {}
    for table in CONTRACTS:
        back = LOGS_LOOK_BACK if table == "partitions" else timedelta(0)
        beginning = None if table == "brokers" else read_since - back
        tables[table] = read_snapshots(spark, options.path("snapshots"), table, beginning, None)
    hours = partition_hours(hold(tables).snapshots, options.beliefs)
    wanted = reduce(
        lambda one, other: one | other,
        (
            (F.col("cluster") == each.cluster)
            & (F.col("hour") >= F.lit(each.since))
            & (F.col("hour") < F.lit(each.until))
            for each in closing
        ),
    )
    found = hours.filter(wanted).persist()
    try:
        _publish(found, options, "partition_hours")
        _publish(hourly(found, options.prices), options, "hourly")
    finally:
        found.unpersist()


def _publish(rows: DataFrame, options: StreamOptions, table: str) -> None:
    # As text, since a folder's name cannot hold a time of every kind of Spark alike.
    named = rows.withColumns(
        {"of_hour": F.date_format("hour", "yyyy-MM-dd-HH"), "of_cluster": F.col("cluster")}
    )
    (
        named.repartition(1)
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy("of_hour", "of_cluster")
        .parquet(options.path(table))
    )


def _replace(
    rows: DataFrame, number: int, options: StreamOptions, table: str, *divided: str
) -> None:
    """Write a batch's rows in the place of what an earlier try wrote of the same batch."""
    (
        rows.withColumn("batch", F.lit(number))
        .coalesce(1)
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy(*divided, "batch")
        .parquet(options.path(table))
    )


def _progress(spark: SparkSession, number: int, options: StreamOptions) -> dict[str, Seen]:
    """Per cluster, the first and the newest time that had been seen by the end of a batch."""
    if number < 0:
        return {}
    rows = spark.read.schema(_PROGRESS).parquet(f"{options.path('progress')}/batch={number}")
    return _times(rows.select("cluster", "first", "newest"))


def _times(rows: DataFrame) -> dict[str, Seen]:
    """``rows`` by cluster; their times go through numbers, since local clocks may be ambiguous."""
    told = rows.withColumns({name: F.unix_micros(name) for name in ("first", "newest")})
    return {
        row["cluster"]: row.asDict()
        | {name: _EPOCH + timedelta(microseconds=row[name]) for name in ("first", "newest")}
        for row in told.collect()
    }


def _write_progress(
    spark: SparkSession,
    number: int,
    snapshots: Snapshots,
    before: Mapping[str, Seen],
    options: StreamOptions,
) -> dict[str, Seen]:
    """Note what a batch brought; what was known by its end comes back."""
    limits = {
        name: final_before(row["newest"], options.delay, options.longest_gap)
        for name, row in before.items()
    }
    late = reduce(
        lambda told, each: told.when(
            (F.col("cluster") == each[0]) & (F.col("taken_at") < F.lit(each[1])), 1
        ),
        limits.items(),
        F.when(F.lit(False), 1),
    ).otherwise(0)
    seen = _times(
        snapshots.commits.groupBy("cluster").agg(
            F.min("taken_at").alias("first"),
            F.max("taken_at").alias("newest"),
            F.count(F.lit(1)).alias("rows"),
            F.sum(late).alias("late"),
        )
    )
    found = []
    for cluster in sorted({*before, *seen}):
        old, new = before.get(cluster), seen.get(cluster)
        times = [each for each in (old, new) if each is not None]
        found.append(
            {
                "cluster": cluster,
                "first": min(each["first"] for each in times),
                "newest": max(each["newest"] for each in times),
                "rows": new["rows"] if new else 0,
                "late": new["late"] if new else 0,
            }
        )
    spark.createDataFrame(found, _PROGRESS).coalesce(1).write.mode("overwrite").parquet(
        f"{options.path('progress')}/batch={number}"
    )
    return {each["cluster"]: each for each in found}
