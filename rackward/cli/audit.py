"""``rackward audit``: what consumer groups read across racks, its cost, and what to do next."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rack_traffic.prices import PriceTable
from rack_traffic.report.format import Currency
from rackward.cli import options
from rackward.cli.console import check_folder, print_json, stderr, stdout, write_page
from rackward.cli.options import ClusterOptions
from rackward.cli.render.group_audit import GROUP_JSON, report_json, show_report
from rackward.cli.render.progress import step_reporter
from rackward.groups.host_racks import HostRacks
from rackward.groups.reader import (
    ClusterReading,
    read_cluster,
    read_rates,
    watch_rates,
    with_min_isr,
)
from rackward.groups.report import AuditReport, audit_cluster
from rackward.units import matches_name

EPILOG = f"""
\b
Examples:
  rackward audit --bootstrap-server kafka:9092
  rackward audit --watch 60 'orders-*'         measure for a minute
  rackward audit --html audit.html             one page to send around
  rackward audit --prices prices.csv --json    for programs

It reads, and changes nothing. Each group has three figures, as the share of partitions that are
read in the rack of their member, and as cost per month:

\b
  now        its assignment and the leaders as they are, or followers where
             brokers have Kafka's RackAwareReplicaSelector
  assignor   with rackward's assignor, or led by rackward lead: the optimum of
             all balanced assignments, with the same members and leaders
  + leaders  with leaders moved as well (rackward leaders plan); groups that
             share topics are laid out together. Groups of the new protocol
             and of Kafka Streams keep their assignment: their "assignor" is
             in parentheses, as it is only what assigning by racks would reach

Below are the next steps: a line of the client's configuration, or a command. Brokers do not tell
which library a client uses; it is known from the client id that most applications leave as it is.

Without --watch, each group is assumed to read once what was written in the last 24 hours, or in the
last hour where the log is younger. With it, rates are measured by committed offsets, the ends of
logs and their sizes; Ctrl-C ends the measurement early. A cost with + has a part of unknown racks
in addition: see client.rack, and --mapping.

Needs Describe on the groups and their topics, and for log sizes on the cluster; DescribeConfigs on
the cluster for the brokers' replica.selector.class. A group that cannot
be read is a line with the reason.

Exit status: 0 success; 2 error (reason on stderr), such as a cluster that cannot be reached or a
GROUP that matches no group.

\b
JSON: {{schema_version: 1, command, cluster_id,
 racks: [{{rack, brokers}}], topics, partitions,
 replica_selectors: [{{class ("": not set, null: not readable), brokers}}],
 rates: {{watched_seconds (null: logs), unsized_partitions,
         assumptions: [text]}}, currency,
 totals: {{now: READS, assignor: READS, layout: READS}},
 {GROUP_JSON}, assignor: READS, layout: READS,
           assignor_usable, layout_proved,
           findings: [{{reason, rack, count, why}}],
           steps: [{{kind, text, lines: [text]}}]}}],
 faults: [text], findings: [{{severity, kind, subject, message}}]}}
READS: {{off_rack, crossing_bytes_per_second, unknown_bytes_per_second,
 cost_per_month}}; null without figures
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EPILOG)
def audit(
    groups: options.GroupNames = None,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            metavar="SECONDS",
            min=1.0,
            max=86_400.0,
            help="Measure for this time what groups read. Default: estimate it from the logs.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write one page that works offline."),
    ] = None,
    prices: options.Prices = None,
    prices_properties: options.PricesProperties = None,
    currency: options.CurrencySign = "$",
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Show what consumer groups read across racks, what it costs, and what to do next."""
    price_table = options.price_table(prices, prices_properties)
    sign = Currency(options.currency_symbol(currency))
    if html is not None:
        check_folder("--html", html)
    report = read_report(
        ClusterOptions(bootstrap_server, command_config, timeout),
        groups,
        mapping,
        price_table,
        watch=watch,
        best=True,
    )
    if html is not None:
        from rackward.cli.render.audit_page import render_page

        size = write_page(html, render_page(report, sign, price_table, datetime.now(UTC)))
        sys.stderr.write(f"Wrote {html} ({size / 1e3:,.0f} kB)\n")
    if as_json:
        print_json("audit", report_json(report, sign, price_table))
    elif html is None:
        show_report(report, stdout(), sign, price_table)


def read_report(
    cluster: ClusterOptions,
    groups: list[str] | None,
    mapping: str | None,
    prices: PriceTable,
    *,
    watch: float | None = None,
    best: bool,
) -> AuditReport:
    """Read the cluster and return the audit of the groups that ``groups`` match.

    ``best`` False leaves out all but what they read now. Raises RackwardError.
    """
    host_racks = HostRacks.parse_option("--mapping", mapping)
    with step_reporter(stderr()) as progress:
        progress("Connecting")
        with cluster.connect() as admin:
            reading = read_cluster(admin, groups or ["*"], progress)
            check_patterns(groups or (), reading)
            if best:
                reading = with_min_isr(admin, reading)
            if watch is None:
                rates, faults = read_rates(admin, reading, progress)
            else:
                with interrupted() as wait:
                    rates, faults = watch_rates(admin, reading, watch, wait, progress)
        reading = replace(reading, faults=tuple(dict.fromkeys([*reading.faults, *faults])))
        return audit_cluster(
            reading,
            rates,
            prices,
            host_racks,
            mapping=mapping,
            best=best,
            progress=progress,
        )


def check_patterns(patterns: Collection[str], reading: ClusterReading) -> None:
    """Raise InvalidOptionError if a name or pattern matches no group of a cluster that was read
    without a fault."""
    for pattern in patterns:
        found = any(matches_name(each.listed.id, pattern) for each in reading.groups)
        if not found and not reading.faults:
            raise InvalidOptionError(
                f"{pattern}: the cluster has no such group, or this user may not describe it: "
                f"check the name, or grant this user Describe on group {pattern}"
            )


@contextmanager
def interrupted() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits so many seconds, and returns whether Ctrl-C was pressed.

    A second Ctrl-C ends the command as usual.
    """
    stop = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def end(_signum: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        stop.set()

    signal.signal(signal.SIGINT, end)
    try:
        yield stop.wait
    finally:
        signal.signal(signal.SIGINT, before)
