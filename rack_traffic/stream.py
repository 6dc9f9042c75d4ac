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

With flow records, their files are a second source of the query. The records are appended to the
store as well, and the hours that a batch closes, or that late records belong to, are computed from
the store by the transforms of the batch job.

Once per hour of snapshots the small files of the store are joined, and once per day what no later
hour needs is deleted. So the time of a batch and the size of the folder do not grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import ArrayType, StructType

from rack_traffic import delta
from rack_traffic.errors import InputError, SparkError
from rack_traffic.flow_formats import RECORD, read_flows
from rack_traffic.options import EstimationOptions, FlowFormatName, FlowOptions
from rack_traffic.pipeline import (
    FlowInput,
    Snapshots,
    partition_hours,
    priced_hours,
    write_measured,
)
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import OUTPUT, REJECTED_ROWS, SNAPSHOTS
from rack_traffic.session import KAFKA_CONNECTOR, log, minor, summarize_error
from rack_traffic.storage import validate_tables
from rack_traffic.tables import ESTIMATE_TABLES, SNAPSHOT_TABLES
from rack_traffic.transforms.hours import hour_numbers, whole_part
from rack_traffic.validation import ValidatedTable
from rack_traffic.watermark import (
    EPOCH,
    HOUR,
    LAG_LOOKBACK,
    PROGRESS,
    ClosedHours,
    Progress,
    closed_hours,
    earliest_needed,
    late_hours,
    needed_since,
    read_progress,
    with_batch,
    with_published,
)
from rack_traffic.writers import Writers

DAY = timedelta(days=1)

MAX_FLOW_FILES = 1000
"""Files of flow records in a batch."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Output of the stream and its delays.

    ``target`` is a folder of the stream's own. ``delay`` is how late a snapshot may arrive before
    its hour closes. Later snapshots are included when the next hour closes, unless they are
    older than that by ``estimation.max_gap``; those are counted as late. Published hours are kept
    for ``keep_days``, and replaced files for ``history``.
    """

    target: str
    prices: PriceTable = field(default_factory=PriceTable)
    estimation: EstimationOptions = field(
        default_factory=lambda: EstimationOptions(max_gap_hours=2.0)
    )
    delay: timedelta = timedelta(minutes=10)
    keep_days: int = 400
    history: timedelta = delta.HISTORY
    writers: Writers = field(default_factory=Writers)
    flows: FlowOptions | None = None

    def path(self, table: str) -> str:
        """Return the folder of a table: ``snapshots/<name>``, ``progress`` or the name of an output
        table; or that of the ``checkpoint``."""
        return f"{self.target.rstrip('/')}/{table}"

    def store(self, table: str) -> str:
        """Return the folder of a table of the store of snapshots."""
        return self.path(f"snapshots/{table}")

    @property
    def stored(self) -> Mapping[str, StructType]:
        """The tables of the store, and their columns."""
        if self.flows is None:
            return {table: SNAPSHOTS[table] for table in ESTIMATE_TABLES}
        return {table: SNAPSHOTS[table] for table in SNAPSHOT_TABLES} | {"flows": RECORD}

    @property
    def output(self) -> Mapping[str, StructType]:
        """The output tables, and their columns."""
        of_flows = () if self.flows is None else ("flows_hourly", "replaced_hourly")
        names = ("partition_hours", "hourly", "rejected_rows", *of_flows)
        return {table: OUTPUT[table] for table in names} | {"progress": PROGRESS}


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


def flow_files(spark: SparkSession, path: str, max_files_per_batch: int | None) -> DataFrame:
    """Return the files below a folder as a streaming DataFrame with the column ``file``."""
    reader = spark.readStream.format("binaryFile").option("recursiveFileLookup", "true")
    reader = reader.option("maxFilesPerTrigger", max_files_per_batch or MAX_FLOW_FILES)
    columns = "path string, modificationTime timestamp, length bigint, content binary"
    return reader.schema(columns).load(path).select(F.col("path").alias("file"))


