"""``rackward leaders apply``: execute a plan of leaders."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from placement_core import RackwardError
from rackward.admin import AdminConnection, ClusterState, read_state
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
from rackward.group_readers import assigned_by_rackward, find_groups
from rackward.reassignment import LiveCluster, Plan, PlanKind, check_preconditions
from rackward.reassignment.plan import display_name, load_plan
from rackward.reassignment.progress import DEFAULT_LEADER_BATCH_PARTITIONS, DEFAULT_STALL_TIMEOUT
from rackward.reassignment.run_plan import ExecutionRequest

EPILOG = f"""
\b
Examples:
  rackward leaders apply leaders.json
  rackward leaders apply leaders.json --dry-run

{APPLY_STATUSES} After an interruption, apply the plan again to resume.

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
    require_confirmation(yes, dry_run, plan)
    overrides = parse_batch_limits(None, batch_count, None)
    loaded = load_plan(plan, PlanKind.LEADERS)

    def check(state: ClusterState) -> None:
        check_preconditions(display_name(plan), loaded, state)

    with ClusterOptions(bootstrap_server, command_config, timeout).connect() as admin:
        view = read_state(admin, reassignments=False).view
        run_plan(
            COMMAND,
            ExecutionRequest.of_plan(loaded, view, overrides),
            LiveCluster(admin),
            RunOptions(yes, dry_run, as_json, every_partition),
            check,
            source=plan,
            stall_timeout=stall_timeout,
            default_batch_partitions=DEFAULT_LEADER_BATCH_PARTITIONS,
        )
        if not dry_run and not as_json:
            for group in _following_groups(admin, loaded, view.racks()):
                command = escape_controls(shlex.join(["rackward", "groups", "rebalance", group]))
                table_console(as_json).print(
                    f"The group assigns by the new leaders at its next rebalance. Now: {command}",
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
