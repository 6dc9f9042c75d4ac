"""``rackward traffic run``, ``what-if`` and ``stream``: tables of traffic, computed by Spark."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column

from assignors.connection import ConnectionPropertyError
from placement_core import InvalidOptionError
from rack_traffic.consumer_properties import java_consumer_properties
from rack_traffic.options import EstimationOptions, Interval
from rack_traffic.report.format import hours_text
from rack_traffic.report.model import MIN_HOURS_TO_EXTRAPOLATE
from rack_traffic.session import is_small
from rack_traffic.writers import Writers, parse_writers
from rackward.cli import options
from rackward.cli.options import ClusterOptions
from rackward.cli.output import print_json, table, table_console
from rackward.cli.traffic.options import (
    FlowRecordOptions,
    PeriodOptions,
    Source,
    SparkRunOptions,
    Target,
)

RUN_EPILOG = """
\b
Examples:
  rackward traffic run snapshots tables
  rackward traffic run snapshots tables --since 2026-11-21 --prices prices.csv
  rackward traffic run snapshots tables --flows s3a://my-flow-logs

FOLDER receives the Delta tables hourly (bytes and cost per cluster, group, topic, pair of racks
and hour), partition_hours (the same per partition) and rejected_rows (invalid snapshot rows), and
summary. They replace those of an earlier run; with --since or --until, of hourly and
partition_hours only the hours in between. With --flows, hourly has measured
bytes where flow records cover an hour. replaced_hourly has the estimate of these hours, and
flows_hourly what the network counted per address of a client and hour.

Exit status: 0 success; 2 error (reason on stderr).
"""


def run(
    snapshots: Source,
    folder: Target,
    *,
    period: PeriodOptions,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    writers: options.Writers = None,
    max_gap: Annotated[
        float,
        typer.Option(
            metavar="HOURS",
            min=0.01,
            help="Do not estimate bytes for longer gaps between snapshots.",
        ),
    ] = 24.0,
    flows: FlowRecordOptions,
    spark_run: SparkRunOptions,
    as_json: options.Json = False,
) -> None:
    """Compute cross-rack traffic and its cost per hour from snapshots."""
    start, end = period.times()
    price_table = options.price_table(prices, prices_properties)
    estimation = EstimationOptions(max_gap_hours=max_gap)
    producers = parse_writers(writers or ())
    flow_options = flows.parse()
    spark_run.check_snapshots(snapshots)
    if flow_options is not None:
        spark_run.check_exists(flow_options.path)
    small = all(is_small(path) for path in (snapshots, flows.flows) if path is not None)
    with spark_run.session(progress_bars=True, small=small) as spark:
        from rack_traffic.batch import BatchOptions, run_traffic, summary_json

        job = BatchOptions(
            snapshots, folder, start, end, price_table, estimation, producers, flow_options
        )
        summary = run_traffic(spark, job, lambda: datetime.now(UTC))
    if as_json:
        print_json("traffic run", json.loads(summary_json(summary)))
    else:
        _print_summary(summary, producers)


def _print_summary(summary: dict[str, Any], producers: Writers) -> None:
    console = table_console(False)
    for name, counts in summary["input"].items():
        rejected = sum(counts["rejected"].values())
        console.print(f"{name}: {counts['rows']:,} rows, {rejected:,} rejected")
        for reason, count in counts["rejected"].items():
            console.print(f"  {count:,}: {reason}")
    traffic = table(title="Traffic")
    for name in ("kind", "GB", "same rack", "cross-rack", "unknown rack", "estimated", "cost"):
        traffic.add_column(name, justify="left" if name == "kind" else "right")
    for kind, sums in summary["traffic"]["kinds"].items():
        sizes = (sums[name] for name in ("bytes", "local", "crossing", "unknown", "estimated"))
        traffic.add_row(
            kind, *(f"{size / 1e9:,.3f}" for size in sizes), f"{sums['cost'] or 0:,.2f}"
        )
    console.print(traffic)
    if sizes := summary["measured"]:
        texts = (f"{kind} {size / 1e9:,.3f} GB" for kind, size in sizes.items())
        console.print(f"Measured by flow records: {', '.join(texts)}")
    produced = summary["traffic"]["kinds"].get("produce", {})
    whole, known = (produced.get(name) or 0 for name in ("bytes", "measured"))
    if known:
        console.print(f"Racks of producers are measured for {known / whole:.1%} of what they write")
    if known < whole or not whole:
        console.print(producers.description)
    if source := summary["options"]["source_of_prices"]:
        console.print(f"Prices: {source}")
    unsized = sum(sums["unsized_offsets"] or 0 for sums in summary["traffic"]["kinds"].values())
    if unsized:
        console.print(
            f"{unsized:,} offsets are not included in the bytes: the size of their log on disk is "
            "unknown, or the gap between snapshots is longer than --max-gap"
        )


# ---- The cost of other assignments, and a ranking of the changes.

WHAT_IF_EPILOG = """
\b
Example:
  rackward traffic what-if snapshots tables

FOLDER contains the tables of `rackward traffic run`; the tables what_if and ranking are added.

