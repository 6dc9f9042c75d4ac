"""``rackward placement check``: what is wrong with the layout, or uneven in it."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from placement_core import TopicPartition
from placement_core.audit import Severity, audit
from placement_core.locators import locate
from rackward.admin import min_in_sync, read_state, read_topic_configs
from rackward.admin.configs import MIN_IN_SYNC
from rackward.cli import options
from rackward.cli import options as selection
from rackward.cli.connect import connection_properties, open_cluster
from rackward.cli.console import print_json, stderr, stdout
from rackward.cli.options import read_placing
from rackward.cli.render.audit import audit_json, show_audit
from rackward.topics.creator import wanted_of_cluster

EPILOG = """
Exit status: 0 nothing found that is as bad as --fail-on, or worse; 1 something was; 2 it could
not be found out, with the reason in one line.

Severities: critical (data cannot be read or written now), warning (the next failure may do
that, or load is badly spread), notice (worth knowing, nothing is at risk).

\b
JSON: {schema_version: 1, command, ok, fail_on, tolerance,
 figures: {partitions, replicas, offline, below_min_in_sync, under_replicated,
           not_preferred, against_rack_rules,
           lost_with_rack: [{rack, offline, below_min_in_sync}]},
 brokers: [{id, rack, replicas, leaders, preferred}],
 racks: [{rack, brokers, replicas, leaders, preferred}],
 findings: [{severity, kind, subject, message, partitions: [[topic, number]]}]}
"""

NOBODYS = TopicPartition("", -1)

_ORDER = list(Severity)


class FailOn(StrEnum):
    """From which severity on findings make the command fail."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"
    NEVER = "never"


def check(
    topics: selection.Topics = None,
    exclude: selection.Exclude = None,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            metavar="SHARE",
            min=0.0,
            max=100.0,
            help="By what share a broker or rack may be off its fair share.",
        ),
    ] = 0.1,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Fail where something as bad as this is found.")
    ] = FailOn.WARNING,
    ignore_racks: options.IgnoreRacks = False,
    rack_locator: options.RackLocatorName = None,
    rack_locator_properties: options.RackLocatorProperties = None,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Find what is wrong with the layout: racks, redundancy, evenness, leaders.

    Which partitions the loss of one rack takes offline, or below min.insync.replicas; which
    are not spread over racks; which brokers carry more than their share.
    """
    placing = read_placing(
        ignore_racks=ignore_racks,
        rack_locator=rack_locator,
        rack_locator_properties=rack_locator_properties,
    )
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        state = read_state(admin)
        state = state.only(selection.select(state.topics, topics, exclude))
        configs = read_topic_configs(admin, state.topics, [MIN_IN_SYNC])
        properties = connection_properties(bootstrap_server, command_config)
        wanted, hidden = wanted_of_cluster(admin, properties, state)
    if hidden is not None:
        stderr().print(f"Placeholders are not shown: {hidden}", style="yellow")
    view = locate(placing.locator, state.view)
    if ignore_racks:
        view = view.without_racks()
    # A partition under reassignment is judged without the replicas that are still to come.
    present = {
        place: tuple(b for b in each.replicas if b not in each.adding)
        for place, each in state.ongoing.items()
    }
    view = replace(view, replicas={**view.replicas, **present})
    if not view.leaders:
        # A view without any leader is one that does not know them; here nobody leads.
        view = replace(view, leaders={NOBODYS: -1})
    found = audit(
        view,
        in_sync=state.in_sync,
        min_in_sync=min_in_sync(configs),
        tolerance=tolerance,
        wanted=wanted,
    )
    failed = fail_on is not FailOn.NEVER and any(
        _ORDER.index(finding.severity) <= _ORDER.index(Severity(fail_on.value))
        for finding in found.findings
    )
    if as_json:
        fields = {"ok": not failed, "fail_on": fail_on.value, "tolerance": tolerance}
        print_json("placement check", {**fields, **audit_json(found, view)})
    else:
        show_audit(found, view, stdout(), under_way=len(state.ongoing))
    if failed:
        raise typer.Exit(1)
