"""``rackward placement``: check, plan, execute and cancel replica placement, and throttles."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from placement_core import InvalidOptionError
from rackward.cli import placement_check, placement_suggest
from rackward.cli.commands import command_group
from rackward.cli.live import progress_reporter, step_reporter
from rackward.cli.options import (
    BatchOptions,
    ClusterOptions,
    PlacingOptions,
    RunOptions,
    TopicOptions,
    parse_broker_ids,
)
from rackward.cli.output import (
    confirm,
    number,
    print_json,
    print_json_line,
    require_confirmation,
    stderr,
    table,
    table_console,
)
from rackward.cli.plan_output import (
    MAX_LISTED_CHANGES,
    ChangeResult,
    PlanFile,
    PlanOutput,
    format_now,
    replicas_text,
    write_plan,
)
from rackward.cli.plan_run import (
    APPLY_EVENTS,
    APPLY_STATUSES,
    RUN_RESULTS,
    ExecutionRunOptions,
    FinishedRun,
    OptionalPlanArgument,
    PlannedRun,
    print_result,
    run_plan,
)
from rackward.kafka import ClusterState, read_reassignments, read_state
from rackward.reassignment import (
    ExecutionOptions,
    LiveCluster,
    PlanKind,
    PlannedChange,
    check_preconditions,
)
from rackward.reassignment.cancel import Cancellation
from rackward.reassignment.cancel import cancel as execute_cancellation
from rackward.reassignment.plan import (
    PlannedPartition,
    build_plan,
    display_name,
    load_kafka_json,
    load_plan,
    planned_partitions,
)
from rackward.reassignment.planner import (
    ReassignmentRequest,
    check_request,
    plan_moves,
    planning_view,
    rackless_notes,
)
from rackward.reassignment.run_plan import moves_to_target, read_leader_sizes
from rackward.reassignment.throttle import ReplicationThrottle, ThrottleSettings
from rackward.units import format_count

app = command_group("Check the placement of replicas, and reassign them.")
app.command("check", epilog=placement_check.EPILOG, results=placement_check.RESULTS)(
    placement_check.check
)

PLAN_EPILOG = """
\b
Examples:
  rackward placement plan -o plan.json
  rackward placement plan --drain 4 --throttle 50MB -o plan.json
  rackward placement plan --topics orders -r 3 --even -o plan.json

Without --even, --drain or --replication-factor, the plan repairs violations of the rack rules and
leaves everything else unchanged. The cluster is changed by rackward placement apply only.