Exit status: 0 success; 2 error (reason on stderr).
"""
_MAX_GROUPS = 20


def what_if(
    snapshots: Source,
    folder: Target,
    *,
    interval: Annotated[
        Interval, typer.Option(help="Compare per hour, per day (UTC), or over all hours.")
    ] = Interval.ALL,
    period: PeriodOptions,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    spark_run: SparkRunOptions,
    as_json: options.Json = False,
) -> None:
    """Compute the cost of other assignments, and rank groups by the saving per month.

    Scenarios: the current assignment, Apache Kafka's range and cooperative-sticky assignors,
    rackward's assignors, a leader layout with rackward's cooperative-sticky assignor, and follower
    fetching.
    """
    start, end = period.times()
    price_table = options.price_table(prices, prices_properties)
    spark_run.check_snapshots(snapshots)
    small = is_small(snapshots)
    with spark_run.session(progress_bars=True, small=small) as spark:
        from rack_traffic.batch import BatchOptions, run_what_if

        job = BatchOptions(snapshots, folder, start, end, price_table)
        rows = [row.asDict() for row in run_what_if(spark, job, interval).collect()]
    if as_json:
        times = ("interval_start", "interval_end")
        ranking = [row | {name: row[name].isoformat() for name in times} for row in rows]
        print_json("traffic what-if", {"ranking": ranking})
    else:
        _print_ranking(rows)


def _print_ranking(rows: list[dict[str, Any]]) -> None:
    figures = ("now", "after", "saving", "local now", "local after", "unknown")
    ranking = table(
        Column("cluster"),
        Column("group"),
        *(Column(name, justify="right") for name in figures),
        Column("change"),
        title="Cost per month",
    )
    for row in rows[:_MAX_GROUPS]:
        costs = (row["cost_per_month_now"], row["cost_per_month_after"], row["saving_per_month"])
        localities = (row["locality_now"], row["locality_after"], row["unknown_now"])
        ranking.add_row(
            row["cluster"],
            row["group"],
            *(f"{cost:,.2f}" for cost in costs),
            *("unknown" if share is None else f"{share:.0%}" for share in localities),
            row["change"],
        )
    console = table_console(False)
    console.print(ranking)
    hours = min((row["hours"] for row in rows), default=MIN_HOURS_TO_EXTRAPOLATE)
    if hours < MIN_HOURS_TO_EXTRAPOLATE:
        console.print(
            f"Rough: the costs per month are extrapolated from {hours_text(hours)} of snapshots; "
            "collect for a day or longer"
        )
    if len(rows) > _MAX_GROUPS:
        console.print(f"{len(rows) - _MAX_GROUPS:,} more groups are in the table ranking")


# ---- The tables, kept up to date from a topic of snapshots.

STREAM_EPILOG = """
\b
Example:
  rackward traffic stream rackward-snapshots tables

FOLDER belongs to one stream. It receives the Delta tables hourly, partition_hours, rejected_rows
and progress, and the stream's own folders snapshots/ and checkpoint/. After a restart the stream
continues where it stopped, without loss or duplicates.

With --flows it also reads the files that arrive in that folder, for the tables flows_hourly and
replaced_hourly, and hourly has measured bytes where flow records cover an hour. Hours are computed
again for records that arrive up to a day late.

Exit status: 0 success (--once); 2 error (reason on stderr); 130 after Ctrl-C.
"""


def stream(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the snapshots.")],
    folder: Target,
    *,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at the current end of the topic.")
    ] = False,
    every: Annotated[
        int, typer.Option(metavar="SECONDS", min=1, help="Time between batches.")
    ] = 60,
    delay: Annotated[
        float,
        typer.Option(
            metavar="MINUTES", min=0.0, help="Wait this long for late snapshots of an hour."
        ),
    ] = 10.0,
    max_gap: Annotated[
        float,
        typer.Option(
            metavar="HOURS",
            min=0.01,
            help="Do not estimate bytes for longer gaps between snapshots, and do not change hours "
            "that are older than this.",
        ),
    ] = 2.0,
    max_messages_per_batch: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", min=1, help="Size of a batch, in messages and in files of --flows."
        ),
    ] = None,
    keep_days: Annotated[
        int,
        typer.Option(
            metavar="DAYS",
            min=1,
            help="Delete published hours and rejected rows that are older than this.",
        ),
    ] = 400,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    writers: options.Writers = None,
    flows: FlowRecordOptions,
    spark_run: SparkRunOptions,
) -> None:
    """Keep the tables of traffic up to date from a topic of snapshots."""
    properties = _consumer_properties(bootstrap_server, command_config)
    price_table = options.price_table(prices, prices_properties)
    estimation = EstimationOptions(max_gap_hours=max_gap)
    producers = parse_writers(writers or ())
    flow_options = flows.parse()
    with spark_run.session(kafka=True) as spark:
        from rack_traffic.stream import StreamOptions, flow_files, kafka_messages, start_stream

        messages = kafka_messages(spark, properties, topic, max_messages_per_batch)
        files = None
        if flow_options is not None:
            files = flow_files(spark, flow_options.path, max_messages_per_batch)
        job = StreamOptions(
            folder,
            price_table,
            estimation,
            timedelta(minutes=delay),
            keep_days,
            writers=producers,
            flows=flow_options,
        )
        query = start_stream(messages, job, files, once=once, every_seconds=every)
        sys.stderr.write(f"Reading topic {topic}; writing tables to {folder}\n")
        query.awaitTermination()


def _consumer_properties(server: str | None, config: Path | None) -> dict[str, str]:
    """Return the properties of Spark's consumer. Raise InvalidOptionError."""
    try:
        given = ClusterOptions(server, config).properties()
        if server is not None:
            # The option overrides both names of the property.
            given.pop("metadata.broker.list", None)
        properties = java_consumer_properties(given)
    except ConnectionPropertyError as error:
        raise InvalidOptionError(f"--command-config {config}: {error}") from error
    if not properties.get("bootstrap.servers"):
        raise InvalidOptionError("no bootstrap broker: give --bootstrap-server HOST:PORT")
    return properties
