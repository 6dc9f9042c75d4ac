"""Running a plan from the command line: what is left, its progress, and its verified result.

Shared by the commands of ``placement`` and ``leaders``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from placement_core import TopicPartition
from rackward.cli import options
from rackward.cli.live import progress_reporter
from rackward.cli.options import RunOptions
from rackward.cli.output import confirm, print_json_line, table_console
from rackward.cli.plan_output import (
    MAX_LISTED_CHANGES,
    ChangeResult,
    change_result,
    show_change,
)
from rackward.kafka import AdminError, ClusterState
from rackward.reassignment import (
    ExecutionOptions,
    ExecutionResult,
    Executor,
    LiveCluster,
    PlannedChange,
)
from rackward.reassignment.executor import DEFAULT_STALL_TIMEOUT
from rackward.reassignment.run_plan import prepare_run
from rackward.reassignment.throttle import ReplicationThrottle
from rackward.units import format_brokers, format_count

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="The plan file; - is stdin.")]
OptionalPlanArgument = Annotated[
    str | None, typer.Argument(metavar="PLAN", help="The plan file; - is stdin.")
]

APPLY_STATUSES = """\
Exit status: 0 success, verified; 1 the result differs from the plan, or declined at the prompt; 2
error (reason on stderr); 130 interrupted with Ctrl-C."""

APPLY_EVENTS = """With --json, a line for each event: planned, started, throttle_set, batch_started,
progressed, partition_failed, waiting_for_brokers, throttle_removed and others; the last one is
finished."""


@dataclass(frozen=True, slots=True)
class ExecutionRunOptions(RunOptions):
    """The options of a command that executes a plan."""

    stall_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.0, help="Give up after this many seconds without progress."
        ),
    ] = DEFAULT_STALL_TIMEOUT
    all_partitions: options.AllPartitions = False


# ---- The first and the last line of the JSON.


class PlannedRun(msgspec.Struct, frozen=True):
    """What will be changed; ``throttle_in_force`` in words, null: none."""

    dry_run: bool
    throttle_in_force: str | None


class PartitionProblem(msgspec.Struct, frozen=True):
    """A partition that is not as planned."""

    topic: str
    partition: int
    reason: str


class PartitionBrokers(msgspec.Struct, frozen=True):
    """A partition with replicas on ``brokers`` that are not in sync."""

    topic: str
    partition: int
    brokers: tuple[int, ...]


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster at the end of a run.

    completed
        The number of partitions with the intended replicas.
    failed
        The others; the cluster is still reassigning those ``in_progress``.
    throttle_leftovers
        What is left of the run's throttle, in words.
    """

    dry_run: bool = False
    ok: bool
    completed: int
    failed: list[PartitionProblem]
    in_progress: tuple[TopicPartition, ...]
    out_of_sync: list[PartitionBrokers]
    wrong_leader: list[PartitionProblem]
    throttle_leftovers: tuple[str, ...]
    throttle_in_force: str | None


RUN_RESULTS = (PlannedRun, ChangeResult, FinishedRun)


def run_plan(
    command: str,
    whole: PlannedChange,
    cluster: LiveCluster,
    options: ExecutionRunOptions,
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
    change = change_result(prepared.change)
    if change.partitions:
        racks = prepared.change.view.racks()
        show_change(change, racks, console, all_partitions=options.all_partitions)
    if prepared.completed:
        console.print(f"Already as planned: {format_count(prepared.completed, 'partition')}.")
    if prepared.in_progress:
        console.print(f"Already in progress: {format_count(prepared.in_progress, 'partition')}.")
    in_force = prepared.throttle.summary
    if in_force is not None:
        _print_throttle(in_force, console)
    if options.as_json:
        planned = PlannedRun(options.dry_run, in_force)
        print_json_line(command, "planned", planned, change)
    if options.dry_run:
        console.print("Dry run: nothing was changed.")
        return
    if change.partitions:
        confirm(f"Change {format_count(len(change.partitions), 'partition')}?", options.yes)
    emit = progress_reporter(command, console, source, options.as_json)
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
        finished = FinishedRun(
            ok=result.ok,
            completed=result.completed,
            failed=_problems(result.failed),
            in_progress=result.in_progress,
            out_of_sync=[PartitionBrokers(*tp, ids) for tp, ids in result.out_of_sync.items()],
            wrong_leader=_problems(result.wrong_leader),
            throttle_leftovers=result.throttle_leftovers,
            throttle_in_force=in_force,
        )
        print_json_line(command, "finished", finished)
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
    for (topic, number), reason in list(problems.items())[:MAX_LISTED_CHANGES]:
        console.print(f"  {topic}-{number}: {reason}")
    if len(problems) > MAX_LISTED_CHANGES:
        console.print(f"  ... and {len(problems) - MAX_LISTED_CHANGES:,} more")


def _problems(reasons: Mapping[TopicPartition, str]) -> list[PartitionProblem]:
    return [PartitionProblem(*tp, reason) for tp, reason in reasons.items()]