Exit status: 0 success (also if there is nothing to change); 2 error (reason on stderr).
"""


@app.command(epilog=PLAN_EPILOG, results=(PlanFile, ChangeResult))
def plan(
    *,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            max=1000,
            help="New replication factor; a lower one removes replicas. Default: unchanged. "
            "Internal topics are included only if --topics matches them.",
        ),
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            metavar="ID,...",
            help="Move all replicas of these topics off these brokers, which may be down.",
        ),
    ] = None,
    topics: TopicOptions,
    even: Annotated[
        bool,
        typer.Option(
            "--even/--no-even",
            help="Also balance replicas and leaders over the brokers, new ones included, with the "
            "fewest copies.",
        ),
    ] = False,
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch",
            help="With --placement: place all replicas as if the topics were new, however many "
            "copies that takes.",
        ),
    ] = False,
    placing: PlacingOptions,
    batches: BatchOptions,
    written: PlanOutput,
    cluster: ClusterOptions,
) -> None:
    """Plan the reassignment with the fewest copies to a layout that keeps the rack rules.

    Can change the replication factor, drain brokers, spread replicas over racks and balance
    brokers. Replicas and leaders that can stay are not moved. With --placement, a placement
    strategy chooses the brokers of missing replicas.
    """
    placement = placing.parse()
    written.check()
    for option, given in (
        ("--placement-properties", placing.placement_properties is not None),
        ("--seed", placing.seed is not None),
        ("--from-scratch", from_scratch),
    ):
        if given and placing.placement is None:
            raise InvalidOptionError(f"{option} needs --placement: give a placement strategy")
    if even and placing.placement is not None:
        raise InvalidOptionError("--even and --placement exclude each other: give one of the two")
    drained = frozenset[int]() if drain is None else parse_broker_ids("--drain", drain)
    limits = batches.limits()
    progress = step_reporter(stderr())
    with cluster.connect() as admin:
        progress("Reading topics")
        state = read_state(admin)
        names: Collection[str] = state.topics
        if replication_factor is not None and topics.topics is None:
            names = set(names) - state.internal
        request = ReassignmentRequest(
            topics=topics.match(names),
            replication_factor=replication_factor,
            drain=drained,
            even=even,
            ignore_racks=placing.ignore_racks,
            placer=None if placing.placement is None else placement.placer,
            fallback=placement.fallback,
            from_scratch=from_scratch,
        )
        check_request(request, state)
        view = planning_view(state, placement.locator)
        progress("Planning")
        moves = plan_moves(request, view)
        progress("Reading sizes of replicas")
        sizes = read_leader_sizes(admin, view, moves)
    built = build_plan(
        PlanKind.PLACEMENT,
        moves,
        state,
        view,
        created_at=format_now(),
        options={
            "replication_factor": replication_factor,
            "drain": sorted(drained),
            "topics": topics.topics,
            "exclude": topics.exclude,
            "even": even,
            "placement": placing.placement,
            "seed": None if placing.placement is None else placement.seed,
            "from_scratch": from_scratch,
        },
        rack_source=placing.source(ignore_racks=placing.ignore_racks),
        sizes=sizes,
        limits=limits,
    )
    write_plan(
        "placement plan",
        built,
        view,
        written,
        topics=request.topics,
        notes=rackless_notes(request, view),
    )


APPLY_EPILOG = f"""
\b
Examples:
  rackward placement apply plan.json
  rackward placement apply plan.json --throttle 50MB --batch-count 20 --yes

{APPLY_STATUSES} Ctrl-C removes the throttle. The cluster continues what it is copying: apply the
plan again to resume, or cancel it with placement cancel. After a kill -9 the throttle is still set,
and apply needs --adopt-throttle.

{APPLY_EVENTS}
"""


@app.command(epilog=APPLY_EPILOG, results=RUN_RESULTS)
def apply(
    plan: OptionalPlanArgument = None,
    *,
    reassignment_json_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Instead of PLAN: a JSON file of kafka-reassign-partitions. It does not contain "
            "the state that it was made for, so only its target is checked.",
        ),
    ] = None,
    batches: BatchOptions,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional",
            help="Run beside reassignments that are not the plan's, and replace those of the "
            "plan's partitions.",
        ),
    ] = False,
    adopt_throttle: Annotated[
        bool,
        typer.Option(
            "--adopt-throttle",
            help="Resume after a run that was killed: adopt the throttle that it has set, or "
            "remove it. Not while that run goes on.",
        ),
    ] = False,
    run: ExecutionRunOptions,
    cluster: ClusterOptions,
) -> None:
    """Execute a plan in batches, with a throttle, and verify the result.

    The plan is rejected if the cluster has changed since it was made. An interrupted run is
    resumed, also from another machine. The throttle is always removed at the end; after a kill,
    apply --adopt-throttle, cancel or throttle --remove removes it.
    """
    if (plan is None) == (reassignment_json_file is None):
        raise InvalidOptionError("give either PLAN or --reassignment-json-file FILE")
    require_confirmation(run, plan or reassignment_json_file)
    overrides = batches.limits()
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
            "placement apply",
            change,
            LiveCluster(admin),
            run,
            check,
            ExecutionOptions(limits, run.stall_timeout, adopt_throttle, additional),
            source=source,
        )


CANCEL_EPILOG = """
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

CANCEL_COMMAND = "placement cancel"


class PlannedCancellation(msgspec.Struct, frozen=True):
    """The replicas to restore; ``others``: reassignments that are not cancelled."""

    others: int
    partitions: tuple[PlannedPartition, ...]


