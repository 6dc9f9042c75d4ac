"""The batch jobs: ``run_traffic`` makes the tables of traffic, ``run_what_if`` the what-if."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from rack_traffic import delta
from rack_traffic.errors import InputError
from rack_traffic.flow_formats import read_flows
from rack_traffic.options import EstimationOptions, FlowOptions, Interval
from rack_traffic.pipeline import FlowInput, partition_hours, priced_hours, write_measured
from rack_traffic.prices import PriceTable
from rack_traffic.schemas import HOURLY, OUTPUT, PARTITION_HOURS, RANKING, WHAT_IF
from rack_traffic.session import log
from rack_traffic.storage import read_snapshots, read_table, valid_snapshots, validate_tables
from rack_traffic.tables import ESTIMATE_TABLES, SNAPSHOT_TABLES
from rack_traffic.validation import ValidatedTable, count_rows
from rack_traffic.what_if.evaluate import producers_what_if, what_if
from rack_traffic.what_if.inputs import group_inputs
from rack_traffic.what_if.ranking import ranking
from rack_traffic.writers import Writers

Clock = Callable[[], datetime]
"""Returns the current time, aware."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Input and output of a batch job.

    ``source`` is the folder of the snapshots and ``target`` the folder of the tables (paths or
    URLs). Only the hours in [since, until) are computed and replaced; None is no limit. ``flows``
    take the place of the estimate where they cover an hour; None: there are none.
    """

    source: str
    target: str
    since: datetime | None = None
    until: datetime | None = None
    prices: PriceTable = field(default_factory=PriceTable)
    estimation: EstimationOptions = field(default_factory=EstimationOptions)
    writers: Writers = field(default_factory=Writers)
    flows: FlowOptions | None = None

    def path(self, table: str) -> str:
        """Return the folder of an output table."""
        return f"{self.target.rstrip('/')}/{table}"

    def as_dict(self) -> dict[str, Any]:
        """Return the options as they are in a summary."""
        return {
            "source": self.source,
            "target": self.target,
            "since": self.since,
            "until": self.until,
            "prices": [asdict(rule) for rule in self.prices.rules],
            "source_of_prices": self.prices.source,
            "writers": self.writers.shares,
            "estimation": asdict(self.estimation),
            "flows": None if self.flows is None else self.flows.path,
        }


def run_traffic(spark: SparkSession, options: BatchOptions, clock: Clock) -> dict[str, Any]:
    """Write the tables ``partition_hours``, ``hourly``, ``rejected_rows`` and ``summary`` into the
    target folder, with flows also ``flows_hourly`` and ``replaced_hourly``, and return the summary.

    They replace those of an earlier run; of tables of hours, the hours in [since, until) only.
    Raise InputError.
    """
    refuse_stream_tables(spark, options)
    began = clock()
    names = ESTIMATE_TABLES if options.flows is None else SNAPSHOT_TABLES
    tables = _read_valid(spark, options, names)
    snapshots = valid_snapshots(tables)
    if options.flows is not None:
        tables["flows"] = read_flows(spark, options.flows.path, options.flows.format)
    log.info("counting input rows")
    counts = count_rows(tables.values())
    rejected = [tables[name].rejected for name, count in counts.items() if count.rejected]
    # An empty table is written too: it replaces the rejected rows of an earlier run.
    rejected_rows = reduce(DataFrame.unionByName, rejected or [tables["brokers"].rejected.limit(0)])
    _write(rejected_rows, F.current_date(), options, "rejected_rows", None)
    log.info("computing bytes per partition and hour")
    period = _period_condition(options)
    hours = _filtered(partition_hours(snapshots, options.estimation), period)
    _write(hours, F.to_date("hour"), options, "partition_hours", period)
    log.info("computing bytes and cost per pair of racks and hour")
    # Read back, so that Spark does not compute the hours a second time.
    written = read_table(spark, options.path("partition_hours"), PARTITION_HOURS)
    priced = priced_hours(_filtered(written, period), options.prices, options.writers)
    measured = {}
    if options.flows is not None:
        log.info("computing bytes of flows")
        valid = {name: tables[name].valid for name in ("listeners", "brokers", "members")}
        given = FlowInput(tables["flows"].valid, **valid, options=options.flows)
        measured = _write_measured(spark, options, given, priced)
    else:
        _write(priced, F.to_date("hour"), options, "hourly", period)
        if delta.is_delta_table(spark, options.path("replaced_hourly")):
            # Of an earlier run with flows: nothing is replaced any more.
            _write(priced.limit(0), F.to_date("hour"), options, "replaced_hourly", period)
    hourly = read_table(spark, options.path("hourly"), HOURLY)
    summary = {
        "began": began,
        "ended": clock(),
        "options": options.as_dict(),
        "input": {table: asdict(each) for table, each in counts.items()},
        "traffic": traffic_totals(_filtered(hourly, period)),
        "measured": measured,
    }
    line = spark.range(0, 1, 1, 1).select(F.lit(summary_json(summary)).alias("value"))
    line.write.mode("overwrite").text(options.path("summary"))
    return summary


def _write_measured(
    spark: SparkSession, options: BatchOptions, given: FlowInput, estimated: DataFrame
) -> dict[str, int]:
    """Write the tables of measured hours, and return kind to bytes of ``flows_hourly``.

    ``estimated`` is the table HOURLY without measurements.
    """
    period = _period_condition(options)

    def replace(rows: DataFrame, table: str) -> DataFrame:
        _write(_filtered(rows, period), F.to_date("hour"), options, table, period)
        return _filtered(read_table(spark, options.path(table), OUTPUT[table]), period)

    written = write_measured(given, estimated, options.prices, replace)
    sums = written.groupBy("kind").agg(F.sum("bytes").alias("bytes")).orderBy("kind")
    return {row["kind"]: row["bytes"] for row in sums.collect()}


def refuse_stream_tables(spark: SparkSession, options: BatchOptions) -> None:
    """Raise InputError if a stream writes to the target folder: its hours would be replaced."""
    if delta.is_delta_table(spark, options.path("progress")):
        raise InputError(
            f"{options.target} holds the tables of rackward traffic stream, which this job would "
            "replace: give another folder"
        )


def run_what_if(spark: SparkSession, options: BatchOptions, interval: Interval) -> DataFrame:
    """Write the tables ``what_if`` and ``ranking`` into the target folder; return the ranking.

    The input is the tables ``partition_hours`` and ``hourly`` there, and the snapshots. Raise
    InputError.
    """
    snapshots = valid_snapshots(_read_valid(spark, options, ESTIMATE_TABLES))
    hours = read_table(spark, options.path("partition_hours"), PARTITION_HOURS)
    period = _period_condition(options)
    hours = _filtered(hours, period)
    inputs = group_inputs(snapshots, hours, interval, options.estimation.max_gap)
    inputs = inputs.persist()
    try:
        log.info("computing the cost of each group under each scenario")
        rows = what_if(inputs, options.prices).unionByName(
            producers_what_if(
                _filtered(read_table(spark, options.path("hourly"), HOURLY), period),
                hours,
                snapshots.brokers,
                options.prices,
                interval,
                options.estimation.max_gap,
            )
        )
        _write(rows, F.to_date("interval_start"), options, "what_if", None)
    finally:
        inputs.unpersist()
    log.info("ranking groups by saving per month")
    ranked = ranking(read_table(spark, options.path("what_if"), WHAT_IF))
    _write(ranked, F.to_date("interval_start"), options, "ranking", None)
    return read_table(spark, options.path("ranking"), RANKING).orderBy("rank")


def _write(
    rows: DataFrame, date: Column, options: BatchOptions, table: str, condition: str | None
) -> None:
    """Replace the rows of an output table for which the SQL ``condition`` holds (None: all)."""
    spark, path = rows.sparkSession, options.path(table)
    delta.create_table(spark, path, OUTPUT[table], delta.HISTORY)
    delta.replace(rows.withColumn("date", date), path, condition)
    delta.remove_old_files(spark, path)


def _period_condition(options: BatchOptions) -> str | None:
    """Return the condition of SQL for the hours of the job; None for all.

    Statistics of the files show which of them have such hours.
    """
    limits = []
    if options.since is not None:
        limits.append(f"hour >= {delta.time_literal(options.since)}")
    if options.until is not None:
        limits.append(f"hour < {delta.time_literal(options.until)}")
    return " AND ".join(limits) or None


def _filtered(rows: DataFrame, condition: str | None) -> DataFrame:
    return rows if condition is None else rows.filter(condition)


def traffic_totals(hourly: DataFrame) -> dict[str, Any]:
    """Return totals of the table HOURLY: its rows, first and last hour, and sums per kind.

    Per kind, ``local``, ``crossing`` and ``unknown`` bytes add up to ``bytes``, of which flow
    records tell the ``measured`` ones.
    """
    level = F.col("crossed_level")
    rows = (
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
            F.sum(F.when(F.col("source") == "measured", F.col("bytes")).otherwise(0)).alias(
                "measured"
            ),
            F.sum("unsized_offsets").alias("unsized_offsets"),
            F.sum("cost").alias("cost"),
        )
        .orderBy("kind")
        .collect()
    )
    kinds = [row.asDict() for row in rows]
    return {
        "rows": sum(each.pop("rows") for each in kinds),
        "first_hour": min((each.pop("first_hour") for each in kinds), default=None),
        "last_hour": max((each.pop("last_hour") for each in kinds), default=None),
        "kinds": {each.pop("kind"): each for each in kinds},
    }


def summary_json(summary: Mapping[str, Any]) -> str:
    """Return a summary as one line of JSON; times are ISO 8601."""
    return json.dumps(summary, default=datetime.isoformat)


def _read_valid(
    spark: SparkSession, options: BatchOptions, names: Iterable[str]
) -> dict[str, ValidatedTable]:
    """Return the snapshots on which the hours of the job may depend. Raise InputError."""
    gap = options.estimation.max_gap
    since = None if options.since is None else options.since - gap
    until = None if options.until is None else options.until + gap
    return validate_tables(
        {name: read_snapshots(spark, options.source, name, since, until) for name in names}
    )
