"""``rackward audit``: what consumer groups read across racks, its cost, and what to do next."""

from __future__ import annotations

import dataclasses
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from placement_core import InvalidOptionError
from placement_core.audit import Severity
from rack_traffic.advice import NEEDS, NextStep, StepKind, join_steps, steps_text
from rack_traffic.errors import MissingPackageError
from rack_traffic.options import FlowOptions
from rack_traffic.report.format import Currency, percent
from rack_traffic.session import is_small
from rack_traffic.writers import parse_writers
from rackward.cli import options
from rackward.cli.commands import single_command
from rackward.cli.live import step_reporter
from rackward.cli.options import ClusterOptions, PriceOptions
from rackward.cli.output import (
    check_folder,
    escape_controls,
    number,
    print_json,
    rack_name,
    stderr,
    stdout,
    table,
    write_page,
)
from rackward.cli.traffic.options import FlowRecordOptions, SparkRunOptions
from rackward.collector.config import ClusterSource, Patterns, Selection
from rackward.collector.sinks import arrow_table
from rackward.collector.snapshot import HostAddresses, take_snapshot
from rackward.groups.audit import audit_cluster
from rackward.groups.audit_report import AuditReport, CrossRackReads, GroupAudit, MeasuredTraffic
from rackward.groups.host_racks import HostRacks
from rackward.groups.next_steps import LedBy
from rackward.groups.reading import DAY_SECONDS
from rackward.kafka.groups import SHARE, STREAMS
from rackward.units import format_bytes, format_count, format_list

EPILOG = """
\b
Examples:
  rackward audit --bootstrap-server kafka:9092
  rackward audit --measure 60 'orders-*'         measure for a minute
  rackward audit --html audit.html             one page to send around
  rackward audit --prices prices.csv --json    for programs
  rackward audit --flows logs                  beside what the network counted

It is read-only. Each group has three figures, as the share of partitions that are read in the rack
of their member, and as cost per month:

\b
  now        its assignment and the leaders as they are; + if the racks of a
             part of them are unknown
  assignor   with rackward's assignor, or led by rackward lead: the optimum;
             in parentheses if the group's assignor is fixed
  + leaders  with leaders moved as well (rackward leaders plan)

Below are the next steps: a line of the client's configuration, or a command. Without --measure,
each group is assumed to read once what was written in the last 24 hours. Racks are those that
members send (client.rack), else those of --mapping. Brokers do not know where producers are:
see --writers.

With --flows, flow records of the network (docs/flows.md) say what is read, written and replicated,
which addresses read or write and are in no group, and which members declare another rack than that
of their network. The cluster is assumed to have been as it is now during all records. Needs the
extra spark.

Needs Describe on the groups, their topics and the cluster, and DescribeConfigs on the cluster. A
group that cannot be read is a line with the reason. See docs/audit.md.

Exit status: 0 success; 2 error (reason on stderr), such as a cluster that cannot be reached or a
GROUP that matches no group.
"""

MAX_GROUPS = 20
"""Maximum number of groups on a terminal without --top; pipes, JSON and the page have all."""
MAX_STEPS = 10
"""Maximum number of groups whose next step is shown on a terminal."""
MAX_ADDRESSES = 20
"""Maximum number of clients in no group, and of members with another rack; JSON has all."""

RACK_STEPS = (StepKind.SET_CLIENT_RACK, StepKind.MAP_HOSTS)
"""The steps that come before those of single groups."""

UNKNOWN = "unknown"
NO_GROUPS = "No consumer groups are visible; if there are any, grant this user Describe on them."

app = single_command()


class GroupColumn(StrEnum):
    """The columns by which groups can be sorted."""

    GROUP = "group"
    MEMBERS = "members"
    PARTITIONS = "partitions"
    LOCAL = "local"
    OFF_RACK = "off-rack"
    UNKNOWN = "unknown"
    ACROSS = "across"
    COST = "cost"


