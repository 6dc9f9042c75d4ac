"""The audit of groups: tables of 80 columns, one line per group in pipes, and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from placement_core import RACK_AWARE_SELECTOR
from placement_core.audit import Severity
from rack_traffic.output_tables import HOURS_PER_MONTH
from rack_traffic.prices import PriceTable
from rack_traffic.report.format import Currency, percent
from rackward.cli.console import escape_controls, table
from rackward.cli.render.explanation import finding_text
from rackward.cli.render.plan import NO_RACK
from rackward.groups.rates import ASSUMED_RECORD_BYTES, DAY_SECONDS, RateSource
from rackward.groups.report import AuditReport, GroupAudit, Reads
from rackward.groups.steps import LedBy, Step, StepKind, can_follow
from rackward.units import format_bytes, format_count, format_duration, format_list

MAX_GROUPS = 20
"""Maximum number of groups on a terminal; pipes, JSON and the page have all."""
MAX_STEPS = 10
"""Maximum number of groups whose next step is shown on a terminal."""
WIDE = 160
"""From this width on, each group has one line."""

UNKNOWN = "unknown"


def show_report(
    report: AuditReport, console: Console, currency: Currency, prices: PriceTable
) -> None:
    """Print the totals, the groups by cost, their next steps, and the assumptions."""
    console.print(headline(report), style="bold")
    if not report.groups:
        console.print(NO_GROUPS)
        _print_faults(report, console)
        return
    for line in total_lines(report, currency):
        console.print(line)
    console.print()
    wide = console.width >= WIDE
    shown = report.groups if wide else report.groups[:MAX_GROUPS]
    console.print(_wide_table(shown, currency) if wide else _narrow_table(shown, currency))
    if hidden := len(report.groups) - len(shown):
        console.print(f"... and {format_count(hidden, 'more group')}: --json and --html have all")
    if any(map(is_out_of_reach, shown)):
        console.print("(%): the assignor of this group cannot be replaced; leaders can move to it")
    if not wide:
        _print_steps(report, console)
    console.print()
    for line in [*finding_lines(report), *assumption_lines(report, currency, prices)]:
        console.print(line)
    _print_faults(report, console)


NO_GROUPS = "No consumer groups are visible; if there are any, grant this user Describe on them."


def headline(report: AuditReport) -> str:
    """Return the size of the cluster in one line."""
    names = [NO_RACK if rack is None else rack for rack in report.racks]
    brokers = sum(report.racks.values())
    return (
        f"{format_count(len(report.groups), 'group')}, "
        f"{format_count(report.partitions, 'partition')} of "
        f"{format_count(report.topics, 'topic')}, {format_count(brokers, 'broker')} in "
        f"{format_count(len(names), 'rack')} ({escape_controls(format_list(names))})"
    )


def total_lines(report: AuditReport, currency: Currency) -> Iterator[str]:
    """Yield the totals now, and after all steps."""
    now = report.total(lambda row: row.now)
    after = report.total(lambda row: row.layout)
    yield (
        f"Read across racks: {format_count(now.off_rack, 'partition')}, "
        f"{bytes_a_day(now.crossing)} a day, {currency.text(now.cost)} a month"
    )
    if any(row.layout is not None for row in report.groups):
        yield (
            f"After all steps:   {format_count(after.off_rack, 'partition')}, "
            f"{bytes_a_day(after.crossing)} a day, {currency.text(after.cost)} a month"
        )
    if now.unknown:
        unknown = bytes_a_day(now.unknown)
        yield f"Unknown:           {unknown} a day: a rack, or the replica read, is unknown"


def bytes_a_day(rate: float) -> str:
    """Return a rate in bytes per second as bytes a day."""
    return format_bytes(rate * DAY_SECONDS)


def client_text(row: GroupAudit) -> str:
    """Return the client of a group as far as it is known, and who assigns its partitions."""
    if row.group is None:
        return ""
    names = [UNKNOWN if each is None else each.value for each in row.libraries]
    client = " + ".join(names) if names != [UNKNOWN] else "client unknown"
    protocol = row.group.protocol or "no assignor"
    match row.led_by:
        case LedBy.BROKERS:
            assignor = f"new protocol, {protocol}"
        case LedBy.LEAD:
            assignor = f"{protocol}, led by rackward"
        case LedBy.OURS:
            assignor = f"{protocol}, ours"
        case _:
            assignor = protocol
    return escape_controls(f"{client}, {assignor}" if row.libraries else assignor)


def locality(row: GroupAudit, reads: Reads | None) -> str:
    """Return the share of partitions that are not off-rack, or why it is not known."""
    if reads is None:
        return ""
    if row.partitions and row.unknown == row.partitions:
        return UNKNOWN
    if row.rackless_members and row.group and row.rackless_members == len(row.group.members):
        return UNKNOWN
    return percent(1 - reads.off_rack / row.partitions) if row.partitions else ""


def cost_text(row: GroupAudit, reads: Reads | None, currency: Currency) -> str:
    """Return the cost per month; ``+`` if racks are unknown for a part of the traffic."""
    if reads is None:
        return ""
    if reads.unknown and not reads.crossing and row.rackless_members:
        return UNKNOWN
    return currency.text(reads.cost) + ("+" if reads.unknown else "")


def _title(row: GroupAudit) -> Text:
    """Return a group's name, and below it its client, and the reason if it has no figures."""
    title = Text(escape_controls(row.id), style="bold")
    if row.group is not None:
        title.append(f"\n{client_text(row)}", style="not bold dim")
    for note in notes(row):
        title.append(f"\n{escape_controls(note)}", style="not bold yellow")
    return title


