"""``rackward groups``: list consumer groups, explain why they read across racks, rebalance them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from placement_core import InvalidOptionError
from rack_traffic.advice import assigned_by_rackward
from rackward.cli import explain as groups_explain
from rackward.cli import options
from rackward.cli.audit import GroupOrder, read_report, show_groups
from rackward.cli.commands import command_group
from rackward.cli.options import ClusterOptions, PriceOptions, RunOptions
from rackward.cli.output import confirm, print_json, require_confirmation, stdout, table_console
from rackward.groups.audit_report import AuditReport
from rackward.groups.explain import check_explainable, explain_live_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.next_steps import leader_advice
from rackward.groups.readers import find_groups
from rackward.groups.rebalance import request_rebalance, wait_until_stable
from rackward.kafka import AdminConnection, read_state
from rackward.kafka.groups import Group
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.units import format_count

app = command_group(
    "List consumer groups, explain why they read from other racks, and rebalance them."
)

LIST_EPILOG = """
\b
Examples:
  rackward groups list
  rackward groups list 'orders-*' --prices prices.csv

The groups that cost most come first, then those that read most across racks. As for rackward audit,
each group is assumed to read once what was written in the last 24 hours; rackward audit also shows
what would change it, and --json is that of rackward audit, with null for it.

Exit status: 0 success; 2 error (reason on stderr).
"""


@app.command("list", epilog=LIST_EPILOG, results=(AuditReport,))
def list_groups(
    groups: options.GroupNames = None,
    *,
    order: GroupOrder,
    prices: PriceOptions,
    mapping: options.RackMapping = None,
    as_json: options.Json = False,
    cluster: ClusterOptions,
) -> None:
    """List consumer groups, sorted by what they read across racks."""
    report = order.sorted(read_report(cluster, prices, groups, mapping, best=False))
    if as_json:
        print_json("groups list", order.json(report))
    else:
        show_groups(report, stdout(), order.top)


app.command("explain", epilog=groups_explain.EPILOG, results=groups_explain.RESULTS)(
    groups_explain.explain
)

REBALANCE_SECONDS = 120.0

REBALANCE_EPILOG = """
\b
Examples:
  rackward groups rebalance billing --dry-run
  rackward groups rebalance billing --yes

For groups that are assigned by the racks of leaders, after leaders have moved (leaders apply).
Other groups are refused, since their assignors ignore leader racks; the error says what helps
instead.

A member without topics joins the group and leaves it at once, so that the members rejoin: one
rebalance, with the same members and the same leader. Members of a cooperative assignor keep reading
what they keep. Needs Read and Describe on the group.

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr).
"""


class Rebalance(msgspec.Struct, frozen=True):
    """The off-rack partitions of a group before and after a rebalance; None: it did not happen."""

    group: str
    dry_run: bool
    partitions: int
    off_rack_before: int
    optimum: int
    off_rack_after: int | None = None
    seconds: float | None = None


@app.command("rebalance", epilog=REBALANCE_EPILOG, results=(Rebalance,))
def rebalance(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.")],
    *,
    mapping: options.RackMapping = None,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Request a rebalance of a group that is assigned by the racks of leaders.

    Waits until the group is stable again and shows its locality before and after.
    """
    require_confirmation(run)
    host_racks = HostRacks.parse_option("--mapping", mapping)
    console = table_console(run.as_json)
    with cluster.connect() as admin:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        live = check_explainable(group, find_groups(admin, brokers, [group]).get(group))
        if not assigned_by_rackward(live):
            raise InvalidOptionError(f"group {group}: {leader_advice(live)}")
        selectors = TolerantReader(admin).replica_selectors(sorted(brokers))
        off_rack, optimum, partitions = _locality(admin, live, host_racks, selectors)
        console.print(
            f"Group {group}: {off_rack:,} of {format_count(partitions, 'partition')} off-rack, "
            f"{optimum:,} at best."
        )
        result = Rebalance(group, run.dry_run, partitions, off_rack, optimum)
        if run.dry_run:
            console.print("Dry run: nothing was changed.")
        else:
            confirm(f"Rebalance {format_count(len(live.members), 'member')} of {group}?", run.yes)
            began = time.monotonic()
            request_rebalance(admin, cluster.connect, live)
            live = wait_until_stable(admin, group, max(cluster.timeout, REBALANCE_SECONDS))
            seconds = round(time.monotonic() - began, 1)
            off_rack, _, partitions = _locality(admin, live, host_racks, selectors)
            result = msgspec.structs.replace(result, off_rack_after=off_rack, seconds=seconds)
    if run.as_json:
        print_json("groups rebalance", result)
    if not run.dry_run:
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