_ORDERS: Mapping[GroupColumn, Callable[[GroupAudit, CrossRackReads], Any]] = {
    GroupColumn.GROUP: lambda row, _: row.group,
    GroupColumn.MEMBERS: lambda row, _: -(row.members or 0),
    GroupColumn.PARTITIONS: lambda row, _: -row.partitions,
    # The least local group first; unknown is last.
    GroupColumn.LOCAL: lambda _, now: 2.0 if now.local_share is None else now.local_share,
    GroupColumn.OFF_RACK: lambda _, now: -now.off_rack,
    GroupColumn.UNKNOWN: lambda _, now: -now.unknown_partitions,
    GroupColumn.ACROSS: lambda _, now: -now.crossing,
    GroupColumn.COST: lambda _, now: -now.cost,
}


@dataclass(frozen=True, slots=True)
class GroupOrder:
    """The options for the order and number of groups."""

    sort: Annotated[
        GroupColumn | None,
        typer.Option(
            help="Sort groups: the least local first, other figures from the largest. Default: "
            "by cost, then by bytes and partitions across racks."
        ),
    ] = None
    top: options.Top = None

    def sorted(self, report: AuditReport) -> AuditReport:
        """Return the report with its groups in order; those without figures are last."""
        if self.sort is None:
            return report
        order = _ORDERS[self.sort]
        rows = sorted(
            report.groups,
            key=lambda row: (row.now is None, order(row, row.now or CrossRackReads()), row.group),
        )
        return structs.replace(report, groups=tuple(rows))

    def json(self, report: AuditReport) -> AuditReport:
        """Return the report without the groups that are not listed."""
        return structs.replace(report, groups=report.groups[: self.top])


@app.command(epilog=EPILOG, results=(AuditReport,))
def audit(
    groups: options.GroupNames = None,
    *,
    measure: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1.0,
            max=86_400.0,
            help="Measure reads for this many seconds. Default: estimate them from the logs.",
        ),
    ] = None,
    order: GroupOrder,
    writers: options.Writers = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page that works offline.")
    ] = None,
    prices: PriceOptions,
    mapping: options.RackMapping = None,
    flows: FlowRecordOptions,
    as_json: options.Json = False,
    cluster: ClusterOptions,
) -> None:
    """Show what consumer groups read across racks, what it costs, and what to do next."""
    if html is not None:
        check_folder("--html", html)
    flow_options = flows.parse()
    if flow_options is not None:
        if groups:
            raise InvalidOptionError("--flows measures all groups: leave out GROUP")
        if find_spec("pyspark") is None:
            raise MissingPackageError("pyspark")
    report = order.sorted(
        read_report(cluster, prices, groups, mapping, measure=measure, writers=writers, best=True)
    )
    if flow_options is not None:
        report = with_measured(report, flow_options, cluster, prices, mapping)
    if html is not None:
        from rackward.cli.audit_page import render_page

        size = write_page(html, render_page(report, datetime.now(UTC)))
        sys.stderr.write(f"Wrote {html} ({size / 1e3:,.0f} kB)\n")
    if as_json:
        print_json("audit", order.json(report))
    elif html is None:
        show_report(report, stdout(), order.top)


def with_measured(
    report: AuditReport,
    flows: FlowOptions,
    cluster: ClusterOptions,
    prices: PriceOptions,
    mapping: str | None,
) -> AuditReport:
    """Return ``report`` with what ``flows`` say, by a snapshot that is taken now.

    Brokers in the file of addresses belong to this cluster, under any cluster name.
    """
    from rack_traffic.flow_snapshot import count_flows
    from rackward.groups.measured import measured_traffic

    name = report.cluster_id or ""
    # Neither logs nor offsets of topics.
    selection = Selection(topics=Patterns(exclude=("*",)))
    source = ClusterSource(name, {}, selection, HostRacks.parse_option("--mapping", mapping))
    with cluster.connect() as admin:
        snapshot = take_snapshot(admin, source, lambda: None, HostAddresses(time.monotonic))
    tables = {table: arrow_table(table, [*rows]) for table, rows in snapshot.tables.items()}
    brokers = {end: (name, broker) for end, (_, broker) in flows.brokers.items()}
    with SparkRunOptions().session(small=is_small(flows.path)) as spark:
        counted = count_flows(spark, tables, dataclasses.replace(flows, brokers=brokers))
    measured = measured_traffic(counted, report, prices.parse()[0])
    faults = tuple(dict.fromkeys([*report.faults, *snapshot.faults]))
    return structs.replace(report, measured=measured, faults=faults)


