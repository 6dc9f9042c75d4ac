"""The streaming job: a topic of snapshots in, the tables of the batch job out, hour by hour.

Each micro-batch is first written to a store of snapshots, in folders with the number of the batch.
Then the hours that the batch closes are computed from the store by the transforms of the batch
job, and replace the rows of these hours in the output tables. Both steps are idempotent, and
Structured Streaming repeats a batch with the same messages until it is in the checkpoint. So
nothing is lost or counted twice, wherever the process is killed.

The transforms use windows over rows (the commit before, the leader at that time), which Structured
Streaming does not support between micro-batches. The store takes the place of its state, and the
table ``progress`` that of its watermark: there is one watermark per cluster.
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

from rack_traffic.errors import SparkError
from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import Snapshots, partition_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import SNAPSHOTS
from rack_traffic.session import KAFKA_CONNECTOR, log
from rack_traffic.snapshot_tables import TIME_COLUMN
from rack_traffic.storage import read_snapshots, validate_tables
from rack_traffic.transforms.hourly import hourly
from rack_traffic.validation import RULES

HOUR = timedelta(hours=1)

LAG_LOOKBACK = timedelta(hours=24)
"""How much more of the partitions is read, for the bytes per offset of consumers that lag."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Output of the stream and its delays.

    ``target`` is a folder of the stream's own. ``delay_minutes`` is how late a snapshot may arrive
    before its hour closes. Later snapshots are included when the next hour closes, unless they are
    older than that by ``estimation.max_gap``; those are counted as late.
    """

    target: str
    prices: PriceTable = field(default_factory=PriceTable)
    estimation: EstimationOptions = field(
        default_factory=lambda: EstimationOptions(max_gap_hours=2.0)
    )
    delay_minutes: float = 10.0

    def path(self, table: str) -> str:
        """Return the folder of a table: ``snapshots/<name>``, ``partition_hours``, ``hourly``,
        ``rejected_rows``, ``progress`` or ``checkpoint``."""
        return f"{self.target.rstrip('/')}/{table}"

    @property
    def delay(self) -> timedelta:
        """``delay_minutes`` as a timedelta."""
        return timedelta(minutes=self.delay_minutes)


@dataclass(frozen=True, slots=True)
class ClosedHours:
    """Hours of a cluster to publish: those that begin in [since, until)."""

    cluster: str
    since: datetime
    until: datetime


def kafka_messages(
    spark: SparkSession,
    properties: Mapping[str, str],
    topic: str,
    max_messages_per_batch: int | None,
) -> DataFrame:
    """Return the topic as a streaming DataFrame with the column ``value``.

    ``properties`` are those of a Java consumer. Raise SparkError if Spark has no Kafka connector.
    """
    reader = spark.readStream.format("kafka").option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("failOnDataLoss", "true")
    if max_messages_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_messages_per_batch)
    for name, value in properties.items():
        reader = reader.option(f"kafka.{name}", value)
    try:
        return reader.load().select(F.col("value").cast("string").alias("value"))
    except Exception as error:
        if "Failed to find data source: kafka" not in str(error):
            raise
        raise SparkError(
            f"Spark has no Kafka connector: start its server with --packages {KAFKA_CONNECTOR}:"
            f"{spark.version}"
        ) from error


def start_stream(
    messages: DataFrame, options: StreamOptions, *, once: bool, every_seconds: int = 60
) -> StreamingQuery:
    """Start the stream, or continue from its checkpoint, and return the running query.

    With ``once`` it stops at the end of the messages that exist now.
    """

    def process(batch: DataFrame, number: int) -> None:
        closed = process_batch(batch, number, options)
        log.info("batch=%d published=%s", number, _describe(closed) or "none")

    writer = messages.writeStream.foreachBatch(process).option(
        "checkpointLocation", options.path("checkpoint")
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_seconds} seconds").start()


def _describe(closed: list[ClosedHours]) -> str:
    return ",".join(
        f"{each.cluster}[{each.since:%Y-%m-%dT%H:%MZ}..{each.until:%Y-%m-%dT%H:%MZ}]"
        for each in closed
    )


def process_batch(messages: DataFrame, number: int, options: StreamOptions) -> list[ClosedHours]:
    """Process a micro-batch and return the hours that it published. Idempotent."""
    spark = messages.sparkSession
    cached = messages.persist()
    try:
        validated = validate_tables({table: rows_of_messages(cached, table) for table in SNAPSHOTS})
        rejected = reduce(
            DataFrame.unionByName,
            [table.rejected for table in validated.tables.values()],
            unknown_messages(cached),
        )
        _write_batch(rejected, number, options, "rejected_rows")
        for name, table in validated.tables.items():
            date = F.to_date(TIME_COLUMN[name]).alias("date")
            _write_batch(
                table.valid.select("*", date), number, options, f"snapshots/{name}", "date"
            )
        before = _read_progress(spark, number - 1, options)
        after = _write_progress(spark, number, validated.snapshots, before, options)
    finally:
        cached.unpersist()
    closed = closed_hours(
        {name: row["newest"] for name, row in before.items()},
        {name: row["newest"] for name, row in after.items()},
        {name: row["first"] for name, row in after.items()},
        options.delay,
        options.estimation.max_gap,
    )
    if closed:
        publish(spark, closed, options)
    return closed


# Messages to rows.


def rows_of_messages(messages: DataFrame, table: str) -> DataFrame:
    """Return the rows of one snapshot table in ``messages`` (a string column ``value``).

    A column that a row lacks, or has with another type, is null; validation rejects such rows.
    """
    schema = StructType(
        [
            StructField("table", StringType()),
            StructField("rows", ArrayType(SNAPSHOTS[table])),
        ]
    )
    parsed = messages.select(F.from_json("value", schema, {"timeZone": "UTC"}).alias("message"))
    of_table = parsed.filter(F.col("message.table") == table)
    return of_table.select(F.explode("message.rows").alias("row")).select("row.*")


def unknown_messages(messages: DataFrame) -> DataFrame:
    """Return the messages without the name of a snapshot table, as rows of REJECTED_ROWS."""
    named = messages.select("value", F.get_json_object("value", "$.table").alias("table"))
    known = F.coalesce(F.col("table").isin(*SNAPSHOTS), F.lit(False))
    return named.filter(~known).select(
        F.coalesce("table", F.lit("")).alias("table"),
        F.lit("the message has no name of a snapshot table").alias("reason"),
        F.coalesce("value", F.lit("")).alias("row"),
    )


# Watermarks: which hours a batch closes.


def closed_hours(
    before: Mapping[str, datetime],
    after: Mapping[str, datetime],
    first: Mapping[str, datetime],
    delay: timedelta,
    max_gap: timedelta,
) -> list[ClosedHours]:
    """Return the hours that a batch closes, from the newest time of each cluster before and after.

    The watermark of a cluster is its newest time minus ``delay``; an hour that ends at or before it
    is closed. Snapshots of one cluster do not move the watermark of another. Each time, the hours
    before are published again as far as they may still have changed, because an interval of up to
    ``max_gap`` may end after them; never before the cluster's ``first`` time.
    """
    closed = []
    for cluster in sorted(after):
        until = _hour(after[cluster] - delay)
        published = _hour(before[cluster] - delay) if cluster in before else _hour(first[cluster])
        if until > published:
            since = max(_hour(first[cluster]), _hour(published - max_gap))
            closed.append(ClosedHours(cluster, since, until))
    return closed


def late_before(newest: datetime, delay: timedelta, max_gap: timedelta) -> datetime:
    """Return the time before which a snapshot is late: its hours are not published again."""
    return _hour(newest - delay) - max_gap


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


Progress = dict[str, dict[str, Any]]
"""Cluster to its row of the table ``progress``."""

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


def _read_progress(spark: SparkSession, number: int, options: StreamOptions) -> Progress:
    """Return the first and the newest time of each cluster at the end of a batch."""
    if number < 0:
        return {}
    rows = spark.read.schema(_PROGRESS).parquet(f"{options.path('progress')}/batch={number}")
    return _collect_progress(rows.select("cluster", "first", "newest"))


def _collect_progress(rows: DataFrame) -> Progress:
    """Return ``rows`` by cluster, with aware times.

    PySpark returns local times, which are ambiguous when clocks are set back; numbers are not.
    """
    numbers = rows.withColumns({name: F.unix_micros(name) for name in ("first", "newest")})
    return {
        row["cluster"]: row.asDict()
        | {name: _EPOCH + timedelta(microseconds=row[name]) for name in ("first", "newest")}
        for row in numbers.collect()
    }


def _write_progress(
    spark: SparkSession,
    number: int,
    snapshots: Snapshots,
    before: Progress,
    options: StreamOptions,
) -> Progress:
    """Write the progress at the end of a batch, and return it."""
    late = F.when(F.lit(False), 1)
    for cluster, row in before.items():
        limit = late_before(row["newest"], options.delay, options.estimation.max_gap)
        late = late.when((F.col("cluster") == cluster) & (F.col("taken_at") < F.lit(limit)), 1)
    of_batch = _collect_progress(
        snapshots.commits.groupBy("cluster").agg(
            F.min("taken_at").alias("first"),
            F.max("taken_at").alias("newest"),
            F.count(F.lit(1)).alias("rows"),
            F.sum(late.otherwise(0)).alias("late"),
        )
    )
    after: Progress = {}
    for cluster in sorted({*before, *of_batch}):
        rows = [each[cluster] for each in (before, of_batch) if cluster in each]
        new = of_batch.get(cluster, {})
        after[cluster] = {
            "cluster": cluster,
            "first": min(row["first"] for row in rows),
            "newest": max(row["newest"] for row in rows),
            "rows": new.get("rows", 0),
            "late": new.get("late", 0),
        }
    spark.createDataFrame(list(after.values()), _PROGRESS).coalesce(1).write.mode(
        "overwrite"
    ).parquet(f"{options.path('progress')}/batch={number}")
    return after


# Writing.


def publish(spark: SparkSession, closed: list[ClosedHours], options: StreamOptions) -> None:
    """Compute the hours of ``closed`` from the store, and replace them in the output tables."""
    earliest = min(each.since for each in closed) - options.estimation.max_gap - HOUR
    since: dict[str, datetime | None] = {
        "brokers": None,
        "partitions": earliest - LAG_LOOKBACK,
    }
    store = options.path("snapshots")
    tables = {
        table: read_snapshots(spark, store, table, since.get(table, earliest)) for table in RULES
    }
    hours = partition_hours(validate_tables(tables).snapshots, options.estimation)
    to_publish = reduce(
        lambda one, other: one | other,
        (
            (F.col("cluster") == each.cluster)
            & (F.col("hour") >= F.lit(each.since))
            & (F.col("hour") < F.lit(each.until))
            for each in closed
        ),
    )
    rows = hours.filter(to_publish).persist()
    try:
        _replace_hours(rows, options, "partition_hours")
        _replace_hours(hourly(rows, options.prices), options, "hourly")
    finally:
        rows.unpersist()


def _replace_hours(rows: DataFrame, options: StreamOptions, table: str) -> None:
    # The hour as text: Spark's versions and modes write timestamps into folder names differently.
    with_folders = rows.withColumns(
        {"of_hour": F.date_format("hour", "yyyy-MM-dd-HH"), "of_cluster": F.col("cluster")}
    )
    (
        with_folders.repartition(1)
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy("of_hour", "of_cluster")
        .parquet(options.path(table))
    )


def _write_batch(
    rows: DataFrame, number: int, options: StreamOptions, table: str, *folders: str
) -> None:
    """Write rows of a batch; replace those of an earlier attempt at the same batch."""
    (
        rows.withColumn("batch", F.lit(number))
        .coalesce(1)
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .partitionBy(*folders, "batch")
        .parquet(options.path(table))
    )
