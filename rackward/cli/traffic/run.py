"""``rackward traffic run``: the tables of traffic from snapshots."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from rack_traffic.options import EstimationOptions
from rack_traffic.session import is_small
from rack_traffic.writers import Writers, parse_writers
from rackward.cli import options
from rackward.cli.output import print_json, table, table_console
from rackward.cli.traffic import options as traffic_options
from rackward.cli.traffic.options import running_spark

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
    snapshots: traffic_options.Source,
    folder: traffic_options.Target,
    since: traffic_options.Since = None,
    until: traffic_options.Until = None,
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
    flows: traffic_options.Flows = None,
    flow_format: traffic_options.FlowFormat = None,
    flow_addresses: traffic_options.FlowAddresses = None,
    master: traffic_options.Master = traffic_options.DEFAULT_MASTER,
    driver_memory: traffic_options.DriverMemory = traffic_options.DEFAULT_MEMORY,
    conf: traffic_options.Conf = None,
    as_json: options.Json = False,
) -> None:
    """Compute cross-rack traffic and its cost per hour from snapshots."""
    start = traffic_options.parse_time("--since", since)
    end = traffic_options.parse_time("--until", until)
    price_table = options.price_table(prices, prices_properties)
    estimation = EstimationOptions(max_gap_hours=max_gap)
    producers = parse_writers(writers or ())
    flow_options = traffic_options.flow_options(flows, flow_format, flow_addresses)
    traffic_options.check_snapshots(snapshots, master)
    if flows is not None:
        traffic_options.check_exists(flows, master)
    small = all(is_small(path) for path in (snapshots, flows) if path is not None)
    with running_spark(master, driver_memory, conf, progress_bars=True, small=small) as spark:
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
