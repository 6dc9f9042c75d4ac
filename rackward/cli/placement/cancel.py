"""``rackward placement cancel``: cancel reassignments in progress, and remove throttles."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from placement_core import InvalidOptionError
from rackward.cli.live import progress_reporter
from rackward.cli.options import ClusterOptions, RunOptions
from rackward.cli.output import (
    confirm,
    number,
    print_json_line,
    require_confirmation,
    table,
    table_console,
)
from rackward.cli.placement.apply import (
    FinishedRun,
    OptionalPlanArgument,
    PlannedRun,
    print_result,
)
from rackward.cli.plan_output import MAX_LISTED_CHANGES, replicas_text
from rackward.kafka import ClusterState, read_reassignments, read_state
from rackward.reassignment import LiveCluster, PlanKind
from rackward.reassignment.cancel import Cancellation
from rackward.reassignment.cancel import cancel as execute_cancellation
from rackward.reassignment.plan import (
    PlannedPartition,
    display_name,
    load_kafka_json,
    load_plan,
    planned_partitions,
)
from rackward.reassignment.run_plan import moves_to_target
from rackward.units import format_count

EPILOG = """
\b
Examples:
  rackward placement cancel plan.json
  rackward placement cancel --dry-run

Without PLAN, all reassignments in progress in the cluster are cancelled, whichever tool started
them. Partitions whose reassignment has completed stay as they are. A throttle that an earlier run
of rackward left behind is removed, also if nothing is in progress.

Exit status: 0 success, verified; 1 the result differs from the former state, or declined at the
prompt; 2 error (reason on stderr); 130 interrupted with Ctrl-C.

With --json, a line for each event: planned, reassignments_cancelled, partition_failed,
throttle_removed, throttle_not_removed; the last one is finished.
"""

COMMAND = "placement cancel"


class PlannedCancellation(msgspec.Struct, frozen=True):
    """The replicas to restore; ``others``: reassignments that are not cancelled."""

    others: int
    partitions: tuple[PlannedPartition, ...]


RESULTS = (PlannedRun, PlannedCancellation, FinishedRun)


def cancel(
    plan: OptionalPlanArgument = None,
    *,
    reassignment_json_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Instead of PLAN: a JSON file of kafka-reassign-partitions."
        ),
    ] = None,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Cancel reassignments in progress, and remove their throttle.

    With a plan, those of the plan are cancelled, and the replica lists become exactly those before
    it. Without a plan, all are cancelled.
    """
    if plan is not None and reassignment_json_file is not None:
        raise InvalidOptionError("PLAN and --reassignment-json-file: give one of the two")
    require_confirmation(run, plan or reassignment_json_file)
    loaded = None if plan is None else load_plan(plan, PlanKind.PLACEMENT, "cancel")
    target = None if reassignment_json_file is None else load_kafka_json(reassignment_json_file)
    with cluster.connect() as admin:
        live = LiveCluster(admin)
        if loaded is not None:
            state, reassignments = live.describe({move.partition.topic for move in loaded.moves})
            cancellation = Cancellation.of_plan(loaded.moves, state, reassignments)
        elif target is not None:
            state, reassignments = live.describe({tp.topic for tp in target})
            moves = moves_to_target(display_name(str(reassignment_json_file)), target, state)
            cancellation = Cancellation.of_plan(moves, state, reassignments)
        else:
            reassignments = read_reassignments(admin)
            state = read_state(admin, {tp.topic for tp in reassignments}, reassignments=False)
            cancellation = Cancellation.of_all(reassignments, state)
        console = table_console(run.as_json)
        settings = live.throttle.read_all()
        in_force, throttled = settings.summary, bool(settings.default.markers)
        _show(cancellation, state, console, in_force, throttled=throttled)
        if run.as_json:
            planned = PlannedCancellation(
                len(cancellation.others),
                planned_partitions(cancellation.moves.values(), state.view, {}),
            )
            print_json_line(COMMAND, "planned", PlannedRun(run.dry_run, in_force), planned)
        if run.dry_run:
            console.print("Dry run: nothing was changed.")
            return
        if cancellation.moves:
            count = format_count(len(cancellation.moves), "partition")
            confirm(f"Restore the former replicas of {count}?", run.yes)
        elif throttled:
            confirm("Remove the throttle?", run.yes)
        emit = progress_reporter(COMMAND, console, "", run.as_json)
        result = execute_cancellation(cancellation, live, emit)
        print_result(COMMAND, result, console, run.as_json, "as before", live.throttle)


def _show(
    cancellation: Cancellation,
    state: ClusterState,
    console: Console,
    in_force: str | None,
    *,
    throttled: bool,
) -> None:
    if not cancellation.moves:
        console.print("No reassignment is in progress.")
    else:
        count = format_count(len(cancellation.in_progress), "reassignment")
        console.print(f"{count} to cancel.", style="bold")
        console.print(_table(cancellation, state))
        if len(cancellation.moves) > MAX_LISTED_CHANGES:
            console.print(f"... and {len(cancellation.moves) - MAX_LISTED_CHANGES:,} more")
    if cancellation.others:
        count = format_count(len(cancellation.others), "other reassignment")
        console.print(f"{count} will not be cancelled.")
    if throttled:
        console.print("A throttle that rackward set is in force and will be removed.")
    elif in_force is not None:
        console.print(f"Throttle in force, which will not be removed: {in_force}.", markup=False)


def _table(cancellation: Cancellation, state: ClusterState) -> Table:
    racks = state.view.racks()
    rows = table("topic", number("partition"), "cancelled\ntarget", "restored\nreplicas")
    for tp, move in list(cancellation.moves.items())[:MAX_LISTED_CHANGES]:
        in_progress = tp in cancellation.in_progress
        target = replicas_text(move.before, racks) if in_progress else "(order only)"
        rows.add_row(tp.topic, str(tp.partition), target, replicas_text(move.after, racks))
    return rows
