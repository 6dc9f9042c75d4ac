"""The streaming job: a topic of snapshots in, the tables of the batch job out, hour by hour.

Each micro-batch is first appended to the store of snapshots. Then the hours that the batch closes
are computed from the store by the transforms of the batch job, and replace the rows of these hours
in the output tables. All tables are Delta tables. Structured Streaming repeats a batch with the
same messages until it is in the checkpoint; Delta Lake skips what a repeated batch has written, and
an hour that is published again gets the same rows. So nothing is lost or counted twice, wherever
the process is killed.

The transforms use windows over rows (the commit before, the leader at that time), which Structured
Streaming does not support between micro-batches. The store takes the place of its state, and the
table ``progress`` that of its watermark: there is one watermark per cluster.

Once per hour of snapshots the small files of the store are joined, and once per day what no later
hour needs is deleted. So the time of a batch and the size of the folder do not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    ArrayType,
    StringType,
    StructField,
    StructType,
)

from rack_traffic import delta
from rack_traffic.errors import SparkError
from rack_traffic.options import EstimationOptions
from rack_traffic.pipeline import Snapshots, partition_hours, priced_hours
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import HOURLY, PARTITION_HOURS, REJECTED_ROWS, SNAPSHOTS
from rack_traffic.session import KAFKA_CONNECTOR, log, minor
from rack_traffic.snapshot_tables import ESTIMATE_TABLES
from rack_traffic.storage import validate_tables
from rack_traffic.watermark import (
    EPOCH,
    LAG_LOOKBACK,
    PROGRESS,
    ClosedHours,
    Progress,
    closed_hours,
    earliest_needed,
    needed_since,
    read_progress,
    with_batch,
    with_published,
)
from rack_traffic.writers import Writers

DAY = timedelta(days=1)

_OUTPUT = {
    "partition_hours": PARTITION_HOURS,
    "hourly": HOURLY,
    "rejected_rows": REJECTED_ROWS,
    "progress": PROGRESS,
}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Output of the stream and its delays.

    ``target`` is a folder of the stream's own. ``delay_minutes`` is how late a snapshot may arrive
    before its hour closes. Later snapshots are included when the next hour closes, unless they are
    older than that by ``estimation.max_gap``; those are counted as late. Published hours are kept
    for ``keep_days``, and replaced files for ``history``.
    """

    target: str
    prices: PriceTable = field(default_factory=PriceTable)
    estimation: EstimationOptions = field(
        default_factory=lambda: EstimationOptions(max_gap_hours=2.0)
    )
    delay_minutes: float = 10.0
    keep_days: int = 400
    history: timedelta = delta.HISTORY
    writers: Writers = field(default_factory=Writers)

    def path(self, table: str) -> str:
        """Return the folder of a table: ``snapshots/<name>``, ``partition_hours``, ``hourly``,
        ``rejected_rows`` or ``progress``; or that of the ``checkpoint``."""
        return f"{self.target.rstrip('/')}/{table}"

    def store(self, table: str) -> str:
        """Return the folder of a table of the store of snapshots."""
        return self.path(f"snapshots/{table}")

    @property
    def delay(self) -> timedelta:
        """``delay_minutes`` as a timedelta."""
        return timedelta(minutes=self.delay_minutes)


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
            "Spark has no Kafka connector: start its server with --packages "
            f"{KAFKA_CONNECTOR[minor(spark.version)]}"
        ) from error


def start_stream(
    messages: DataFrame, options: StreamOptions, *, once: bool, every_seconds: int = 60
) -> StreamingQuery:
    """Start the stream, or continue from its checkpoint, and return the running query.

    With ``once`` it stops at the end of the messages that exist now.
    """

    spark = messages.sparkSession
    create_tables(spark, options)

    def process(batch: DataFrame, number: int) -> None:
        closed = process_batch(batch, number, options, _query_id(batch.sparkSession, options))
        log.info("batch=%d published=%s", number, _describe(closed) or "none")

    writer = messages.writeStream.foreachBatch(process).option(
        "checkpointLocation", options.path("checkpoint")
    )
    if once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_seconds} seconds").start()


def create_tables(spark: SparkSession, options: StreamOptions) -> None:
    """Create the tables of the stream that do not exist. Raise SparkError without Delta Lake."""
    for table in ESTIMATE_TABLES:
        delta.create_table(spark, options.store(table), SNAPSHOTS[table], options.history)
    for table, schema in _OUTPUT.items():
        delta.create_table(spark, options.path(table), schema, options.history)


def _query_id(spark: SparkSession, options: StreamOptions) -> str:
    """Return the id of the query, which is in its checkpoint.

    With a new checkpoint the numbers of batches begin again at 0, and must not be taken for those
    that the tables already have.
    """
    metadata = spark.read.text(f"{options.path('checkpoint')}/metadata")
    row = metadata.select(F.get_json_object("value", "$.id").alias("id")).head()
    assert row is not None
    return str(row["id"])


def _describe(closed: list[ClosedHours]) -> str:
    return ",".join(
        f"{each.cluster}[{each.since:%Y-%m-%dT%H:%MZ}..{each.until:%Y-%m-%dT%H:%MZ}]"
        for each in closed
    )


