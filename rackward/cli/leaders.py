"""``rackward leaders``: plan the leaders of partitions, execute the plan, and go back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from placement_core import RackwardError
from rack_traffic.advice import assigned_by_rackward, command
from rackward.cli import leaders_plan, options
from rackward.cli.commands import command_group
from rackward.cli.options import BatchOptions, ClusterOptions
from rackward.cli.output import require_confirmation, table_console
from rackward.cli.plan_run import (
    APPLY_EVENTS,
    APPLY_STATUSES,
    RUN_RESULTS,
    ExecutionRunOptions,
    PlanArgument,
    run_plan,
)
from rackward.groups.readers import find_groups
from rackward.kafka import AdminConnection, ClusterState, read_state
from rackward.reassignment import ExecutionOptions, LiveCluster, Plan, PlanKind, check_preconditions
from rackward.reassignment.plan import display_name, load_plan

app = command_group("Move partition leaders to the racks of their consumers.")
app.command("plan", epilog=leaders_plan.EPILOG, results=leaders_plan.RESULTS)(leaders_plan.plan)

APPLY_EPILOG = f"""
\b
Examples:
  rackward leaders apply leaders.json
  rackward leaders apply leaders.json --dry-run

{APPLY_STATUSES} After an interruption, apply the plan again to resume, or go back with rackward
leaders cancel.

{APPLY_EVENTS}
"""

CANCEL_EPILOG = f"""
\b
Examples:
  rackward leaders cancel leaders.json
  rackward leaders cancel leaders.json --dry-run

Partitions that the plan has not changed yet stay as they are.

{APPLY_STATUSES} After an interruption, cancel the plan again to resume.

{APPLY_EVENTS}
"""


@dataclass(frozen=True, slots=True)
class LeadersRunOptions(ExecutionRunOptions):
    """The options of a command that moves leaders."""

    batch_count: options.BatchCount = None


@app.command("apply", epilog=APPLY_EPILOG, results=RUN_RESULTS)
def apply(plan: PlanArgument, *, run: LeadersRunOptions, cluster: ClusterOptions) -> None:
    """Execute a plan of leaders: reorder replicas, elect leaders and verify the result.

    No data is copied. Consumers read from the new leaders at once. Groups of rackward's assignors
    assign partitions by the new leaders at their next rebalance, which groups rebalance requests;
    the last line has the command.
    """
    require_confirmation(run, plan)
    _run("leaders apply", plan, load_plan(plan, PlanKind.LEADERS, "apply"), run, cluster)


@app.command("cancel", epilog=CANCEL_EPILOG, results=RUN_RESULTS)
def cancel(plan: PlanArgument, *, run: LeadersRunOptions, cluster: ClusterOptions) -> None:
    """Go back from a plan of leaders, executed in whole or in part.

    The replica lists become exactly those before the plan, and the first replica of each leads. No
    data is copied.
    """
    require_confirmation(run, plan)
    loaded = load_plan(plan, PlanKind.LEADERS, "cancel")
    back = [replace(row, before=row.after, after=row.before) for row in loaded.partitions]
    loaded = replace(loaded, partitions=tuple(back), localities=())
    _run("leaders cancel", plan, loaded, run, cluster)


def _run(name: str, path: str, plan: Plan, run: LeadersRunOptions, cluster: ClusterOptions) -> None:
    """Execute the plan. Raises RackwardError, and typer.Exit(1) if the result differs from it."""

    def check(state: ClusterState) -> None:
        check_preconditions(display_name(path), plan, state)

    with cluster.connect() as admin:
        view = read_state(admin, reassignments=False).view
        limits = plan.limits.with_overrides(BatchOptions(batch_count=run.batch_count).limits())
        run_plan(
            name,
            plan.change(view, limits.throttle),
            LiveCluster(admin),
            run,
            check,
            ExecutionOptions(limits, run.stall_timeout),
            source=path,
        )
        if run.dry_run or run.as_json:
            return
        if groups := _following_groups(admin, plan, view.racks()):
            rebalance = command("groups", "rebalance", *groups)
            table_console(run.as_json).print(
                f"Groups assign by the new leaders at their next rebalance. Now: {rebalance}",
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
