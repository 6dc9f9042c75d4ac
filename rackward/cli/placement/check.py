"""``rackward placement check``: problems of the replica placement."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from placement_core import ClusterView
from placement_core.audit import Audit, Finding, Severity, audit
from placement_core.locators import apply_locator
from rackward.cli.live import step_reporter
from rackward.cli.options import ClusterOptions, Json, LocatorOptions, TopicOptions
from rackward.cli.output import NO_RACK, number, print_json, stderr, stdout, table, text
from rackward.cli.plan_output import MAX_BROKER_ROWS, format_range
from rackward.kafka import AdminConnection, AdminError, ClusterState, read_state
from rackward.kafka.metadata import read_hidden_topics
from rackward.topics.creator import read_min_isr, read_replication_targets
from rackward.topics.health import read_throttle_findings, without_adding_replicas
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


class LostRack(msgspec.Struct, frozen=True):
    """What the loss of a rack adds to the partitions without a leader, and to those below
    min.insync.replicas."""

    rack: str
    offline: int
    below_min_in_sync: int


class PlacementFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of partitions, and of replicas.

    against_rack_rules
        Not spread over racks as evenly as possible; null: racks are not known.
    """

    partitions: int
    replicas: int
    offline: int
    below_min_in_sync: int
    under_replicated: int
    not_preferred: int
    against_rack_rules: int | None
    lost_with_rack: list[LostRack]


class BrokerCounts(msgspec.Struct, frozen=True):
    """Replicas, leaders and preferred leaders on a broker."""

    id: int
    rack: str | None
    replicas: int
    leaders: int
    preferred: int


class RackCounts(msgspec.Struct, frozen=True):
    """Brokers, replicas, leaders and preferred leaders in a rack."""

    rack: str | None
    brokers: int
    replicas: int
    leaders: int
    preferred: int


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check.

    ok
        Whether there is no finding of the severity ``fail_on`` or higher.
    findings
        The most severe first.
    hidden_topics
        Topics that this user may not describe; null: unknown.
    """

    ok: bool
    fail_on: FailOn
    tolerance: float
    figures: PlacementFigures
    brokers: list[BrokerCounts]
    racks: list[RackCounts]
    findings: list[Finding]
    hidden_topics: list[str] | None


RESULTS = (CheckResult,)


def check(
    *,
    topics: TopicOptions,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="SHARE",
            min=0.0,
            max=100.0,
            help="Accepted deviation from an even load of brokers and racks; 0.1 is 10 %.",
        ),
    ] = 0.1,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on", help="Exit with status 1 on findings of this severity or higher."
        ),
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
    with step_reporter(stderr()) as progress, cluster.connect() as admin:
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
    view = without_adding_replicas(state, view)
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
    result = check_result(report, view, fail_on, tolerance, hidden, ok=ok)
    if as_json:
        print_json("placement check", result)
    else:
        show_result(result, stdout(), reassigning=len(state.reassignments))
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


def check_result(
    report: Audit,
    view: ClusterView,
    fail_on: FailOn = FailOn.WARNING,
    tolerance: float = 0.1,
    hidden: list[str] | None = None,
    *,
    ok: bool = True,
) -> CheckResult:
    """Return an audit of ``view`` as the JSON of the command has it."""
    figures, racks = report.figures, view.racks()
    return CheckResult(
        ok=ok,
        fail_on=fail_on,
        tolerance=tolerance,
        figures=PlacementFigures(
            partitions=figures.partitions,
            replicas=figures.replicas,
            offline=figures.offline,
            below_min_in_sync=figures.below_min_in_sync,
            under_replicated=figures.under_replicated,
            not_preferred=figures.not_preferred,
            against_rack_rules=figures.against_rack_rules,
            lost_with_rack=[
                LostRack(rack, offline, figures.lost_below_min_in_sync[rack])
                for rack, offline in figures.lost_offline.items()
            ],
        ),
        brokers=[
            BrokerCounts(broker, racks[broker], each.replicas, each.leaders, each.preferred)
            for broker, each in figures.brokers.items()
        ],
        racks=[
            RackCounts(rack, each.brokers, each.replicas, each.leaders, each.preferred)
            for rack, each in figures.racks.items()
        ],
        findings=list(report.findings),
        hidden_topics=hidden,
    )


# ---- The result as tables.

MAX_FINDINGS = 25
"""Maximum number of findings per severity in the table; the JSON has all."""
MAX_LOST_RACK_COLUMNS_LENGTH = 30
"""With longer rack names in total, the columns for the loss of each rack are left out."""

_STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.NOTICE: ""}


def show_result(result: CheckResult, console: Console, *, reassigning: int = 0) -> None:
    """Print the figures, then the findings, the most severe first.

    ``reassigning`` is the number of partitions with a reassignment in progress.
    """
    figures = result.figures
    console.print(
        f"{format_count(figures.partitions, 'partition')} with "
        f"{format_count(figures.replicas, 'replica')} on "
        f"{format_count(len(result.brokers), 'broker')}"
        + (f"; {reassigning:,} being reassigned" if reassigning else ""),
        style="bold",
    )
    for shown in (_figure_table(figures), _load_table(result)):
        console.print()
        console.print(shown)
    console.print()
    for severity in Severity:
        _print_findings(result, severity, console)
    if not result.findings:
        console.print("No findings.", style="green")


def _figure_table(figures: PlacementFigures) -> Table:
    lost = figures.lost_with_rack
    if sum(len(each.rack) for each in lost) > MAX_LOST_RACK_COLUMNS_LENGTH:
        lost = []
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


def _load_table(result: CheckResult) -> Table:
    headings = ("broker", "replicas", "leaders", "preferred\nleaders")
    rows = table("rack", *map(number, headings))
    many = len(result.brokers) > MAX_BROKER_ROWS
    for rack in result.racks:
        # A rack "" of a broker counts as none.
        brokers = [broker for broker in result.brokers if (broker.rack or None) == rack.rack]
        rows.add_row(
            NO_RACK if rack.rack is None else rack.rack,
            f"{len(brokers)} brokers" if many else "all",
            *map(text, (rack.replicas, rack.leaders, rack.preferred)),
            style="bold",
        )
        counts = [(broker.replicas, broker.leaders, broker.preferred) for broker in brokers]
        if many:
            rows.add_row("", "each", *map(format_range, zip(*counts, strict=True)))
            continue
        for broker, row in zip(brokers, counts, strict=True):
            rows.add_row("", str(broker.id), *map(text, row))
    return rows


def _print_findings(result: CheckResult, severity: Severity, console: Console) -> None:
    findings = [finding for finding in result.findings if finding.severity is severity]
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
