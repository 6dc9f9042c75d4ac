"""``rackward placement check``: problems of the replica placement."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from placement_core.audit import Audit, Figures, Severity, audit
from placement_core.locators import apply_locator
from rackward.cli.live import step_reporter
from rackward.cli.options import ClusterOptions, Json, LocatorOptions, TopicOptions
from rackward.cli.output import number, print_json, stderr, stdout, table, text
from rackward.cli.plan_output import add_load_rows
from rackward.kafka import AdminConnection, AdminError, ClusterState, read_state
from rackward.kafka.configs import read_min_isr
from rackward.kafka.metadata import read_hidden_topics
from rackward.topics.creator import read_replication_targets
from rackward.topics.health import read_throttle_findings
from rackward.units import format_count, format_list

EPILOG = """
\b
Examples:
  rackward placement check
  rackward placement check --topics 'orders*' --fail-on critical

Exit status: 0 no finding of the severity --fail-on or higher; 1 such a finding; 2 error (reason on
stderr).

Severities: critical (data cannot be read or written now), warning (the next failure may cause
that, or the load is uneven), notice (no risk).
"""


class FailOn(StrEnum):
    """The lowest severity with which the command fails."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"
    NEVER = "never"


class CheckOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a check.

    ok
        Whether there is no finding of the severity ``fail_on`` or higher.
    hidden_topics
        Topics that this user may not describe; null: unknown.
    """

    ok: bool
    fail_on: FailOn
    tolerance: float
    hidden_topics: list[str] | None


RESULTS = (CheckOutcome, Audit)


def check(
    *,
    topics: TopicOptions,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=100.0,
            help="Accepted deviation from an even load of brokers and racks; 0.1 is 10 %.",
        ),
    ] = 0.1,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with status 1 on findings of this severity or higher.")
    ] = FailOn.WARNING,
    ignore_racks: Annotated[
        bool, typer.Option("--ignore-racks", help="Check as if no broker had a rack.")
    ] = False,
    locators: LocatorOptions,
    as_json: Json = False,
    cluster: ClusterOptions,
) -> None:
    """Check the placement: racks, replication, balance and leaders.

    Lists the partitions that would be offline, or below min.insync.replicas, if one rack failed;
    partitions that are not spread over racks; brokers with more than their share; and a replication
    throttle that is in force.
    """
    locator = locators.locator(ignore_racks=ignore_racks)
    progress = step_reporter(stderr())
    with cluster.connect() as admin:
        progress("Reading topics")
        state = read_state(admin)
        hidden = _read_hidden_topics(admin, state)
        state = state.only(topics.match(state.topics))
        progress("Reading configurations")
        min_isr = read_min_isr(admin, state.topics)
        targets, reason = read_replication_targets(admin, cluster.properties(), state)
        progress("Reading throttles")
        throttled, unread = read_throttle_findings(admin, reassigning=bool(state.reassignments))
    if unread is not None:
        stderr().print(f"Throttles are not shown: {unread}", style="yellow")
    if reason is not None:
        stderr().print(f"Placeholders are not shown: {reason}", style="yellow")
    view = apply_locator(locator, state.view)
    if ignore_racks:
        view = view.without_racks()
    view = state.without_adding_replicas(view)
    report = audit(
        view,
        in_sync=state.in_sync,
        min_isr=min_isr,
        tolerance=tolerance,
        targets=targets,
    )
    severities = list(Severity)
    findings = [*report.findings, *throttled]
    findings.sort(key=lambda finding: severities.index(finding.severity))
    report = replace(report, findings=tuple(findings))
    failing = () if fail_on is FailOn.NEVER else severities[: list(FailOn).index(fail_on) + 1]
    ok = not any(finding.severity in failing for finding in findings)
    if as_json:
        outcome = CheckOutcome(ok=ok, fail_on=fail_on, tolerance=tolerance, hidden_topics=hidden)
        print_json("placement check", outcome, report)
    else:
        show_audit(report, stdout(), reassigning=len(state.reassignments))
    if not ok:
        raise typer.Exit(1)


def _read_hidden_topics(admin: AdminConnection, state: ClusterState) -> list[str] | None:
    """Return the topics that this user may not describe, and print how many they are.

    None if that is not known.
    """
    try:
        hidden = read_hidden_topics(admin, state)
    except AdminError as error:
        stderr().print(f"Whether there are topics that are not shown is unknown: {error}")
        return None
    if hidden:
        stderr().print(
            f"Not checked: {format_count(len(hidden), 'topic')} that this user may not describe "
            f"({format_list(hidden)}): grant Describe on them",
            style="yellow",
        )
    return hidden


# ---- The audit as tables.

MAX_FINDINGS = 25
"""Maximum number of findings per severity in the table; the JSON has all."""
MAX_LOST_RACK_COLUMNS_LENGTH = 30
"""With longer rack names in total, the columns for the loss of each rack are left out."""

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: ""}


def show_audit(report: Audit, console: Console, *, reassigning: int = 0) -> None:
    """Print the figures, then the findings, the most severe first.

    ``reassigning`` is the number of partitions with a reassignment in progress.
    """
    figures = report.figures
    console.print(
        f"{format_count(figures.partitions, 'partition')} with "
        f"{format_count(figures.replicas, 'replica')} on "
        f"{format_count(len(report.brokers), 'broker')}"
        + (f"; {reassigning:,} being reassigned" if reassigning else ""),
        style="bold",
    )
    load = table("rack", *map(number, ("broker", "replicas", "leaders", "preferred\nleaders")))
    add_load_rows(load, report.racks, report.brokers, ("replicas", "leaders", "preferred"))
    for shown in (_figure_table(figures), load):
        console.print()
        console.print(shown)
    console.print()
    for severity in Severity:
        _print_findings(report, severity, console)
    if not report.findings:
        console.print("No findings.", style="green")


def _figure_table(figures: Figures) -> Table:
    lost = figures.lost_with_rack
    if sum(len(each.rack) for each in lost) > MAX_LOST_RACK_COLUMNS_LENGTH:
        lost = ()
    headings = (number(f"without\nrack {each.rack}") for each in lost)
    rows = table("partitions", number("now"), *headings)
    offline = (f"+{each.offline:,}" for each in lost)
    rows.add_row("without a leader", text(figures.offline), *offline)
    below = (f"+{each.below_min_in_sync:,}" for each in lost)
    rows.add_row("below min.insync.replicas", text(figures.below_min_in_sync), *below)
    rows.add_row("not fully in sync", text(figures.under_replicated))
    rows.add_row("not led by the preferred replica", text(figures.not_preferred))
    if figures.against_rack_rules is not None:
        rows.add_row("not spread over racks", text(figures.against_rack_rules))
    return rows


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
        words = message if message.startswith(subject) else f"{subject}: {message}"
        grid.add_row(severity.value, words)
    console.print(grid)
    if hidden := len(findings[MAX_FINDINGS:]):
        console.print(f"... and {hidden:,} more of severity {severity.value}: --json has all")