def read_report(
    cluster: ClusterOptions,
    prices: PriceOptions,
    groups: list[str] | None,
    mapping: str | None,
    *,
    best: bool,
    measure: float | None = None,
    writers: Sequence[str] | None = None,
) -> AuditReport:
    """Return the audit of the groups that ``groups`` match; see `audit_cluster`."""
    price_table, currency = prices.parse()
    producers = parse_writers(writers or ())
    progress = step_reporter(stderr())
    with interrupted() as wait:
        progress("Connecting")
        with cluster.connect() as admin:
            return audit_cluster(
                admin,
                groups or ("*",),
                prices=price_table,
                currency=currency.sign,
                mapping=mapping,
                writers=producers,
                best=best,
                measure=measure,
                wait=wait,
                progress=progress,
            )


@contextmanager
def interrupted() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits so many seconds, and returns whether Ctrl-C was pressed.

    Ctrl-C ends the command as usual before the first wait, and if it is pressed again.
    """
    stop = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def end(_signum: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        stop.set()

    def wait(seconds: float) -> bool:
        signal.signal(signal.SIGINT, end)
        return stop.wait(seconds)

    try:
        yield wait
    finally:
        signal.signal(signal.SIGINT, before)


# ---- The audit as tables: of 80 columns on a terminal, one line per group in pipes.


def show_report(report: AuditReport, console: Console, top: int | None = None) -> None:
    """Print the totals, the first ``top`` groups, their next steps, and the assumptions."""
    console.print(headline(report), style="bold")
    if not report.groups:
        console.print(NO_GROUPS)
        _print_faults(report, console)
        return
    currency = Currency(report.currency)
    for line in _total_lines(report, currency):
        console.print(line)
    console.print()
    wide = console.soft_wrap
    shown = _listed(report, console, top)
    console.print(_wide_table(shown, currency) if wide else _narrow_table(shown, currency))
    _print_hidden(report, shown, console)
    if any(map(is_hypothetical, shown)):
        console.print("(...) hypothetical: the assignor is fixed, but leaders can move")
    if not wide:
        _print_steps(report, shown, console)
    for step in report.steps:
        if wide or step.kind not in RACK_STEPS:
            _print_step(step.text, step, console)
    for right in rights(shown):
        console.print(f"Rights: {right}")
    if report.measured is not None:
        _print_measured(report.measured, currency, console)
    console.print()
    counts = Counter(finding.severity for finding in report.findings)
    if counts:
        texts = [f"{counts[each]:,} {each.value}" for each in Severity if counts[each]]
        console.print(f"Findings of the layout: {', '.join(texts)}. See rackward placement check")
    for line in report.rates.assumptions:
        console.print(line)
    _print_faults(report, console)


def _listed(report: AuditReport, console: Console, top: int | None) -> Sequence[GroupAudit]:
    return report.groups[: top if top or console.soft_wrap else MAX_GROUPS]


def _print_hidden(report: AuditReport, shown: Sequence[GroupAudit], console: Console) -> None:
    if hidden := len(report.groups) - len(shown):
        more = format_count(hidden, "more group")
        console.print(f"... and {more}: --top {len(report.groups)} lists all")


def headline(report: AuditReport) -> str:
    """Return the size of the cluster in one line."""
    names = [rack_name(each.rack) for each in report.racks]
    brokers = sum(each.brokers for each in report.racks)
    return (
        f"{format_count(len(report.groups), 'group')}, "
        f"{format_count(report.partitions, 'partition')} of "
        f"{format_count(report.topics, 'topic')}, {format_count(brokers, 'broker')} in "
        f"{format_count(len(names), 'rack')} ({format_list(names)})"
    )


def _total_lines(report: AuditReport, currency: Currency) -> Iterator[str]:
    now, after = report.totals.now, report.totals.layout
    for name, text in read_lines(report):
        yield f"{name + ':':<18} {text}"
    for name, reads in (("Read across racks:", now), ("After all steps:", after)):
        if reads is not None:
            yield (
                f"{name:<18} {format_count(reads.off_rack, 'partition')}, "
                f"{bytes_a_day(reads.crossing)} a day, {currency.text(reads.cost)} a month"
            )
    for name, text in write_lines(report, currency):
        yield f"{name + ':':<18} {text}"


def read_lines(report: AuditReport) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of all that groups read, and of what is local and unknown of it.

    A partition counts once for each group that reads it.
    """
    now = report.totals.now
    yield "Read by groups", _partitions_a_day(now.partitions, now.rate)
    yield "Read locally", _partitions_a_day(now.local, now.local_rate)
    if now.unknown_partitions:
        rackless = sum(bool(row.rackless_members) for row in report.groups)
        manual = sum(row.now is not None and not row.members for row in report.groups)
        sends = "sends" if rackless == 1 else "send"
        counts = [f"{format_count(rackless, 'group')} {sends} no rack"] if rackless else []
        counts += [f"{format_count(manual, 'group')} with assign()"] if manual else []
        senders = f" ({', '.join(counts)})" if counts else ""
        yield "Rack unknown", _partitions_a_day(now.unknown_partitions, now.unknown) + senders