@app.command(epilog=CANCEL_EPILOG, results=(PlannedRun, PlannedCancellation, FinishedRun))
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
        _show_cancellation(cancellation, state, console, in_force, throttled=throttled)
        if run.as_json:
            planned = PlannedCancellation(
                len(cancellation.others),
                planned_partitions(cancellation.moves.values(), state.view, {}),
            )
            print_json_line(CANCEL_COMMAND, "planned", PlannedRun(run.dry_run, in_force), planned)
        if run.dry_run:
            console.print("Dry run: nothing was changed.")
            return
        if cancellation.moves:
            count = format_count(len(cancellation.moves), "partition")
            confirm(f"Restore the former replicas of {count}?", run.yes)
        elif throttled:
            confirm("Remove the throttle?", run.yes)
        emit = progress_reporter(CANCEL_COMMAND, console, "", run.as_json)
        result = execute_cancellation(cancellation, live, emit)
        print_result(CANCEL_COMMAND, result, console, run.as_json, "as before", live.throttle)


def _show_cancellation(
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
        console.print(_cancellation_table(cancellation, state))
        if len(cancellation.moves) > MAX_LISTED_CHANGES:
            console.print(f"... and {len(cancellation.moves) - MAX_LISTED_CHANGES:,} more")
    if cancellation.others:
        count = format_count(len(cancellation.others), "other reassignment")
        console.print(f"{count} will not be cancelled.")
    if throttled:
        console.print("A throttle that rackward set is in force and will be removed.")
    elif in_force is not None:
        console.print(f"Throttle in force, which will not be removed: {in_force}.", markup=False)


def _cancellation_table(cancellation: Cancellation, state: ClusterState) -> Table:
    racks = state.view.racks()
    rows = table("topic", number("partition"), "cancelled\ntarget", "restored\nreplicas")
    for tp, move in list(cancellation.moves.items())[:MAX_LISTED_CHANGES]:
        in_progress = tp in cancellation.in_progress
        target = replicas_text(move.before, racks) if in_progress else "(order only)"
        rows.add_row(tp.topic, str(tp.partition), target, replicas_text(move.after, racks))
    return rows


THROTTLE_EPILOG = """
\b
Examples:
  rackward placement throttle
  rackward placement throttle --remove

Shown are the settings that throttle replication, whichever tool has made them: the rates of all
brokers and of single ones, and the topics whose replicas are listed. A run of rackward (placement
apply, or the controller) marks its own. While that run goes on it sets its throttle again at its
next batch.

Exit status: 0 success; 1 declined at the prompt; 2 error (reason on stderr).

"""


class ThrottleResult(msgspec.Struct, frozen=True):
    """Whether the settings were removed; ``in_force`` in words, null: there is no throttle."""

    removed: bool
    in_force: str | None


@app.command(epilog=THROTTLE_EPILOG, results=(ThrottleResult, ThrottleSettings))
def throttle(
    *,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Delete all settings that throttle replication, whichever tool has made them.",
        ),
    ] = False,
    run: RunOptions,
    cluster: ClusterOptions,
) -> None:
    """Show the replication throttle that is in force, or remove it."""
    if remove:
        require_confirmation(run)
    console = table_console(run.as_json)
    with cluster.connect() as admin:
        throttle = ReplicationThrottle(admin)
        settings = throttle.read_all()
        if settings.in_force:
            console.print(
                f"A replication throttle is in force: {settings.text}.",
                style="yellow",
                soft_wrap=True,
                markup=False,
            )
        elif settings.not_read is None:
            console.print("No replication throttle is in force.")
        if settings.not_read is not None:
            console.print(
                f"Not known: {settings.not_read}.", style="yellow", soft_wrap=True, markup=False
            )
        removed = remove and settings.in_force and not run.dry_run
        if removed:
            confirm("Remove it?", run.yes)
            throttle.remove_all(settings)
            console.print("Removed.", style="green")
    if run.as_json:
        print_json("placement throttle", ThrottleResult(removed, settings.summary), settings)


app.command("suggest", epilog=placement_suggest.EPILOG, results=placement_suggest.RESULTS)(
    placement_suggest.suggest
)
