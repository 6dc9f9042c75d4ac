"""``rackward placement cancel``: take back what is being reassigned, and lift throttles."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from placement_core import InvalidOptionError
from rackward.admin import ClusterState, read_ongoing, read_state
from rackward.cli import options
from rackward.cli.apply import PlanArgument, load_plan, load_target, moves_to, report
from rackward.cli.connect import open_cluster
from rackward.cli.console import ask, check_can_ask, for_people, table
from rackward.cli.render.progress import narrator, print_line
from rackward.cli.render.topics import replicas_text
from rackward.reassignment import Cancellation, LiveCluster, PlanKind, Settings
from rackward.reassignment import cancel as take_back
from rackward.reassignment.plan_file import STANDARD, name_of
from rackward.units import count_text

MOST_PARTITIONS = 20

EPILOG = """
Without PLAN, everything that is being reassigned in the cluster is taken back, whoever began it.
What has arrived already stays where it is. A throttle that a run of rackward's has left is
lifted, also where nothing is under way.

Exit status: 0 done, read back; 1 something is not as it was, or you said no; 2 it could not be
begun, with the reason in one line.

\b
JSON: a line for each event, {schema_version: 1, command, event, ...}: planned
 {dry_run, others, partitions: [{topic, partition, before: [broker], after:
 [broker]}]}, cancelled, failed, throttle_lifted, throttle_left; at last
 finished {ok, placed, failed, behind, throttle_left}.
"""

COMMAND = "placement cancel"


def cancel(
    plan: PlanArgument = None,
    reassignment_json_file: Annotated[
        str | None,
        typer.Option(
            "--reassignment-json-file",
            metavar="FILE",
            help="Instead of a plan: what kafka-reassign-partitions reads.",
        ),
    ] = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    as_json: options.Json = False,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
) -> None:
    """Take back what is being reassigned, and lift the throttle that belongs to it.

    With a plan: what the plan has under way, to the very replica lists that it was made from.
    Without: everything.
    """
    if plan is not None and reassignment_json_file is not None:
        raise InvalidOptionError("PLAN and --reassignment-json-file: give one of the two")
    if STANDARD in (plan, reassignment_json_file) and not yes and not dry_run:
        raise InvalidOptionError(
            "the plan comes over standard input, so that nobody can be asked: give --yes or "
            "--dry-run"
        )
    if not dry_run:
        check_can_ask(yes)
    loaded = None if plan is None else load_plan(plan, PlanKind.PLACEMENT)
    target = None if reassignment_json_file is None else load_target(reassignment_json_file)
    with open_cluster(bootstrap_server, command_config, timeout) as admin:
        ongoing = read_ongoing(admin)
        if loaded is not None:
            state = read_state(admin, {each.move.partition.topic for each in loaded.moves})
            moves = tuple(each.move for each in loaded.moves)
            wanted = Cancellation.of_plan(moves, state, ongoing)
        elif target is not None:
            name = name_of(str(reassignment_json_file))
            state = read_state(admin, {place.topic for place in target})
            wanted = Cancellation.of_plan(moves_to(name, target, state), state, ongoing)
        else:
            state = read_state(admin, {place.topic for place in ongoing})
            wanted = Cancellation.of_all(ongoing, state)
        _carry_out(wanted, state, LiveCluster(admin), dry_run, yes, as_json)


def _carry_out(
    wanted: Cancellation,
    state: ClusterState,
    cluster: LiveCluster,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    console = for_people(as_json)
    left = cluster.throttle.found().marks
    _show(wanted, state, console, throttled=bool(left))
    if as_json:
        print_line(COMMAND, "planned", {"dry_run": dry_run, **_planned_json(wanted)})
    if dry_run:
        console.print("Dry run: nothing was changed.")
        return
    if wanted.moves:
        ask(f"Take back {count_text(len(wanted.moves), 'partition')}?", yes)
    elif left:
        ask("Lift the throttle?", yes)
    with narrator(COMMAND, console, "", as_json) as tell:
        outcome = take_back(wanted, cluster, Settings(), tell)
    report(COMMAND, outcome, console, as_json, "as before")


def _show(wanted: Cancellation, state: ClusterState, console: Console, *, throttled: bool) -> None:
    if not wanted.moves:
        console.print("Nothing of this is being reassigned.")
    else:
        console.print(
            f"{count_text(len(wanted.under_way), 'reassignment')} to take back.", style="bold"
        )
        console.print(_table(wanted, state))
        if len(wanted.moves) > MOST_PARTITIONS:
            console.print(f"... and {len(wanted.moves) - MOST_PARTITIONS:,} more")
    if wanted.others:
        console.print(f"{count_text(len(wanted.others), 'reassignment')} of others stay under way.")
    if throttled:
        console.print("A throttle that rackward set is in force, and will be lifted.")


def _table(wanted: Cancellation, state: ClusterState) -> Table:
    racks = state.view.racks()
    made = table()
    made.add_column("topic", overflow="fold")
    made.add_column("parti-\ntion", justify="right")
    made.add_column("on its\nway to")
    made.add_column("back to")
    for place, move in list(wanted.moves.items())[:MOST_PARTITIONS]:
        going = replicas_text(move.before, racks) if place in wanted.under_way else "(order only)"
        made.add_row(place.topic, str(place.partition), going, replicas_text(move.after, racks))
    return made


def _planned_json(wanted: Cancellation) -> dict[str, Any]:
    return {
        "others": len(wanted.others),
        "partitions": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "before": list(move.before),
                "after": list(move.after),
            }
            for place, move in wanted.moves.items()
        ],
    }