def _partitions_a_day(partitions: int, rate: float) -> str:
    return f"{format_count(partitions, 'partition')}, {bytes_a_day(rate)} a day"


def write_lines(report: AuditReport, currency: Currency) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of what is written across racks, and of what can be saved."""
    writes, after = report.writes, report.writes_after
    if writes is None or after is None:
        return
    yield (
        "Written (assumed)",
        f"{bytes_a_day(writes.crossing)} a day, {currency.text(writes.cost)} a month; replication "
        f"{currency.text(writes.replication_cost)} a month",
    )
    # Moved leaders also change what producers and followers send.
    saved = writes.cost - after.rack_aware_cost + writes.replication_cost - after.replication_cost
    if report.totals.layout is not None:
        saved += report.totals.now.cost - report.totals.layout.cost
    yield (
        "Rack-aware writes",
        f"save {currency.text(writes.cost - writes.rack_aware_cost)} a month, and with all steps "
        f"{currency.text(saved)}",
    )


def bytes_a_day(rate: float) -> str:
    """Return a rate in bytes per second as bytes a day."""
    return format_bytes(rate * DAY_SECONDS)


def client_text(row: GroupAudit) -> str:
    """Return the client of a group as far as it is known, and who assigns its partitions."""
    if row.led_by is None:
        return ""
    protocol = row.protocol or "no assignor"
    by_brokers = {SHARE: "share group", STREAMS: "streams group"}.get(row.type or "")
    assignor = {
        LedBy.BROKERS: by_brokers or f"new protocol, {protocol}",
        LedBy.LEAD: f"{protocol}, led by rackward",
        LedBy.RACKWARD: f"{protocol}, assigned by rackward",
        LedBy.CLIENT: protocol,
    }[row.led_by]
    names = [UNKNOWN if each.library is None else each.library.value for each in row.libraries]
    client = " + ".join(names) if names != [UNKNOWN] else "client unknown"
    return f"{client}, {assignor}" if names else assignor


def locality(row: GroupAudit, reads: CrossRackReads | None) -> str:
    """Return the share of partitions that are local; ``+`` if racks are unknown for a part."""
    if reads is None or not reads.partitions:
        return ""
    if reads.local_share is None:
        return UNKNOWN
    share = percent(reads.local_share) + ("+" if reads.unknown_partitions else "")
    return f"({share})" if reads is row.assignor and is_hypothetical(row) else share


def locality_style(reads: CrossRackReads | None) -> str:
    """Return the colour of a share: red if partitions are off-rack, green if all are local."""
    if reads is None or not reads.partitions:
        return ""
    return "red" if reads.off_rack else "" if reads.unknown_partitions else "green"


def cost(reads: CrossRackReads | None, currency: Currency) -> str:
    """Return the cost per month; ``+`` if racks are unknown for a part of the traffic."""
    if reads is None:
        return ""
    if reads.partitions and reads.local_share is None:
        return UNKNOWN
    return currency.text(reads.cost) + ("+" if reads.unknown else "")


def is_hypothetical(row: GroupAudit) -> bool:
    """Return whether "assignor" is a known figure of an assignor that the group cannot have."""
    known = row.assignor is not None and row.assignor.local_share is not None
    return known and not row.assignor_usable


def notes(row: GroupAudit) -> Iterator[str]:
    """Yield what is wrong with a group: why it has no figures, and topics that are missing."""
    if row.reason is not None:
        yield row.reason
    if row.missing_topics:
        topics = format_count(len(row.missing_topics), "topic")
        yield f"missing, or without Describe: {topics} ({format_list(row.missing_topics)})"


def title(row: GroupAudit) -> Text:
    """Return a group's name, and below it its client, and the reason if it has no figures."""
    shown = Text(escape_controls(row.group), style="bold")
    if row.led_by is not None:
        shown.append(f"\n{escape_controls(client_text(row))}", style="not bold dim")
    for note in notes(row):
        shown.append(f"\n{escape_controls(note)}", style="not bold yellow")
    return shown


