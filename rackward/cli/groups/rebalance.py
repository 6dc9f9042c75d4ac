"""``rackward groups rebalance``: request a rebalance of a group that assigns by leaders' racks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import typer

from placement_core import InvalidOptionError
from rackward.cli import options
from rackward.cli.console import (
    confirm,
    escape_controls,
    print_json,
    require_confirmation,
    table_console,
)
from rackward.cli.options import ClusterOptions
from rackward.groups.explain import check_explainable, explain_live_group, leader_advice
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import assigned_by_rackward, find_groups
from rackward.groups.rebalance import request_rebalance, wait_until_stable
from rackward.kafka import AdminConnection, read_state
from rackward.kafka.groups import Group
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.units import format_count

REBALANCE_SECONDS = 120.0

EPILOG = """
\b
Examples:
  rackward groups rebalance billing --dry-run
  rackward groups rebalance billing --yes

For groups that are assigned by the racks of leaders, after leaders have moved (leaders apply).
Other groups are refused, since a rebalance gives them no regard to leaders; the error says what
helps instead.

A member without topics joins the group and leaves it at once, so that the members rejoin: one
rebalance, with the same members and the same leader. Members of a cooperative assignor keep reading
what they keep. Needs Read and Describe on the group.

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr).

\b
JSON: {schema_version: 1, command, group, dry_run, partitions,
 off_rack_before, optimum, off_rack_after, seconds}
"""


def rebalance(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.")],
    mapping: options.RackMapping = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Request a rebalance of a group that is assigned by the racks of leaders.

    Waits until the group is stable again and shows its locality before and after.
    """
    require_confirmation(yes, dry_run, None)
    host_racks = HostRacks.parse_option("--mapping", mapping)
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    console = table_console(as_json)
    with cluster.connect() as admin:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        live = check_explainable(group, find_groups(admin, brokers, [group]).get(group))
        if not assigned_by_rackward(live):
            raise InvalidOptionError(f"group {group}: {leader_advice(live)}")
        selectors = TolerantReader(admin).replica_selectors(sorted(brokers))
        off_rack, optimum, partitions = _locality(admin, live, host_racks, selectors)
        console.print(
            f"Group {escape_controls(group)}: {off_rack:,} of "
            f"{format_count(partitions, 'partition')} off-rack, {optimum:,} at best."
        )
        fields = {
            "group": group,
            "dry_run": dry_run,
            "partitions": partitions,
            "off_rack_before": off_rack,
            "optimum": optimum,
        }
        if dry_run:
            console.print("Dry run: nothing was changed.")
            if as_json:
                print_json("groups rebalance", {**fields, "off_rack_after": None, "seconds": None})
            return
        confirm(f"Rebalance {format_count(len(live.members), 'member')} of {group}?", yes)
        began = time.monotonic()
        request_rebalance(admin, cluster.connect, live)
        live = wait_until_stable(admin, group, max(timeout, REBALANCE_SECONDS))
        seconds = time.monotonic() - began
        off_rack, _, partitions = _locality(admin, live, host_racks, selectors)
    if as_json:
        more = {"off_rack_after": off_rack, "seconds": round(seconds, 1)}
        print_json("groups rebalance", {**fields, **more})
    console.print(
        f"Rebalanced: {off_rack:,} of {format_count(partitions, 'partition')} off-rack.",
        style="green",
    )


def _locality(
    admin: AdminConnection, group: Group, host_racks: HostRacks, selectors: Mapping[int, str]
) -> tuple[int, int, int]:
    """Return the off-rack partitions of the group now and at best, and all its partitions."""
    explanation = explain_live_group(admin, group, host_racks, selectors).explanation
    return explanation.off_rack, explanation.optimum, explanation.partitions
