"""``rackward placement apply``: execute a plan."""

from __future__ import annotations

from rackward.admin import ClusterState, read_state
from rackward.cli import options
from rackward.cli.apply import (
    APPLY_EPILOG,
    Additional,
    OptionalPlanArgument,
    ReassignmentFile,
    StallTimeout,
    check_one_source,
    run_plan,
)
from rackward.cli.console import require_confirmation
from rackward.cli.options import ClusterOptions, RunOptions, parse_batch_limits
from rackward.reassignment import LiveCluster, PlanKind, check_preconditions
from rackward.reassignment.plan_file import display_name, load_kafka_json, load_plan
from rackward.reassignment.progress import DEFAULT_STALL_TIMEOUT
from rackward.reassignment.run_plan import ExecutionRequest, moves_to_target, read_leader_sizes

EPILOG = APPLY_EPILOG
COMMAND = "placement apply"


def apply(
    plan: OptionalPlanArgument = None,
    reassignment_json_file: ReassignmentFile = None,
    throttle: options.Throttle = None,
    batch_count: options.BatchCount = None,
    batch_bytes: options.BatchBytes = None,
    stall_timeout: StallTimeout = DEFAULT_STALL_TIMEOUT,
    additional: Additional = False,
    every_partition: options.EveryPartition = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Execute a plan in batches, with a throttle, and verify the result.

    The plan is rejected if the cluster has changed since it was made. An interrupted run is
    resumed, also from another machine. The throttle is always removed at the end; after a kill,
    the next apply or cancel removes it.
    """
    check_one_source(plan, reassignment_json_file)
    require_confirmation(yes, dry_run, plan or reassignment_json_file)
    overrides = parse_batch_limits(throttle, batch_count, batch_bytes)
    run_options = RunOptions(yes, dry_run, as_json, every_partition)
    cluster = ClusterOptions(bootstrap_server, command_config, timeout)
    loaded = None if plan is None else load_plan(plan, PlanKind.PLACEMENT)
    target = {} if reassignment_json_file is None else load_kafka_json(reassignment_json_file)

    def check(state: ClusterState) -> None:
        if plan is not None and loaded is not None:
            check_preconditions(display_name(plan), loaded, state, allow_diverted=additional)

    with cluster.connect() as admin:
        if plan is not None and loaded is not None:
            source = plan
            view = read_state(admin, reassignments=False).view
            request = ExecutionRequest.of_plan(loaded, view, overrides)
        else:
            source = f"--reassignment-json-file {reassignment_json_file}"
            state = read_state(admin)
            moves = moves_to_target(display_name(str(reassignment_json_file)), target, state)
            sizes = read_leader_sizes(admin, state.view, moves)
            request = ExecutionRequest(moves, state.view, overrides, sizes)
        run_plan(
            COMMAND,
            request,
            LiveCluster(admin),
            run_options,
            check,
            source=source,
            stall_timeout=stall_timeout,
            allow_foreign=additional,
        )