FIGURES = ("now", "assignor", "+ leaders")


def _narrow_table(rows: Sequence[GroupAudit], currency: Currency) -> Table:
    shown = table(
        "group\nclient, assignor",
        *(number(f"{name}\na month") for name in FIGURES),
    )
    for row in rows:
        shown.add_row(
            title(row),
            *(
                Text.assemble(
                    (locality(row, reads), locality_style(reads)), "\n", cost(reads, currency)
                )
                for reads in (row.now, row.assignor, row.layout)
            ),
        )
    return shown


def _wide_table(rows: Sequence[GroupAudit], currency: Currency) -> Table:
    shown = table(
        *("group", "client, assignor"),
        *map(number, ("members", "partitions")),
        *(number(f"local {name}") for name in FIGURES),
        *(number(f"a month {name}") for name in FIGURES),
        "next step",
    )
    for row in rows:
        figures = (row.now, row.assignor, row.layout)
        remarks = list(notes(row))
        counts = ["", ""]
        if row.now is not None:
            counts = [f"{row.members or 0:,}", f"{row.partitions:,}"]
            remarks.append(steps_text(row.steps) or "nothing")
        cells = (
            *(row.group, client_text(row), *counts),
            *(locality(row, each) for each in figures),
            *(cost(each, currency) for each in figures),
            "; ".join(remarks),
        )
        shown.add_row(*map(escape_controls, cells))
    return shown


def _print_steps(report: AuditReport, shown: Sequence[GroupAudit], console: Console) -> None:
    """Print the steps of the cluster, then of the groups, once for all that have the same step;
    leaders are last."""
    console.print()
    rows = [row for row in report.groups if row.steps]
    if not rows:
        console.print("No step would make a group more local.")
        return
    console.print("Next steps", style="bold")
    first = [step for step in report.steps if step.kind in RACK_STEPS]
    for step in first:
        _print_step(step.text, step, console)
    if first:
        # Their own steps say the same, group by group.
        rows = [row for row in rows if not row.rackless_members]
    limit = min(MAX_STEPS, len(shown))
    steps = [*join_steps((row.group, step) for row in rows[:limit] for step in row.steps)]
    several = {row.group for row in rows if len(row.steps) > 1}
    # Stable: other steps stay in order.
    for names, step in sorted(steps, key=lambda each: each[1].kind is StepKind.MOVE_LEADERS):
        last = step.kind is StepKind.MOVE_LEADERS and several.intersection(names)
        _print_step(f"{format_list(names)}: {'then ' if last else ''}{step.text}", step, console)
    if len(rows) > limit:
        more = format_count(len(rows) - limit, "more group")
        console.print(f"Steps for {more}: use --html or --json")


