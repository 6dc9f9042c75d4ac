"""``rackward placement apply``: execute a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from placement_core import InvalidOptionError, TopicPartition
from rackward.cli import options
from rackward.cli.console import confirm, print_json_line, require_confirmation, table_console
from rackward.cli.options import ClusterOptions, RunOptions, parse_batch_limits
from rackward.cli.render.plan import change_json, show_change
from rackward.cli.render.progress import progress_reporter
from rackward.kafka import AdminError, ClusterState, read_state
from rackward.reassignment import (
    ExecutionOptions,
    ExecutionResult,
    Executor,
    LiveCluster,
    PlanKind,
    PlannedChange,
    check_preconditions,
)
from rackward.reassignment.executor import DEFAULT_STALL_TIMEOUT
from rackward.reassignment.plan import display_name, load_kafka_json, load_plan
from rackward.reassignment.run_plan import moves_to_target, prepare_run, read_leader_sizes
from rackward.reassignment.throttle import ReplicationThrottle
from rackward.units import format_brokers, format_count

# ---- Running a plan from the command line; shared by the commands of `placement` and `leaders`.

MAX_LISTED_PARTITIONS = 20

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file; - is stdin.")]
OptionalPlanArgument = Annotated[
    str | None, typer.Argument(metavar="PLAN", help="The plan file; - is stdin.")
]
ReassignmentFile = Annotated[
    str | None,
    typer.Option(
        "--reassignment-json-file",
        metavar="FILE",
        help="Instead of PLAN: a JSON file of kafka-reassign-partitions. It does not contain the "
        "state that it was made for, so only its target is checked.",
    ),
]
StallTimeout = Annotated[
    float,
    typer.Option(
        "--stall-timeout",
        metavar="SECONDS",
        min=0.0,
        help="Give up after this many seconds without progress.",
    ),
]
Additional = Annotated[
    bool,
    typer.Option(
        "--additional",
        help="Run beside reassignments that are not the plan's, and replace those of the plan's "
        "partitions.",
    ),
]
AdoptThrottle = Annotated[
    bool,
    typer.Option(
        "--adopt-throttle",
        help="Resume after a run that was killed: adopt the throttle that it has set, or remove "
        "it. Not while that run goes on.",
    ),
]

APPLY_STATUSES = """\
Exit status: 0 success, verified; 1 the result differs from the plan, or declined at the prompt; 2
error (reason on stderr); 130 interrupted with Ctrl-C."""

APPLY_JSON = """\b
JSON: a line for each event, {schema_version: 1, command, event, ...}:
 planned (the fields of plan's JSON, throttle_in_force: text or null),
 started, throttle_set, throttle_shared, broker_throttle_found, batch_started,
 progressed (number, batches, completed, partitions, bytes_copied, bytes,
 rate, seconds_left), partition_failed (topic, partition, reason),
 waiting_for_brokers, request_failed, leaders_elected, throttle_removed,
 throttle_not_removed, left_in_progress; the last one is finished {ok,
 dry_run, completed, failed: [{topic, partition, reason}], in_progress,
 out_of_sync, wrong_leader, throttle_leftovers,
 throttle_in_force: text or null}.
"""


def check_one_source(plan: str | None, reassignment_file: str | None) -> None:
    """Raise InvalidOptionError unless exactly one is given."""
    if (plan is None) == (reassignment_file is None):
        raise InvalidOptionError("give either PLAN or --reassignment-json-file FILE")


def run_plan(
    command: str,
    whole: PlannedChange,
    cluster: LiveCluster,
    options: RunOptions,
    check: Callable[[ClusterState], None],
    execution: ExecutionOptions,
    *,
    source: str,
) -> None:
    """Check a change, show what is left, ask for confirmation, execute it, report the result.

    ``source`` are the arguments of the command line that name the plan. ``check`` raises an error
    if the plan does not fit the state of its topics. Raises RackwardError, and typer.Exit(1) if
    the result differs from the plan.
    """
    prepared = prepare_run(whole, cluster, check, execution)
    console = table_console(options.as_json)
    change = prepared.change
    if change.moves:
        show_change(change, console, every_partition=options.every_partition)
    if prepared.completed:
        console.print(f"Already as planned: {format_count(prepared.completed, 'partition')}.")
    if prepared.in_progress:
        console.print(f"Already in progress: {format_count(prepared.in_progress, 'partition')}.")
    in_force = prepared.throttle.summary
    if in_force is not None:
        _print_throttle(in_force, console)
    if options.as_json:
        fields = {
            "dry_run": options.dry_run,
            **change_json(change),
            "throttle_in_force": in_force,
        }
        print_json_line(command, "planned", fields)
    if options.dry_run:
        console.print("Dry run: nothing was changed.")
        return
    if change.moves:
        confirm(f"Change {format_count(len(change.moves), 'partition')}?", options.yes)
    with progress_reporter(command, console, source, options.as_json) as emit:
        result = Executor(whole.moves, whole.sizes, cluster, execution, emit).run()
    print_result(command, result, console, options.as_json, "as planned", cluster.throttle)


def _print_throttle(in_force: str, console: Console) -> None:
    console.print(
        f"Replication throttle in force: {in_force}. To remove it: rackward placement "
        "throttle --remove",
        style="yellow",
        soft_wrap=True,
        markup=False,
    )


def print_result(
    command: str,
    result: ExecutionResult,
    console: Console,
    as_json: bool,
    state: str,
    throttle: ReplicationThrottle,
) -> None:
    """Print a result and the throttle that is in force; ``state`` describes completed partitions.

    Raises typer.Exit(1) unless ok.
    """
    try:
        in_force = throttle.read_all().summary
    except AdminError as error:
        in_force = f"not known ({error})"
    if as_json:
        fields = {"dry_run": False, **_result_json(result), "throttle_in_force": in_force}
        print_json_line(command, "finished", fields)
    completed = format_count(result.completed, "partition")
    if result.ok:
        parts = [f"{completed} {state}", "all replicas in sync"] if result.completed else []
        if in_force is None:
            parts.append("no throttle left")
        console.print(f"Done and verified: {', '.join(parts) or 'nothing to do'}.", style="green")
    if in_force is not None:
        _print_throttle(in_force, console)
    if result.ok:
        return
    console.print(f"NOT complete: {completed} {state}.", style="red")
    _print_problems(result.failed, console)
    _print_problems(
        {tp: f"not in sync on {format_brokers(ids)}" for tp, ids in result.out_of_sync.items()},
        console,
    )
    _print_problems(result.wrong_leader, console)
    for leftover in result.throttle_leftovers:
        console.print(f"  throttle not removed: {leftover}")
    raise typer.Exit(1)


def _print_problems(problems: Mapping[TopicPartition, str], console: Console) -> None:
    for (topic, number), reason in list(problems.items())[:MAX_LISTED_PARTITIONS]:
        console.print(f"  {topic}-{number}: {reason}")
    if len(problems) > MAX_LISTED_PARTITIONS:
        console.print(f"  ... and {len(problems) - MAX_LISTED_PARTITIONS:,} more")


def _result_json(result: ExecutionResult) -> dict[str, Any]:
    return {
        "ok": result.ok,
        "completed": result.completed,
        "failed": _reasons_json(result.failed),
        "in_progress": [list(tp) for tp in result.in_progress],
        "out_of_sync": [
            {"topic": topic, "partition": number, "brokers": list(brokers)}
            for (topic, number), brokers in result.out_of_sync.items()
        ],
        "wrong_leader": _reasons_json(result.wrong_leader),
        "throttle_leftovers": list(result.throttle_leftovers),
    }


def _reasons_json(reasons: Mapping[TopicPartition, str]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": number, "reason": reason}
        for (topic, number), reason in reasons.items()
    ]


EPILOG = f"""
\b
Examples:
  rackward placement apply plan.json
  rackward placement apply plan.json --throttle 50MB --batch-count 20 --yes

{APPLY_STATUSES} Ctrl-C removes the throttle. The cluster continues what it is copying: apply the
plan again to resume, or cancel it with placement cancel. After a kill -9 the throttle is still set,
and apply needs --adopt-throttle.

{APPLY_JSON}"""
COMMAND = "placement apply"


def apply(
    plan: OptionalPlanArgument = None,
    reassignment_json_file: ReassignmentFile = None,
    throttle: options.Throttle = None,
    batch_count: options.BatchCount = None,
    batch_bytes: options.BatchBytes = None,
    stall_timeout: StallTimeout = DEFAULT_STALL_TIMEOUT,
    additional: Additional = False,
    adopt_throttle: AdoptThrottle = False,
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
    apply --adopt-throttle, cancel or throttle --remove removes it.
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
            check_preconditions(display_name(plan), loaded, state, allow_other_target=additional)

    with cluster.connect() as admin:
        if plan is not None and loaded is not None:
            source = plan
            view = read_state(admin, reassignments=False).view
            limits = loaded.limits.with_overrides(overrides)
            change = loaded.change(view, limits.throttle)
        else:
            source = f"--reassignment-json-file {reassignment_json_file}"
            state = read_state(admin)
            moves = moves_to_target(display_name(str(reassignment_json_file)), target, state)
            sizes = read_leader_sizes(admin, state.view, moves)
            limits = overrides
            change = PlannedChange(state.view, moves, sizes, limits.throttle)
        run_plan(
            COMMAND,
            change,
            LiveCluster(admin),
            run_options,
            check,
            ExecutionOptions(limits, stall_timeout, adopt_throttle, additional),
            source=source,
        )
