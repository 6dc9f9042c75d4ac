"""The batch job: snapshots in, the tables of traffic and the what-if out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rack_traffic.options import Beliefs
from rack_traffic.pipeline import partition_hours
from rack_traffic.prices import PriceTable
from rack_traffic.session import log
from rack_traffic.storage import checked_input, read_table
from rack_traffic.transforms.hourly import hourly
from rack_traffic.validation import Counts
from rack_traffic.what_if.evaluate import what_if
from rack_traffic.what_if.inputs import Interval, group_inputs
from rack_traffic.what_if.ranking import ranking

# ---- What a run did, for people and for the next program.


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


Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Where snapshots are and tables go (``source`` and ``target``: paths or URLs of folders), and
    for which hours [since, until) (None: all that there is)."""

    source: str
    target: str
    since: datetime | None = None
    until: datetime | None = None
    prices: PriceTable = field(default_factory=PriceTable)
    beliefs: Beliefs = field(default_factory=Beliefs)

    def told(self) -> dict[str, Any]:
        """The options in a summary."""
        return {
            "source": self.source,
            "target": self.target,
            "since": self.since,
            "until": self.until,
            "prices": [asdict(rule) for rule in self.prices.rules],
            "beliefs": asdict(self.beliefs),
        }

    def path(self, table: str) -> str:
        """Where a table goes."""
        return f"{self.target.rstrip('/')}/{table}"


def run_traffic(spark: SparkSession, options: BatchOptions, clock: Clock) -> dict[str, Any]:
    """Write the tables ``partition_hours``, ``hourly``, ``set_aside`` and ``summary`` into
    ``target``, in the place of those of an earlier run; the summary comes back.

    Raises InputError.
    """
    began = clock()
    given = checked_input(spark, options.source, *_around(options))
    log.info("counting the rows of snapshots, and those that break their contract")
    counts = given.counts()
    # Also where there is nothing: an earlier run may have written what was wrong then.
    given.aside(spark, counts).write.mode("overwrite").parquet(options.path("set_aside"))
    log.info("working out bytes per group, partition and hour")
    hours = _in_question(partition_hours(given.snapshots, options.beliefs), options)
    hours.write.mode("overwrite").parquet(options.path("partition_hours"))
    log.info("adding them up by hour and pair of racks, at their prices")
    # From what was written: the long way from the commits is gone once.
    written = read_table(spark, options.path("partition_hours"))
    hourly(written, options.prices).write.mode("overwrite").parquet(options.path("hourly"))
    totals = traffic_totals(read_table(spark, options.path("hourly")))
    told = summary(began, clock(), options.told(), counts, totals)
    write_summary(spark, told, options.path("summary"))
    return told


def run_what_if(spark: SparkSession, options: BatchOptions, interval: Interval) -> DataFrame:
    """Write ``what_if`` and ``ranking`` into ``target``, from the ``partition_hours`` there and the
    snapshots in ``source``; the ranking comes back. Raises InputError."""
    given = checked_input(spark, options.source, *_around(options))
    hours = _in_question(read_table(spark, options.path("partition_hours")), options)
    inputs = group_inputs(given.snapshots, hours, interval)
    log.info("working out what each group would cost with other assignments")
    what_if(inputs, options.prices).write.mode("overwrite").parquet(options.path("what_if"))
    log.info("ranking groups by what a change would save")
    ranked = ranking(read_table(spark, options.path("what_if")))
    ranked.coalesce(1).write.mode("overwrite").parquet(options.path("ranking"))
    return read_table(spark, options.path("ranking")).orderBy("rank")


def _around(options: BatchOptions) -> tuple[datetime | None, datetime | None]:
    """The snapshots that the hours in question may depend on."""
    gap = timedelta(hours=options.beliefs.longest_gap_hours)
    return (
        None if options.since is None else options.since - gap,
        None if options.until is None else options.until + gap,
    )


def _in_question(hours: DataFrame, options: BatchOptions) -> DataFrame:
    if options.since is not None:
        hours = hours.filter(F.col("hour") >= F.lit(options.since))
    if options.until is not None:
        hours = hours.filter(F.col("hour") < F.lit(options.until))
    return hours