def start_stream(
    messages: DataFrame,
    options: StreamOptions,
    files: DataFrame | None = None,
    *,
    once: bool,
    every_seconds: int = 60,
) -> StreamingQuery:
    """Start the stream, or continue from its checkpoint, and return the running query.

    ``files`` is the result of `flow_files`, if ``options`` have flows. With ``once`` it stops at
    the end of the messages and files that exist now. Raise InputError if the stream was started
    with flows and goes on without, or the other way round: a checkpoint has the same sources.
    """

    spark = messages.sparkSession
    refuse_other_sources(spark, options)
    create_tables(spark, options)
    if files is not None:
        none = F.lit(None).cast("string")
        messages = messages.select("value", none.alias("file")).unionByName(
            files.select(none.alias("value"), "file")
        )

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
    for table, schema in options.stored.items():
        delta.create_table(spark, options.store(table), schema, options.history)
    for table, schema in options.output.items():
        delta.create_table(spark, options.path(table), schema, options.history)


def refuse_other_sources(spark: SparkSession, options: StreamOptions) -> None:
    """Raise InputError if the stream was started with other sources than ``options`` have."""
    if not delta.is_delta_table(spark, options.path("progress")):
        return
    had_flows = delta.is_delta_table(spark, options.store("flows"))
    if had_flows != (options.flows is not None):
        raise InputError(
            f"the stream in {options.target} was started {'with' if had_flows else 'without'} "
            "--flows, and can only be continued so: give another folder"
        )


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
    batch: DataFrame, number: int, options: StreamOptions, query: str
) -> list[ClosedHours]:
    """Process a micro-batch of the streaming ``query`` and return the hours that it published.

    ``batch`` has the column ``value`` of messages and, with flows, ``file``. Idempotent. The tables
    must exist.
    """
    spark = batch.sparkSession
    cached = batch.persist()
    try:
        messages, touched = cached, frozenset[datetime]()
        if options.flows is not None:
            messages = cached.filter(F.col("file").isNull())
            files = sorted(row["file"] for row in cached.select("file").dropna().collect())
            if files:
                touched = _append_flows(spark, files, number, options, query)
        commits = _append_batch(messages, number, options, query)
        progress = with_batch(
            read_progress(delta.read(spark, options.path("progress"))),
            commits,
            options.estimation.max_gap,
        )
    finally:
        cached.unpersist()
    closed = closed_hours(progress, options.delay, options.estimation.max_gap)
    late = late_hours(progress, closed, touched)
    if closed or late:
        publish(spark, closed, options, late)
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
    tables = [table for table in options.stored if table in SNAPSHOTS]
    given = [table for table in tables if table in present]
    validated = validate_tables({table: rows_of_messages(messages, table) for table in tables})
    for table in given:
        dated = validated[table].valid.withColumn("date", F.to_date("taken_at"))
        delta.append_once(dated, options.store(table), query, number)
    rejected = [validated[table].rejected for table in given]
    if present - set(SNAPSHOTS):
        rejected.append(unknown_messages(messages))
    _append_rejected(rejected, number, options, query)
    if "commits" not in present:
        return spark.createDataFrame([], SNAPSHOTS["commits"])
    return validated["commits"].valid


def _append_rejected(
    rejected: list[DataFrame], number: int, options: StreamOptions, writer: str
) -> None:
    if rejected and not (rows := reduce(DataFrame.unionByName, rejected)).isEmpty():
        dated = rows.withColumn("date", F.current_date())
        delta.append_once(dated, options.path("rejected_rows"), writer, number)


