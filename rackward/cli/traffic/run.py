"""``rackward traffic run`` and ``rackward traffic what-if``: the batch jobs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rack_traffic.options import Beliefs
from rack_traffic.what_if.inputs import Interval
from rackward.cli import options
from rackward.cli.console import for_people, print_json, table
from rackward.cli.traffic import options as traffic_options
from rackward.cli.traffic.options import running

RUN_EPILOG = """
FOLDER gets the Parquet tables hourly (bytes and cost per cluster, group, topic, pair of racks and
hour), partition_hours (the same per partition), set_aside (rows that break their contract) and
summary. Those of an earlier run there are replaced.

Exit status: 0 done; 2 where it could not be done, with the reason in one line.
"""
WHAT_IF_EPILOG = """
FOLDER is where `rackward traffic run` wrote its tables; what_if and ranking are added.

Exit status: 0 done; 2 where it could not be done, with the reason in one line.
"""
_GROUPS_SHOWN = 20


def run(
    snapshots: traffic_options.Source,
    folder: traffic_options.Target,
    since: traffic_options.Since = None,
    until: traffic_options.Until = None,
    prices: traffic_options.Prices = None,
    longest_gap: Annotated[
        float,
        typer.Option(
            "--longest-gap",
            metavar="HOURS",
            min=0.01,
            help="Gaps between snapshots that are longer are not spread over their hours.",
        ),
    ] = 24.0,
    master: traffic_options.Master = traffic_options.DEFAULT_MASTER,
    driver_memory: traffic_options.DriverMemory = traffic_options.DEFAULT_MEMORY,
    conf: traffic_options.Conf = None,
    as_json: options.Json = False,
) -> None:
    """Work out what crossed racks, hour by hour, and what it cost, from snapshots."""
    first = traffic_options.moment("--since", since)
    last = traffic_options.moment("--until", until)
    rules = traffic_options.price_table(prices)
    beliefs = Beliefs(longest_gap_hours=longest_gap)
    with running(traffic_options.spark_options(master, driver_memory, conf, bars=True)) as spark:
        from rack_traffic.batch import BatchOptions, run_traffic
        from rack_traffic.batch import as_json as plain

        job = BatchOptions(snapshots, folder, first, last, rules, beliefs)
        told = run_traffic(spark, job, traffic_options.now)
    if as_json:
        print_json("traffic run", json.loads(plain(told)))
    else:
        _show(told)


def what_if(
    snapshots: traffic_options.Source,
    folder: traffic_options.Target,
    interval: Annotated[
        Interval, typer.Option(help="Work it out for all hours together, by day or by hour.")
    ] = Interval.ALL,
    since: traffic_options.Since = None,
    until: traffic_options.Until = None,
    prices: traffic_options.Prices = None,
    master: traffic_options.Master = traffic_options.DEFAULT_MASTER,
    driver_memory: traffic_options.DriverMemory = traffic_options.DEFAULT_MEMORY,
    conf: traffic_options.Conf = None,
    as_json: options.Json = False,
) -> None:
    """Work out what other assignments would cost, and rank groups by what a change saves.

    As it is, Apache's assignors, ours, ours after a leader layout, and follower fetching.
    """
    first = traffic_options.moment("--since", since)
    last = traffic_options.moment("--until", until)
    rules = traffic_options.price_table(prices)
    with running(traffic_options.spark_options(master, driver_memory, conf, bars=True)) as spark:
        from rack_traffic.batch import BatchOptions, run_what_if

        job = BatchOptions(snapshots, folder, first, last, rules)
        rows = [row.asDict() for row in run_what_if(spark, job, interval).collect()]
    if as_json:
        times = ("interval_start", "interval_end")
        told = [row | {name: row[name].isoformat() for name in times} for row in rows]
        print_json("traffic what-if", {"ranking": told})
    else:
        _show_ranking(rows)


def _show(told: dict[str, Any]) -> None:
    console = for_people(False)
    for name, counts in told["input"].items():
        aside = sum(counts["set_aside"].values())
        console.print(f"{name}: {counts['rows']:,} rows, {aside:,} set aside")
        for reason, count in counts["set_aside"].items():
            console.print(f"  {count:,}: {reason}")
    shown = table("Traffic")
    for name in ("kind", "GB", "in a rack", "crossing", "rack unknown", "estimated", "cost"):
        shown.add_column(name, justify="left" if name == "kind" else "right")
    for kind, sums in told["traffic"]["kinds"].items():
        sizes = (sums[name] for name in ("bytes", "local", "crossing", "unknown", "estimated"))
        shown.add_row(kind, *(f"{size / 1e9:,.3f}" for size in sizes), f"{sums['cost'] or 0:,.2f}")
    console.print(shown)
    unsized = sum(sums["unsized_offsets"] or 0 for sums in told["traffic"]["kinds"].values())
    if unsized:
        console.print(
            f"{unsized:,} offsets are not among these bytes: the size of their log is not known, "
            "or the gap between snapshots is too long"
        )


def _show_ranking(rows: list[dict[str, Any]]) -> None:
    shown = table("Money per month")
    for name in ("cluster", "group", "now", "after", "saved", "local now", "after", "change"):
        left = name in ("cluster", "group", "change")
        shown.add_column(name, justify="left" if left else "right")
    for row in rows[:_GROUPS_SHOWN]:
        money = (row["cost_per_month_now"], row["cost_per_month_after"], row["saving_per_month"])
        shares = (row["locality_now"], row["locality_after"])
        shown.add_row(
            row["cluster"],
            row["group"],
            *(f"{amount:,.2f}" for amount in money),
            *("" if share is None else f"{share:.0%}" for share in shares),
            row["change"],
        )
    console = for_people(False)
    console.print(shown)
    if len(rows) > _GROUPS_SHOWN:
        console.print(f"and {len(rows) - _GROUPS_SHOWN:,} more, in the table ranking")
