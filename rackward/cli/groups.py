"""``rackward groups``: list consumer groups, explain why they read across racks, rebalance them."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from placement_core import InvalidOptionError
from rack_traffic.advice import assigned_by_rackward
from rackward.cli import explain as groups_explain
from rackward.cli import options
from rackward.cli.audit import GroupOrder, read_report, show_groups
from rackward.cli.commands import command_group
from rackward.cli.options import ClusterOptions, PriceOptions, RunOptions
from rackward.cli.output import (
    confirm,
    print_json,
    require_confirmation,
    stderr,
    stdout,
    table_console,
)
from rackward.groups.audit_report import AuditReport
from rackward.groups.explain import check_explainable, explain_live_group
from rackward.groups.host_racks import HostRacks
from rackward.groups.next_steps import leader_advice
from rackward.groups.readers import select_groups
from rackward.groups.rebalance import request_rebalance, wait_until_stable
from rackward.kafka import AdminConnection, read_state
from rackward.kafka.groups import Group
from rackward.kafka.tolerant_reader import TolerantReader
from rackward.units import format_count, format_list

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
  rackward groups rebalance billing 'team-a-*' --yes

For groups that are assigned by the racks of leaders, after leaders have moved (leaders apply).
The assignors of other groups ignore leader racks: one that is named is refused, and those that a
pattern matches are named on stderr, with what helps instead.

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


class Rebalances(msgspec.Struct, frozen=True):
    """Several groups, or those that a pattern matches. One name gives a `Rebalance`."""

    groups: list[Rebalance]


@app.command("rebalance", epilog=REBALANCE_EPILOG, results=(Rebalance, Rebalances))
def rebalance(
    groups: options.Groups,
    *,
    mapping: options.RackMapping = None,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Request a rebalance of groups that are assigned by the racks of leaders.

    Waits until each group is stable again and shows its locality before and after.
    """
    require_confirmation(run)
    host_racks = HostRacks.parse_option("--mapping", mapping)
    console = table_console(run.as_json)
    with cluster.connect() as admin:
        brokers = read_state(admin, (), reassignments=False).view.racks()
        selectors = TolerantReader(admin).replica_selectors(sorted(brokers))
        found: list[tuple[Group, Rebalance]] = []
        selected, refused = select_groups(admin, brokers, groups, _check_follows_leaders)
        for reason in refused.values():
            stderr().print(f"Not rebalanced: {reason}", style="yellow")
        for live in selected:
            off_rack, optimum, partitions = _locality(admin, live, host_racks, selectors)
            console.print(
                f"Group {live.id}: {off_rack:,} of {format_count(partitions, 'partition')} "
                f"off-rack, {optimum:,} at best."
            )
            found.append((live, Rebalance(live.id, run.dry_run, partitions, off_rack, optimum)))
        results = [result for _, result in found]
        if run.dry_run or not found:
            console.print("Dry run: nothing was changed." if found else "Nothing to rebalance.")
        else:
            members = format_count(sum(len(live.members) for live, _ in found), "member")
            confirm(f"Rebalance {members} of {format_list([g.id for g, _ in found])}?", run.yes)
            results = []
            for live, result in found:
                began = time.monotonic()
                request_rebalance(admin, cluster.connect, live)
                stable = wait_until_stable(admin, live.id, max(cluster.timeout, REBALANCE_SECONDS))
                seconds = round(time.monotonic() - began, 1)
                off_rack, _, partitions = _locality(admin, stable, host_racks, selectors)
                results.append(
                    msgspec.structs.replace(result, off_rack_after=off_rack, seconds=seconds)
                )
                console.print(
                    f"Rebalanced {live.id}: {off_rack:,} of "
                    f"{format_count(partitions, 'partition')} off-rack.",
                    style="green",
                )
    if run.as_json:
        single = len(groups) == 1 and "*" not in groups[0]
        print_json("groups rebalance", results[0] if single else Rebalances(results))


def _check_follows_leaders(name: str, group: Group | None) -> Group:
    """Return the group if it assigns by the racks of leaders. Raises InvalidOptionError."""
    live = check_explainable(name, group)
    if not assigned_by_rackward(live):
        raise InvalidOptionError(f"group {name}: {leader_advice(live)}")
    return live


def _locality(
    admin: AdminConnection, group: Group, host_racks: HostRacks, selectors: Mapping[int, str]
) -> tuple[int, int, int]:
    """Return the off-rack partitions of the group now and at best, and all its partitions."""
    explanation = explain_live_group(admin, group, host_racks, selectors).explanation
    return explanation.off_rack, explanation.optimum, explanation.partitions