def _append_flows(
    spark: SparkSession, files: list[str], number: int, options: StreamOptions, query: str
) -> frozenset[datetime]:
    """Append the flow records of ``files`` to the store, and return the hours that they are in."""
    assert options.flows is not None
    read, unreadable = _read_files(spark, files, options.flows.format)
    rejected = [table.rejected for table, _ in read]
    if unreadable:
        rows = [("flows", reason, file) for file, reason in unreadable.items()]
        rejected.append(spark.createDataFrame(rows, REJECTED_ROWS))
    # Rejected messages of the batch are another write to this table.
    _append_rejected(rejected, number, options, f"{query} flows")
    if read:
        valid = reduce(DataFrame.unionByName, (table.valid for table, _ in read))
        dated = valid.withColumn("date", F.to_date(F.timestamp_micros("start")))
        delta.append_once(dated, options.store("flows"), query, number)
    return frozenset().union(*(hours for _, hours in read))


def _read_files(
    spark: SparkSession, files: list[str], form: FlowFormatName | None
) -> tuple[list[tuple[ValidatedTable, frozenset[datetime]]], dict[str, str]]:
    """Return the records of files that can be read together, with the hours that they are in, and
    the files of no known format, each with the reason.

    Structured Streaming would repeat a batch with such a file for ever.
    """
    try:
        table = read_flows(spark, files, form)
        # This reads all files: only then Spark finds out that one has another header.
        return [(table, _hours(table.valid))], {}
    except Exception as error:
        # The JVM's errors in a job are of no class of Spark's.
        if not isinstance(error, InputError) and "CSVHeaderChecker" not in str(error):
            raise
        if len(files) == 1:
            return [], {files[0]: summarize_error(str(error))}
    half = len(files) // 2
    one, other = (_read_files(spark, part, form) for part in (files[:half], files[half:]))
    return one[0] + other[0], one[1] | other[1]


def _hours(records: DataFrame) -> frozenset[datetime]:
    until = F.greatest(F.col("end"), F.col("start") + F.lit(1))
    numbers = hour_numbers(F.col("start"), until)
    rows = records.select(F.explode(numbers).alias("hour")).distinct().collect()
    return frozenset(EPOCH + row["hour"] * HOUR for row in rows)


# Messages to rows.


def rows_of_messages(messages: DataFrame, table: str) -> DataFrame:
    """Return the rows of one snapshot table in ``messages`` (a string column ``value``).

    A column that a row lacks, or has with another type, is null; validation rejects such rows.
    """
    schema = StructType().add("table", "string").add("rows", ArrayType(SNAPSHOTS[table]))
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


def publish(
    spark: SparkSession,
    closed: list[ClosedHours],
    options: StreamOptions,
    late: Sequence[ClosedHours] = (),
) -> None:
    """Compute the hours of ``closed`` from the store, and replace them in the output tables.

    Of the hours of ``late``, only what flow records measure is computed again.
    """
    if closed:
        _publish_estimate(spark, closed, options)
    if options.flows is not None:
        _publish_measured(spark, [*closed, *late], options.flows, options)


def _publish_estimate(
    spark: SparkSession, closed: list[ClosedHours], options: StreamOptions
) -> None:
    earliest = earliest_needed(min(each.since for each in closed), options.estimation.max_gap)
    since = {"brokers": None, "partitions": earliest - LAG_LOOKBACK}
    tables = {
        table: _stored(spark, table, options, since.get(table, earliest), closed)
        for table in ESTIMATE_TABLES
    }
    hours = partition_hours(Snapshots(**tables), options.estimation)
    condition = _condition(closed)
    rows = hours.withColumn("date", F.to_date("hour")).filter(condition).persist()
    try:
        delta.replace(rows, options.path("partition_hours"), condition)
        if options.flows is None:
            priced = priced_hours(rows, options.prices, options.writers)
            priced = priced.withColumn("date", F.to_date("hour"))
            delta.replace(priced, options.path("hourly"), condition)
    finally:
        rows.unpersist()


