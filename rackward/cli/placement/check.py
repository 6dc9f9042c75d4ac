"""``rackward placement check``: problems of the replica placement."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from placement_core.audit import Severity, audit
from placement_core.locators import apply_locator
from rackward.cli import options
from rackward.cli.console import print_json, stderr, stdout
from rackward.cli.options import ClusterOptions, match_topics, parse_placement
from rackward.cli.render.audit import audit_json, show_audit
from rackward.cli.render.progress import step_reporter
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

\b
JSON: {schema_version: 1, command, ok, fail_on, tolerance,
 figures: {partitions, replicas, offline, below_min_in_sync, under_replicated,
           not_preferred, against_rack_rules,
           lost_with_rack: [{rack, offline, below_min_in_sync}]},
 brokers: [{id, rack, replicas, leaders, preferred}],
 racks: [{rack, brokers, replicas, leaders, preferred}],
 findings: [{severity, kind, subject, message,
             partitions: [[topic, number]]}],
 hidden_topics: [topic that this user may not describe] (null: unknown)}
"""


class FailOn(StrEnum):
    """The lowest severity with which the command fails."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"
    NEVER = "never"


def check(
    topics: options.Topics = None,
    exclude: options.Exclude = None,
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
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Check the placement: racks, replication, balance and leaders.

    Lists the partitions that would be offline, or below min.insync.replicas, if one rack failed;
    partitions that are not spread over racks; brokers with more than their share; and a replication
    throttle that is in force.
    """
    placing = parse_placement(
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    with step_reporter(stderr()) as progress, cluster.connect() as admin:
        progress("Reading topics")
        state = read_state(admin)
        hidden = _read_hidden_topics(admin, state)
        state = state.only(match_topics(state.topics, topics, exclude))
        progress("Reading configurations")
        min_isr = read_min_isr(admin, state.topics)
        targets, reason = read_replication_targets(admin, cluster.properties(), state)
        progress("Reading throttles")
        throttled, unread = read_throttle_findings(admin, reassigning=bool(state.reassignments))
    if unread is not None:
        stderr().print(f"Throttles are not shown: {unread}", style="yellow")
    if reason is not None:
        stderr().print(f"Placeholders are not shown: {reason}", style="yellow")
    view = apply_locator(placing.locator, state.view)
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
    failed = fail_on is not FailOn.NEVER and any(
        severities.index(finding.severity) <= severities.index(Severity(fail_on.value))
        for finding in report.findings
    )
    if as_json:
        fields = {"ok": not failed, "fail_on": fail_on.value, "tolerance": tolerance}
        hidden_topics = {"hidden_topics": hidden}
        print_json("placement check", {**fields, **audit_json(report, view), **hidden_topics})
    else:
        show_audit(report, view, stdout(), reassigning=len(state.reassignments))
    if failed:
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
