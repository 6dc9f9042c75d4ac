"""``rackward traffic what-if``: the cost of other assignments, and a ranking of the changes."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column

from rack_traffic.options import Interval
from rack_traffic.report.format import hours_text
from rack_traffic.report.model import MIN_HOURS_TO_EXTRAPOLATE
from rack_traffic.session import is_small
from rackward.cli import options
from rackward.cli.output import print_json, table, table_console
from rackward.cli.traffic import options as traffic_options
from rackward.cli.traffic.options import running_spark

WHAT_IF_EPILOG = """
\b
Example:
  rackward traffic what-if snapshots tables

FOLDER contains the tables of `rackward traffic run`; the tables what_if and ranking are added.

Exit status: 0 success; 2 error (reason on stderr).
"""
_MAX_GROUPS = 20


def what_if(
    snapshots: traffic_options.Source,
    folder: traffic_options.Target,
    interval: Annotated[
        Interval, typer.Option(help="Compare per hour, per day (UTC), or over all hours.")
    ] = Interval.ALL,
    since: traffic_options.Since = None,
    until: traffic_options.Until = None,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    master: traffic_options.Master = traffic_options.DEFAULT_MASTER,
    driver_memory: traffic_options.DriverMemory = traffic_options.DEFAULT_MEMORY,
    conf: traffic_options.Conf = None,
    as_json: options.Json = False,
) -> None:
    """Compute the cost of other assignments, and rank groups by the saving per month.

    Scenarios: the current assignment, Apache Kafka's range and cooperative-sticky assignors,
    rackward's assignors, a leader layout with rackward's cooperative-sticky assignor, and follower
    fetching.
    """
    start = traffic_options.parse_time("--since", since)
    end = traffic_options.parse_time("--until", until)
    price_table = options.price_table(prices, prices_properties)
    traffic_options.check_snapshots(snapshots, master)
    small = is_small(snapshots)
    with running_spark(master, driver_memory, conf, progress_bars=True, small=small) as spark:
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
