"""``rackward leaders cancel``: go back from a plan of leaders."""

from __future__ import annotations

from rackward.cli import options
from rackward.cli.leaders.apply import run_leaders_plan
from rackward.cli.options import ClusterOptions, RunOptions
from rackward.cli.placement.apply import (
    APPLY_JSON,
    APPLY_STATUSES,
    PlanArgument,
    StallTimeout,
)
from rackward.reassignment.executor import DEFAULT_STALL_TIMEOUT

EPILOG = f"""
\b
Examples:
  rackward leaders cancel leaders.json
  rackward leaders cancel leaders.json --dry-run

Partitions that the plan has not changed yet stay as they are.

{APPLY_STATUSES} After an interruption, cancel the plan again to resume.

{APPLY_JSON}"""
COMMAND = "leaders cancel"


def cancel(
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
    """Go back from a plan of leaders, executed in whole or in part.

    The replica lists become exactly those before the plan, and the first replica of each leads. No
    data is copied.
    """
    run_options = RunOptions(yes, dry_run, as_json, every_partition)
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    run_leaders_plan(COMMAND, plan, run_options, cluster, batch_count, stall_timeout, back=True)