def process_batch(
    messages: DataFrame, number: int, options: StreamOptions, query: str
) -> list[ClosedHours]:
    """Process a micro-batch of the streaming ``query`` and return the hours that it published.

    Idempotent. The tables must exist.
    """
    spark = messages.sparkSession
    cached = messages.persist()
    try:
        commits = _append_batch(cached, number, options, query)
        progress = with_batch(
            read_progress(delta.read(spark, options.path("progress"))),
            commits,
            options.estimation.max_gap,
        )
    finally:
        cached.unpersist()
    closed = closed_hours(progress, options.delay, options.estimation.max_gap)
    if closed:
        publish(spark, closed, options)
    published = with_published(progress, closed)
    rows = [tuple(asdict(each).values()) for each in published.values()]
    # Written last: a batch that is repeated before this finds the same hours to publish.
    delta.overwrite_once(
        spark.createDataFrame(rows, PROGRESS).withColumn("date", F.to_date("newest")),
        options.path("progress"),
        query,
        number,
    )
    _maintain(spark, progress, published, options)
    return closed


def _append_batch(
    messages: DataFrame, number: int, options: StreamOptions, query: str
) -> DataFrame:
    """Append the rows of ``messages`` to the store, and return the valid rows of commits."""
    spark = messages.sparkSession
    present = {
        row["table"]
        for row in messages.select(F.get_json_object("value", "$.table").alias("table"))
        .distinct()
        .collect()
    }
    given = [table for table in ESTIMATE_TABLES if table in present]
    validated = validate_tables(
        {table: rows_of_messages(messages, table) for table in ESTIMATE_TABLES}
    )
    for table in given:
        rows = validated.tables[table].valid
        dated = rows.withColumn("date", F.to_date("taken_at"))
        delta.append_once(dated, options.store(table), query, number)
    rejected = [validated.tables[table].rejected for table in given]
    if present - set(SNAPSHOTS):
        rejected.append(unknown_messages(messages))
    if rejected:
        rejected_rows = reduce(DataFrame.unionByName, rejected)
        if not rejected_rows.isEmpty():
            dated = rejected_rows.withColumn("date", F.current_date())
            delta.append_once(dated, options.path("rejected_rows"), query, number)
    if "commits" not in present:
        return spark.createDataFrame([], SNAPSHOTS["commits"])
    return validated.snapshots.commits


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


# Writing.


def publish(spark: SparkSession, closed: list[ClosedHours], options: StreamOptions) -> None:
    """Compute the hours of ``closed`` from the store, and replace them in the output tables."""
    earliest = earliest_needed(min(each.since for each in closed), options.estimation.max_gap)
    since = {"brokers": None, "partitions": earliest - LAG_LOOKBACK}
    names = [each.cluster for each in closed]
    tables = {
        table: _stored(spark, table, options, since.get(table, earliest)).filter(
            F.col("cluster").isin(names)
        )
        for table in ESTIMATE_TABLES
    }
    hours = partition_hours(Snapshots(**tables), options.estimation)
    condition = " OR ".join(
        f"(cluster = {delta.text_literal(each.cluster)} "
        f"AND `date` >= {delta.date_literal(each.since.date())} "
        f"AND hour >= {delta.time_literal(each.since)} AND hour < {delta.time_literal(each.until)})"
        for each in closed
    )
    rows = hours.withColumn("date", F.to_date("hour")).filter(condition).persist()
    try:
        delta.replace(rows, options.path("partition_hours"), condition)
        priced = priced_hours(rows, options.prices, options.writers)
        priced = priced.withColumn("date", F.to_date("hour"))
        delta.replace(priced, options.path("hourly"), condition)
    finally:
        rows.unpersist()


def _stored(
    spark: SparkSession, table: str, options: StreamOptions, since: datetime | None
) -> DataFrame:
    rows = delta.read(spark, options.store(table))
    if since is None:
        return rows
    return rows.filter((F.col("date") >= F.lit(since.date())) & (F.col("taken_at") >= F.lit(since)))


# Maintenance.


def _maintain(
    spark: SparkSession, before: Progress, after: Progress, options: StreamOptions
) -> None:
    """Join small files after each hour, and delete what is old after each day."""
    old, new = (
        max((each.published_until or EPOCH for each in progress.values()), default=EPOCH)
        for progress in (before, after)
    )
    if EPOCH in (old, new) or new == old:
        return
    for table in ESTIMATE_TABLES:
        delta.compact(spark, options.store(table), new.date() - DAY)
    if new.date() == old.date():
        return
    log.info("deleting what is older than needed")
    kept_from = needed_since(after, options.estimation.max_gap).date()
    _keep_last_brokers(spark, kept_from, options)
    for table in ESTIMATE_TABLES:
        if table != "brokers":
            delta.delete_before(spark, options.store(table), kept_from)
        delta.remove_old_files(spark, options.store(table))
    for table in _OUTPUT:
        if table != "progress":
            # The days that are published again are left as they are.
            delta.compact(spark, options.path(table), new.date() - 3 * DAY)
            delta.delete_before(spark, options.path(table), new.date() - options.keep_days * DAY)
        delta.remove_old_files(spark, options.path(table))


def _keep_last_brokers(spark: SparkSession, first: date, options: StreamOptions) -> None:
    """Delete the brokers of dates before ``first``, except the last known values of each."""
    path = options.store("brokers")
    condition = f"`date` < {delta.date_literal(first)}"
    by_time = Window.partitionBy("cluster", "broker").orderBy("taken_at")
    later = by_time.rowsBetween(1, Window.unboundedFollowing)
    rack, selector = (
        F.col(name).isNotNull() & F.first(name, True).over(later).isNull()
        for name in ("rack", "replica_selector")
    )
    marked = delta.read(spark, path).filter(condition).withColumn("is_last", rack | selector)
    delta.replace(marked.filter(F.col("is_last")).drop("is_last"), path, condition)
