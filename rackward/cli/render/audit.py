"""An audit as tables and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from placement_core import ClusterView
from placement_core.audit import Audit, Severity
from placement_core.audit.model import Share
from rackward.cli.console import table
from rackward.cli.render.load import MOST_BROKERS, NO_RACK
from rackward.units import count_text

MOST_FINDINGS = 25
"""Findings of a severity that are shown; JSON has all."""

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: ""}


def show_audit(found: Audit, view: ClusterView, console: Console, *, under_way: int) -> None:
    """Print figures, then findings from the worst on."""
    figures = found.figures
    console.print(
        f"{count_text(figures.partitions, 'partition')} with "
        f"{count_text(figures.replicas, 'replica')} on {count_text(len(figures.brokers), 'broker')}"
        + (f"; {under_way:,} are being reassigned" if under_way else ""),
        style="bold",
    )
    console.print()
    console.print(_figures(found))
    console.print()
    console.print(_shares(found, view))
    console.print()
    for severity in Severity:
        _findings(found, severity, console)
    if not found.findings:
        console.print("Nothing was found.", style="green")


def _figures(found: Audit) -> Table:
    figures = found.figures
    made = table()
    made.add_column("partitions that are")
    made.add_column("now", justify="right")
    lost = list(figures.lost_offline)
    shown = lost if sum(map(len, lost)) <= 30 else []
    for rack in shown:
        made.add_column(f"without\nrack {rack}", justify="right")
    rows = (
        ("without a leader", figures.offline, figures.lost_offline),
        ("below min.insync.replicas", figures.below_min_in_sync, figures.lost_below_min_in_sync),
    )
    for name, now, without in rows:
        made.add_row(name, f"{now:,}", *(f"+{without[rack]:,}" for rack in shown))
    others = [
        ("not fully in sync", figures.under_replicated),
        ("not led by the preferred replica", figures.not_preferred),
    ]
    if figures.against_rack_rules is not None:
        others.append(("not spread over racks", figures.against_rack_rules))
    for name, now in others:
        made.add_row(name, f"{now:,}")
    return made


def _shares(found: Audit, view: ClusterView) -> Table:
    made = table()
    made.add_column("rack", overflow="fold")
    made.add_column("broker", justify="right")
    for name in ("replicas", "leaders", "preferred\nleaders"):
        made.add_column(name, justify="right")
    racks, brokers = view.racks(), found.figures.brokers
    many = len(brokers) > MOST_BROKERS
    for rack, share in found.figures.racks.items():
        name = NO_RACK if rack is None else rack
        members = {b: each for b, each in brokers.items() if (racks[b] or None) == rack}
        made.add_row(
            name, f"{len(members)} brokers" if many else "all", *_cells(share), style="bold"
        )
        if many:
            made.add_row("", "each", *_ranges(list(members.values())))
            continue
        for broker, each in members.items():
            made.add_row("", str(broker), *_cells(each))
    return made


def _cells(share: Share) -> list[str]:
    return [f"{count:,}" for count in (share.replicas, share.leaders, share.preferred)]


def _ranges(shares: list[Share]) -> list[str]:
    columns = zip(*((each.replicas, each.leaders, each.preferred) for each in shares), strict=True)
    return [
        f"{min(column):,}" if min(column) == max(column) else f"{min(column):,} to {max(column):,}"
        for column in columns
    ]


def _findings(found: Audit, severity: Severity, console: Console) -> None:
    findings = [finding for finding in found.findings if finding.severity is severity]
    if not findings:
        return
    # A table without lines: what is told hangs beside its severity.
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style=_STYLES[severity])
    grid.add_column(overflow="fold")
    for finding in findings[:MOST_FINDINGS]:
        subject, message = finding.subject, finding.message
        # Some messages begin with what they are about.
        told = message if message.startswith(subject) else f"{subject}: {message}"
        grid.add_row(severity.value, told)
    console.print(grid)
    if len(findings) > MOST_FINDINGS:
        hidden = len(findings) - MOST_FINDINGS
        console.print(f"... and {hidden:,} more of {severity.value}: --json has all")


def audit_json(found: Audit, view: ClusterView) -> dict[str, Any]:
    """The audit's fields of a command's JSON."""
    figures, racks = found.figures, view.racks()
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
            {"id": broker, "rack": racks[broker], **_fields(share)}
            for broker, share in figures.brokers.items()
        ],
        "racks": [
            {"rack": rack, "brokers": share.brokers, **_fields(share)}
            for rack, share in figures.racks.items()
        ],
        "findings": [
            {
                "severity": finding.severity.value,
                "kind": finding.kind.value,
                "subject": finding.subject,
                "message": finding.message,
                "partitions": [list(place) for place in finding.partitions],
            }
            for finding in found.findings
        ],
    }


def _fields(share: Share) -> dict[str, int]:
    return {"replicas": share.replicas, "leaders": share.leaders, "preferred": share.preferred}