def notes(row: GroupAudit) -> Iterator[str]:
    """Yield what is wrong with a group: why it has no figures, and topics that are missing."""
    if row.reason is not None:
        yield row.reason
    if row.missing_topics:
        topics = format_count(len(row.missing_topics), "topic")
        yield f"missing, or without Describe: {topics} ({format_list(row.missing_topics)})"


def locality_at_best(row: GroupAudit) -> str:
    """Return the locality with rackward's assignor, in parentheses if the group cannot have it."""
    text = locality(row, row.assignor)
    return f"({text})" if is_out_of_reach(row) else text


def is_out_of_reach(row: GroupAudit) -> bool:
    """Return whether "assignor" is a known figure of an assignor that the group cannot have."""
    return (
        row.group is not None
        and row.assignor is not None
        and not can_follow(row.group)
        and locality(row, row.assignor) != UNKNOWN
    )


def _narrow_table(rows: tuple[GroupAudit, ...], currency: Currency) -> Table:
    shown = table()
    shown.add_column("group\nclient, assignor", ratio=1, overflow="fold")
    for name in ("now", "assignor", "+ leaders"):
        shown.add_column(f"{name}\na month", justify="right", no_wrap=True)
    shown.expand = True
    for row in rows:
        localities = (locality(row, row.now), locality_at_best(row), locality(row, row.layout))
        figures = (row.now, row.assignor, row.layout)
        cells = [
            f"{share}\n{cost_text(row, reads, currency)}" if reads is not None else ""
            for share, reads in zip(localities, figures, strict=True)
        ]
        shown.add_row(_title(row), *cells)
    return shown