def rights(rows: Iterable[GroupAudit]) -> list[str]:
    """Return the rights that commands in the steps of groups need."""
    kinds = {step.kind for row in rows for step in row.steps}
    return [right for kind, right in NEEDS.items() if kind in kinds]


def _print_step(heading: str, step: NextStep, console: Console) -> None:
    console.print(escape_controls(heading))
    for line in step.lines:
        # Without wrapping, so that commands can be copied.
        console.print(f"  {escape_controls(line)}", soft_wrap=True)


def _print_measured(measured: MeasuredTraffic, currency: Currency, console: Console) -> None:
    """Print what flow records counted, clients in no group, and members with another rack."""
    minutes = (measured.until - measured.since).total_seconds() / 60
    since = f"{measured.since:%Y-%m-%d %H:%M} UTC"
    console.print()
    console.print(f"Measured by flow records, {minutes:,.0f} minutes from {since}", style="bold")
    kinds = table(
        Column("kind"), *map(number, ("a day", "across a day", "a month", "estimated a month"))
    )
    for each in measured.kinds:
        estimated = "" if each.estimated_cost is None else currency.text(each.estimated_cost)
        kinds.add_row(
            each.kind,
            bytes_a_day(each.rate),
            bytes_a_day(each.crossing) + ("+" if each.unknown else ""),
            currency.text(each.cost),
            estimated,
        )
    console.print(kinds)
    if measured.clients:
        clients = table(Column("in no group"), Column("rack"), number("reads"), number("writes"))
        for client in measured.clients[:MAX_ADDRESSES]:
            sizes = (f"{bytes_a_day(each)} a day" for each in (client.read, client.written))
            clients.add_row(client.address, escape_controls(client.rack or UNKNOWN), *sizes)
        console.print(clients)
    for member in measured.misplaced[:MAX_ADDRESSES]:
        name = "several groups" if member.group is None else member.group
        console.print(
            escape_controls(
                f"{name}: {member.address} declares rack {member.rack}, and its network is in "
                f"{member.network_rack}: check client.rack"
            )
        )
    hidden = max(len(measured.clients), len(measured.misplaced)) - MAX_ADDRESSES
    if hidden > 0:
        console.print(f"... and {format_count(hidden, 'more line')}: use --json")
    if measured.rejected:
        console.print(f"Not read: {format_count(measured.rejected, 'flow record')}", style="yellow")


def _print_faults(report: AuditReport, console: Console) -> None:
    for fault in report.faults:
        console.print(f"Not read: {fault}", style="yellow")


# ---- `rackward groups list`.


def show_groups(report: AuditReport, console: Console, top: int | None = None) -> None:
    """Print a line for each group, or for the first ``top`` ones."""
    if not report.groups:
        console.print(NO_GROUPS)
    else:
        shown = _listed(report, console, top)
        console.print(_list_table(shown, Currency(report.currency), share=console.soft_wrap))
        _print_hidden(report, shown, console)
    _print_faults(report, console)


def _list_table(rows: Sequence[GroupAudit], currency: Currency, *, share: bool) -> Table:
    """Return the table of groups; ``share``: with the share of local partitions."""
    shown = table(
        *("group", "assignor"),
        *map(number, ("members", "partitions", "local", "off rack", "unknown")),
        *([number("local share")] if share else []),
        *map(number, ("across\na day", "cost\na month")),
    )
    for row in rows:
        cells: tuple[str | Text, ...] = ()
        if row.now is not None:
            style = locality_style(row.now)
            cells = (
                f"{row.members or 0:,}",
                f"{row.partitions:,}",
                Text(f"{row.now.local:,}", style="" if row.now.off_rack else style),
                Text(f"{row.now.off_rack:,}", style=style if row.now.off_rack else ""),
                f"{row.now.unknown_partitions:,}",
                *((locality(row, row.now),) if share else ()),
                bytes_a_day(row.now.crossing),
                cost(row.now, currency),
            )
        reason = "; ".join(notes(row))
        client = Text(escape_controls(reason or client_text(row)), "yellow" if reason else "dim")
        shown.add_row(Text(escape_controls(row.group), style="bold"), client, *cells)
    return shown