def _publish_measured(
    spark: SparkSession, hours: list[ClosedHours], flows: FlowOptions, options: StreamOptions
) -> None:
    condition = _condition(hours)

    def replace(rows: DataFrame, table: str) -> DataFrame:
        dated = rows.withColumn("date", F.to_date("hour")).filter(condition)
        delta.replace(dated, options.path(table), condition)
        return delta.read(spark, options.path(table)).filter(condition).drop("date")

    records = _stored_flows(spark, hours, options)
    middle = F.col("start") + whole_part(F.col("end") - F.col("start"), 2)
    row = records.agg(F.min(middle).alias("first")).head()
    assert row is not None
    first = min(each.since for each in hours)
    if row["first"] is not None:
        first = min(first, EPOCH + timedelta(microseconds=row["first"]))
    # Whether a client is a member then depends on the snapshot of the group before.
    since = earliest_needed(first, options.estimation.max_gap)
    given = FlowInput(
        records,
        # Of all clusters: a record is of one.
        listeners=delta.read(spark, options.store("listeners")),
        brokers=_stored(spark, "brokers", options, None, hours),
        members=_stored(spark, "members", options, since, hours),
        options=flows,
    )
    written = delta.read(spark, options.path("partition_hours")).filter(condition)
    estimated = priced_hours(written.drop("date"), options.prices, options.writers)
    write_measured(given, estimated, options.prices, replace)


def _condition(hours: list[ClosedHours]) -> str:
    """Return the condition of SQL for the rows of ``hours`` in tables of hours."""
    return " OR ".join(
        f"(cluster = {delta.text_literal(each.cluster)} "
        f"AND `date` >= {delta.date_literal(each.since.date())} "
        f"AND hour >= {delta.time_literal(each.since)} AND hour < {delta.time_literal(each.until)})"
        for each in hours
    )


def _stored_flows(
    spark: SparkSession, hours: list[ClosedHours], options: StreamOptions
) -> DataFrame:
    """Return the stored flow records of which a part is in one of ``hours``."""
    # Their windows are at most a day.
    conditions = {
        f"(`date` >= {delta.date_literal((each.since - DAY).date())} "
        f"AND start < {_micros(each.until)} "
        f"AND greatest(`end`, start + 1) > {_micros(each.since)})"
        for each in hours
    }
    records = delta.read(spark, options.store("flows")).filter(" OR ".join(sorted(conditions)))
    return records.select(*RECORD.names)


def _micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def _stored(
    spark: SparkSession,
    table: str,
    options: StreamOptions,
    since: datetime | None,
    hours: list[ClosedHours],
) -> DataFrame:
    """Return the stored snapshots, taken from ``since`` on, of the clusters of ``hours``."""
    rows = delta.read(spark, options.store(table))
    rows = rows.filter(F.col("cluster").isin(sorted({each.cluster for each in hours})))
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
    for table in options.stored:
        delta.compact(spark, options.store(table), new.date() - DAY)
    if new.date() == old.date():
        return
    log.info("deleting what is older than needed")
    kept_from = needed_since(after, options.estimation.max_gap)
    if options.flows is not None:
        # Of FLOW_LATENESS; `needed_since` has LAG_LOOKBACK, which is as long as a window may be.
        kept_from -= DAY
    _keep_last_brokers(spark, kept_from.date(), options)
    if options.flows is not None:
        _keep_last_listeners(spark, kept_from.date(), options)
    for table in options.stored:
        if table not in ("brokers", "listeners"):
            delta.delete_before(spark, options.store(table), kept_from.date())
        delta.remove_old_files(spark, options.store(table))
    for table in options.output:
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


def _keep_last_listeners(spark: SparkSession, first: date, options: StreamOptions) -> None:
    """Delete the listeners of dates before ``first``, except the last of each address and port."""
    path = options.store("listeners")
    condition = f"`date` < {delta.date_literal(first)}"
    latest = ("taken_at", "cluster", "broker")
    by_time = Window.partitionBy("address", "port").orderBy(*map(F.desc, latest))
    known = delta.read(spark, path).filter(condition).filter(F.col("address").isNotNull())
    kept = known.withColumn("number", F.row_number().over(by_time)).filter("number = 1")
    delta.replace(kept.drop("number"), path, condition)