def _wide_table(rows: tuple[GroupAudit, ...], currency: Currency) -> Table:
    shown = table()
    for name in ("group", "client, assignor"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("members", justify="right")
    shown.add_column("partitions", justify="right")
    for name in ("now", "assignor", "+ leaders"):
        shown.add_column(f"local {name}", justify="right", no_wrap=True)
    for name in ("now", "assignor", "+ leaders"):
        shown.add_column(f"a month {name}", justify="right", no_wrap=True)
    shown.add_column("next step", no_wrap=True)
    for row in rows:
        figures = (row.now, row.assignor, row.layout)
        if row.now is None:
            cells = ["", "", *[""] * 6, "; ".join(notes(row))]
        else:
            members = 0 if row.group is None else len(row.group.members)
            cells = [
                f"{members:,}",
                f"{row.partitions:,}",
                *(locality(row, row.now), locality_at_best(row), locality(row, row.layout)),
                *(cost_text(row, reads, currency) for reads in figures),
                "; ".join([*notes(row), step_text(row)]),
            ]
        shown.add_row(
            escape_controls(row.id), client_text(row), *(escape_controls(cell) for cell in cells)
        )
    return shown


def step_text(row: GroupAudit) -> str:
    """Return the next step of a group in one line."""
    if not row.steps:
        return "nothing"
    return "; then ".join(f"{each.text}: {'; '.join(each.lines)}" for each in row.steps)


def _print_steps(report: AuditReport, console: Console) -> None:
    """Print the steps of the groups; leaders last, once for groups that are laid out together."""
    console.print()
    rows = [row for row in report.groups if row.steps]
    if not rows:
        console.print("No step would make a group more local.")
        return
    console.print("Next steps", style="bold")
    together: dict[Step, list[GroupAudit]] = {}
    for row in rows[:MAX_STEPS]:
        for step in row.steps:
            if step.kind is StepKind.MOVE_LEADERS:
                together.setdefault(step, []).append(row)
            else:
                _print_step(f"{row.id}: {step.text}", step, console)
    for step, of_step in together.items():
        then = "then " if any(len(row.steps) > 1 for row in of_step) else ""
        names = format_list([row.id for row in of_step])
        _print_step(f"{names}: {then}{step.text}", step, console)
    if len(rows) > MAX_STEPS:
        more = format_count(len(rows) - MAX_STEPS, "more group")
        console.print(f"... and of {more}: --json and --html have all")


def _print_step(text: str, step: Step, console: Console) -> None:
    console.print(escape_controls(text))
    for line in step.lines:
        # Without wrapping, so that commands can be copied.
        console.print(f"  {escape_controls(line)}", soft_wrap=True)


def finding_lines(report: AuditReport) -> Iterator[str]:
    """Yield a line about the findings of the placement, if there are any."""
    counts = {
        severity: sum(each.severity is severity for each in report.findings)
        for severity in Severity
    }
    texts = [f"{count:,} {severity.value}" for severity, count in counts.items() if count]
    if texts:
        yield f"Findings of the layout: {', '.join(texts)}. See rackward placement check"


def assumption_lines(report: AuditReport, currency: Currency, prices: PriceTable) -> Iterator[str]:
    """Yield what the figures rest on."""
    rates = report.rates
    if rates.watched_seconds is None:
        yield (
            "Assumed: each group reads once what was written in the last 24 hours (the last hour "
            "for younger logs). --watch SECONDS measures it."
        )
    else:
        by_source = {
            source: sum(row.rate_source is source for row in report.groups)
            for source in (RateSource.COMMITTED, RateSource.WRITTEN)
        }
        yield (
            f"Measured for {format_duration(rates.watched_seconds)}: committed offsets of "
            f"{format_count(by_source[RateSource.COMMITTED], 'group')}; "
            f"{format_count(by_source[RateSource.WRITTEN], 'group')} committed nothing, and are "
            "assumed to read what was written."
        )
    yield from selector_lines(report)
    if rates.unsized:
        yield (
            f"Assumed: {ASSUMED_RECORD_BYTES:,.0f} bytes per record of "
            f"{format_count(rates.unsized, 'partition')} whose log sizes cannot be read."
        )
    month = f"a month of {HOURS_PER_MONTH:g} hours"
    if len(prices.rules) == 1:
        per_gb = currency.prefix + f"{prices.rules[0].per_gb:g}"
        yield f"Price: {per_gb} per GB across racks, for {month} (--prices)."
    else:
        yield f"Price: {len(prices.rules)} rules, for {month}."


def selector_lines(report: AuditReport) -> Iterator[str]:
    """Yield which replicas consumers are assumed to read, unless leaders for certain."""
    brokers = sum(report.selectors.values())
    for name, count in report.selectors.items():
        of_all = f"{count:,} of {format_count(brokers, 'broker')}"
        if name is None:
            yield (
                f"Assumed: consumers read from leaders: replica.selector.class of {of_all} cannot "
                "be read."
            )
        elif name == RACK_AWARE_SELECTOR:
            yield (
                f"Follower fetching: on ({of_all}). Members that join with a rack read from a "
                "replica in it, those of rackward's assignors from leaders. Whether others do "
                "(client_rack of kafka-python and aiokafka) is unknown."
            )
        elif name:
            yield (
                f"Assumed: consumers read from leaders: {of_all} have the replica.selector.class "
                f"{escape_controls(name)}, whose choice is not known."
            )


def _print_faults(report: AuditReport, console: Console) -> None:
    for fault in report.faults:
        console.print(f"Not read: {escape_controls(fault)}", style="yellow")


# ---- `rackward groups list`.


def show_groups(report: AuditReport, console: Console, currency: Currency) -> None:
    """Print a line for each group."""
    if not report.groups:
        console.print(NO_GROUPS)
    else:
        wide = console.width >= WIDE
        console.print(_list_table(report.groups, currency, wide=wide))
    _print_faults(report, console)


_SHORT = {"members": "mem-\nbers", "partitions": "parti-\ntions"}


def _list_table(rows: tuple[GroupAudit, ...], currency: Currency, *, wide: bool) -> Table:
    shown = table()
    if wide:
        for name in ("group", "assignor"):
            shown.add_column(name, no_wrap=True)
    else:
        shown.add_column("group\nclient, assignor", ratio=1, overflow="fold")
        shown.expand = True
    breaks = " " if wide else "\n"
    for name in ("members", "partitions", f"off{breaks}rack", "local"):
        shown.add_column(name if wide else _SHORT.get(name, name), justify="right")
    for name in ("across", "cost"):
        period = "a day" if name == "across" else "a month"
        shown.add_column(f"{name}{breaks}{period}", justify="right", no_wrap=True)
    for row in rows:
        cells = []
        if row.now is not None and row.group is not None:
            cells = [
                f"{len(row.group.members):,}",
                f"{row.partitions:,}",
                f"{row.now.off_rack:,}",
                locality(row, row.now),
                bytes_a_day(row.now.crossing),
                cost_text(row, row.now, currency),
            ]
        if wide:
            name = escape_controls(row.id)
            shown.add_row(name, escape_controls("; ".join(notes(row)) or client_text(row)), *cells)
        else:
            shown.add_row(_title(row), *cells)
    return shown


# ---- JSON.

GROUP_JSON = """groups: [{group, type, state, protocol, reason (why there are no figures,
           else null), libraries: [{library (null: unknown), members}],
           client_ids: [text], led_by (client, brokers, rackward's assignor,
           rackward lead), topics: [name], missing_topics: [name], members,
           rackless_members, partitions, local, unknown,
           bytes_per_second, rate_source (committed, written, logs),
           now: READS"""
"""The beginning of the schema of a group."""

MAX_CLIENT_IDS = 20


def report_json(
    report: AuditReport, currency: Currency, prices: PriceTable, *, best: bool = True
) -> dict[str, Any]:
    """Return the fields of the command's JSON."""
    totals: dict[str, Callable[[GroupAudit], Reads | None]] = {"now": lambda row: row.now}
    if best:
        totals["assignor"] = lambda row: row.assignor
        totals["layout"] = lambda row: row.layout
    fields: dict[str, Any] = {
        "cluster_id": report.cluster_id,
        "racks": [{"rack": rack, "brokers": count} for rack, count in report.racks.items()],
        "topics": report.topics,
        "partitions": report.partitions,
        "replica_selectors": [
            {"class": name, "brokers": count} for name, count in report.selectors.items()
        ],
        "rates": {
            "watched_seconds": report.rates.watched_seconds,
            "unsized_partitions": report.rates.unsized,
            "assumptions": list(assumption_lines(report, currency, prices)),
        },
        "currency": currency.sign,
        "totals": {name: reads_json(report.total(reads)) for name, reads in totals.items()},
        "groups": [group_json(row, best=best) for row in report.groups],
        "faults": list(report.faults),
    }
    if best:
        fields["findings"] = [
            {
                "severity": finding.severity.value,
                "kind": finding.kind.value,
                "subject": finding.subject,
                "message": finding.message,
            }
            for finding in report.findings
        ]
    return fields


def reads_json(reads: Reads | None) -> dict[str, Any] | None:
    """Return what a group reads across racks as JSON."""
    if reads is None:
        return None
    return {
        "off_rack": reads.off_rack,
        "crossing_bytes_per_second": round(reads.crossing, 3),
        "unknown_bytes_per_second": round(reads.unknown, 3),
        "cost_per_month": round(reads.cost, 4),
    }


def group_json(row: GroupAudit, *, best: bool) -> dict[str, Any]:
    """Return a group as JSON."""
    group = row.group
    fields: dict[str, Any] = {
        "group": row.id,
        "type": None if group is None else group.type,
        "state": None if group is None else group.state,
        "protocol": None if group is None else group.protocol,
        "reason": row.reason,
        "libraries": [
            {"library": None if library is None else library.value, "members": count}
            for library, count in row.libraries.items()
        ],
        "client_ids": []
        if group is None
        else sorted({member.client_id for member in group.members})[:MAX_CLIENT_IDS],
        "led_by": None if row.led_by is None else row.led_by.value,
        "topics": list(row.topics),
        "missing_topics": list(row.missing_topics),
        "members": None if group is None else len(group.members),
        "rackless_members": row.rackless_members,
        "partitions": row.partitions,
        "local": row.local,
        "unknown": row.unknown,
        "bytes_per_second": round(row.rate, 3),
        "rate_source": None if row.rate_source is None else row.rate_source.value,
        "now": reads_json(row.now),
    }
    if best:
        fields |= {
            "assignor": reads_json(row.assignor),
            "assignor_usable": group is not None and can_follow(group),
            "layout": reads_json(row.layout),
            "layout_proved": row.layout_proved,
            "findings": [
                {
                    "reason": finding.reason.value,
                    "rack": finding.rack,
                    "count": finding.count,
                    "why": finding_text(group, finding),
                }
                for finding in row.findings
                if group is not None
            ],
            "steps": [step_json(step) for step in row.steps],
        }
    return fields


def step_json(step: Step) -> dict[str, Any]:
    """Return a step as JSON."""
    return {"kind": step.kind.value, "text": step.text, "lines": list(step.lines)}
