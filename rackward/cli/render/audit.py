"""An audit of the placement as tables and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from placement_core import ClusterView
from placement_core.audit import Audit, ReplicaCounts, Severity
from rackward.cli.console import table
from rackward.cli.render.plan import MAX_BROKER_ROWS, NO_RACK, format_range
from rackward.units import format_count

MAX_FINDINGS = 25
"""Maximum number of findings per severity in the table; the JSON has all."""
MAX_LOST_RACK_COLUMNS_LENGTH = 30
"""With longer rack names in total, the columns for the loss of each rack are left out."""

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: ""}


def show_audit(report: Audit, view: ClusterView, console: Console, *, reassigning: int) -> None:
    """Print the figures, then the findings, the most severe first.

    ``reassigning`` is the number of partitions with a reassignment in progress.
    """
    figures = report.figures
    console.print(
        f"{format_count(figures.partitions, 'partition')} with "
        f"{format_count(figures.replicas, 'replica')} on "
        f"{format_count(len(figures.brokers), 'broker')}"
        + (f"; {reassigning:,} being reassigned" if reassigning else ""),
        style="bold",
    )
    console.print()
    console.print(_figure_table(report))
    console.print()
    console.print(_load_table(report, view))
    console.print()
    for severity in Severity:
        _print_findings(report, severity, console)
    if not report.findings:
        console.print("No findings.", style="green")


def _figure_table(report: Audit) -> Table:
    figures = report.figures
    rows = table()
    rows.add_column("partitions")
    rows.add_column("now", justify="right")
    racks = list(figures.lost_offline)
    if sum(map(len, racks)) > MAX_LOST_RACK_COLUMNS_LENGTH:
        racks = []
    for rack in racks:
        rows.add_column(f"without\nrack {rack}", justify="right")
    for name, now, lost in (
        ("without a leader", figures.offline, figures.lost_offline),
        ("below min.insync.replicas", figures.below_min_in_sync, figures.lost_below_min_in_sync),
    ):
        rows.add_row(name, f"{now:,}", *(f"+{lost[rack]:,}" for rack in racks))
    rows.add_row("not fully in sync", f"{figures.under_replicated:,}")
    rows.add_row("not led by the preferred replica", f"{figures.not_preferred:,}")
    if figures.against_rack_rules is not None:
        rows.add_row("not spread over racks", f"{figures.against_rack_rules:,}")
    return rows


def _load_table(report: Audit, view: ClusterView) -> Table:
    rows = table()
    rows.add_column("rack", overflow="fold")
    rows.add_column("broker", justify="right")
    for name in ("replicas", "leaders", "preferred\nleaders"):
        rows.add_column(name, justify="right")
    racks, brokers = view.racks(), report.figures.brokers
    many = len(brokers) > MAX_BROKER_ROWS
    for rack, rack_counts in report.figures.racks.items():
        name = NO_RACK if rack is None else rack
        members = {b: counts for b, counts in brokers.items() if (racks[b] or None) == rack}
        label = f"{len(members)} brokers" if many else "all"
        rows.add_row(name, label, *_cells(rack_counts), style="bold")
        if many:
            columns = zip(*(_fields(counts).values() for counts in members.values()), strict=True)
            rows.add_row("", "each", *map(format_range, columns))
            continue
        for broker, counts in members.items():
            rows.add_row("", str(broker), *_cells(counts))
    return rows


def _cells(counts: ReplicaCounts) -> list[str]:
    return [f"{count:,}" for count in _fields(counts).values()]


def _print_findings(report: Audit, severity: Severity, console: Console) -> None:
    findings = [finding for finding in report.findings if finding.severity is severity]
    if not findings:
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style=_STYLES[severity])
    grid.add_column(overflow="fold")
    for finding in findings[:MAX_FINDINGS]:
        subject, message = finding.subject, finding.message
        # Some messages begin with their subject.
        text = message if message.startswith(subject) else f"{subject}: {message}"
        grid.add_row(severity.value, text)
    console.print(grid)
    if hidden := len(findings[MAX_FINDINGS:]):
        console.print(f"... and {hidden:,} more of severity {severity.value}: --json has all")


def audit_json(report: Audit, view: ClusterView) -> dict[str, Any]:
    """Return the fields of an audit in a command's JSON."""
    figures, racks = report.figures, view.racks()
    return {
        "figures": {
            "partitions": figures.partitions,
            "replicas": figures.replicas,
            "offline": figures.offline,
            "below_min_in_sync": figures.below_min_in_sync,
            "under_replicated": figures.under_replicated,
            "not_preferred": figures.not_preferred,
            "against_rack_rules": figures.against_rack_rules,
            "lost_with_rack": [
                {
                    "rack": rack,
                    "offline": offline,
                    "below_min_in_sync": figures.lost_below_min_in_sync[rack],
                }
                for rack, offline in figures.lost_offline.items()
            ],
        },
        "brokers": [
            {"id": broker, "rack": racks[broker], **_fields(counts)}
            for broker, counts in figures.brokers.items()
        ],
        "racks": [
            {"rack": rack, "brokers": counts.brokers, **_fields(counts)}
            for rack, counts in figures.racks.items()
        ],
        "findings": [
            {
                "severity": finding.severity.value,
                "kind": finding.kind.value,
                "subject": finding.subject,
                "message": finding.message,
                "partitions": [list(tp) for tp in finding.partitions],
            }
            for finding in report.findings
        ],
    }


def _fields(counts: ReplicaCounts) -> dict[str, int]:
    return {"replicas": counts.replicas, "leaders": counts.leaders, "preferred": counts.preferred}
