"""``rackward leaders apply``: execute a plan of leaders."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from msgspec.structs import replace

from placement_core import RackwardError
from rackward.cli import options
from rackward.cli.console import escape_controls, require_confirmation, table_console
from rackward.cli.options import ClusterOptions, RunOptions, parse_batch_limits
from rackward.cli.placement.apply import (
    APPLY_JSON,
    APPLY_STATUSES,
    PlanArgument,
    StallTimeout,
    run_plan,
)
from rackward.groups.readers import assigned_by_rackward, find_groups
from rackward.kafka import AdminConnection, ClusterState, read_state
from rackward.reassignment import (
    ExecutionOptions,
    LiveCluster,
    Plan,
    PlanKind,
    check_preconditions,
)
from rackward.reassignment.executor import DEFAULT_STALL_TIMEOUT
from rackward.reassignment.plan import display_name, load_plan

EPILOG = f"""
\b
Examples:
  rackward leaders apply leaders.json
  rackward leaders apply leaders.json --dry-run

{APPLY_STATUSES} After an interruption, apply the plan again to resume, or go back with rackward
leaders cancel.

{APPLY_JSON}"""
COMMAND = "leaders apply"


def apply(
    plan: PlanArgument,
    batch_count: options.BatchCount = None,
    stall_timeout: StallTimeout = DEFAULT_STALL_TIMEOUT,
    every_partition: options.EveryPartition = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Execute a plan of leaders: reorder replicas, elect leaders and verify the result.

    No data is copied. Consumers read from the new leaders at once. Groups of rackward's assignors
    assign partitions by the new leaders at their next rebalance, which groups rebalance requests;
    the last line has the command.
    """
    run_options = RunOptions(yes, dry_run, as_json, every_partition)
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    run_leaders_plan(COMMAND, plan, run_options, cluster, batch_count, stall_timeout)


def run_leaders_plan(
    command: str,
    path: str,
    run_options: RunOptions,
    cluster: ClusterOptions,
    batch_count: int | None,
    stall_timeout: float,
    *,
    back: bool = False,
) -> None:
    """Execute the plan at ``path``; ``back``: from its replica lists to those before it.

    Raises RackwardError, and typer.Exit(1) if the result differs from the plan.
    """
    require_confirmation(run_options.yes, run_options.dry_run, path)
    loaded = load_plan(path, PlanKind.LEADERS, "cancel" if back else "apply")
    if back:
        rows = [replace(row, before=row.after, after=row.before) for row in loaded.partitions]
        loaded = replace(loaded, partitions=tuple(rows), localities=())

    def check(state: ClusterState) -> None:
        check_preconditions(display_name(path), loaded, state)

    with cluster.connect() as admin:
        view = read_state(admin, reassignments=False).view
        limits = loaded.limits.with_overrides(parse_batch_limits(None, batch_count, None))
        run_plan(
            command,
            loaded.change(view, limits.throttle),
            LiveCluster(admin),
            run_options,
            check,
            ExecutionOptions(limits, stall_timeout),
            source=path,
        )
        if not run_options.dry_run and not run_options.as_json:
            for group in _following_groups(admin, loaded, view.racks()):
                rebalance = escape_controls(shlex.join(["rackward", "groups", "rebalance", group]))
                table_console(run_options.as_json).print(
                    f"The group assigns by the new leaders at its next rebalance. Now: {rebalance}",
                    soft_wrap=True,
                )


def _following_groups(
    admin: AdminConnection, plan: Plan, brokers: Mapping[int, str | None]
) -> list[str]:
    """Return the groups of the plan that assign partitions by the racks of leaders.

    Without those that do not exist any more. Empty if they cannot be read: leaders have moved, and
    an error would say that they have not.
    """
    names = plan.options.get("groups")
    if not isinstance(names, list):
        return []
    try:
        found = find_groups(admin, brokers, [str(name) for name in names])
    except RackwardError:
        return []
    return sorted(name for name, group in found.items() if assigned_by_rackward(group))
