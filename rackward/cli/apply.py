"""Carrying a plan out, from its file to the verdict: what `placement` and `leaders` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import typer
from rich.console import Console

from placement_core import ClusterView, InvalidLayoutError, InvalidOptionError, TopicPartition
from placement_core.cluster import Move
from placement_core.leaders import Locality
from placement_core.reassignment import from_kafka_json
from rackward.admin import ClusterState
from rackward.cli.console import ask, for_people
from rackward.cli.render.plan import Change, change_json, show_change
from rackward.cli.render.progress import narrator, print_line
from rackward.reassignment import (
    Engine,
    LiveCluster,
    Outcome,
    Pace,
    Phase,
    Plan,
    PlanFileError,
    PlanKind,
    Settings,
    Standing,
    from_text,
)
from rackward.reassignment.events import ForeignReassignmentError
from rackward.reassignment.plan_file import STANDARD, name_of, read_text
from rackward.reassignment.progress import DEFAULT_BATCH, DEFAULT_PATIENCE, listed
from rackward.units import count_text

# ---- The plan that a command line names: a plan file, or Kafka's own JSON.

ReassignmentFile = Annotated[
    str | None,
    typer.Option(
        "--reassignment-json-file",
        metavar="FILE",
        help="Instead of a plan: what kafka-reassign-partitions reads. It does not say what it "
        "was made from, so that only the target is checked.",
    ),
]


NeededPlan = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan's file; - is standard input.")
]


def load_plan(path: str, kind: PlanKind) -> Plan:
    """The plan in a file (``-``: standard input). Raises PlanFileError."""
    plan = from_text(name_of(path), read_text(path))
    if plan.kind is not kind:
        raise PlanFileError(
            f"{name_of(path)} is a plan of kind {plan.kind.value}: carry it out with rackward "
            f"{plan.kind.value} apply"
        )
    return plan


def load_target(path: str) -> dict[TopicPartition, tuple[int, ...]]:
    """The replica lists in Kafka's JSON. Raises PlanFileError, which names file and place."""
    try:
        return from_kafka_json(read_text(path))
    except InvalidLayoutError as error:
        if '"rackward_plan"' in read_text(path):
            raise PlanFileError(
                f"{name_of(path)} is a plan of rackward's: give it without --reassignment-json-file"
            ) from error
        raise PlanFileError(f"{name_of(path)}: {error}") from error


def one_of(plan: str | None, reassignment_file: str | None) -> None:
    """Raise InvalidOptionError unless exactly one is given."""
    if (plan is None) == (reassignment_file is None):
        raise InvalidOptionError("give PLAN, or --reassignment-json-file FILE: one of the two")


def moves_to(
    source: str, target: Mapping[TopicPartition, tuple[int, ...]], state: ClusterState
) -> tuple[Move, ...]:
    """The moves from where partitions are (before what is under way began) to a target.

    Raises PlanFileError for partitions and brokers that the cluster does not have.
    """
    live, moves = state.view.racks(), []
    for place, after in sorted(target.items()):
        name = f"{place.topic}-{place.partition}"
        now = state.view.replicas.get(place)
        if now is None:
            raise PlanFileError(f"{source}: the cluster has no partition {name}: take it out")
        if unknown := [broker for broker in after if broker not in live]:
            raise PlanFileError(
                f"{source}: {name} is to be on broker {unknown[0]}, which is not live: the cluster "
                f"has {', '.join(map(str, live))}"
            )
        ongoing = state.ongoing.get(place)
        adding = ongoing.adding if ongoing is not None else ()
        moves.append(Move(place, tuple(b for b in now if b not in adding), after))
    return tuple(moves)


# ---- What came of a run, for people and for programs.

MOST_SHOWN = 20
"""Partitions that are named one by one; JSON has all."""


def report(
    command: str, outcome: Outcome, console: Console, as_json: bool, how: str = "as planned"
) -> None:
    """Tell what was read back at the end; typer.Exit(1) where it is not as it should be."""
    if as_json:
        print_line(command, "finished", {"dry_run": False, **outcome_json(outcome)})
    placed = count_text(outcome.placed, "partition")
    if outcome.complete:
        found = f"{placed} {how}, all replicas in sync, " if outcome.placed else ""
        console.print(f"Done, and read back: {found}no throttle left.", style="green")
        return
    console.print(f"NOT complete: {placed} {how}.", style="red")
    _list(outcome.failed, console)
    _list({p: f"not in sync on {listed(found)}" for p, found in outcome.behind.items()}, console)
    _list(outcome.not_led, console)
    for what in outcome.throttle_left:
        console.print(f"  of the throttle: {what}")
    raise typer.Exit(1)


def _list(faults: Mapping[TopicPartition, str], console: Console) -> None:
    for (topic, number), reason in list(faults.items())[:MOST_SHOWN]:
        console.print(f"  {topic}-{number}: {reason}")
    if len(faults) > MOST_SHOWN:
        console.print(f"  ... and {len(faults) - MOST_SHOWN:,} more")


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome's fields."""
    return {
        "ok": outcome.complete,
        "placed": outcome.placed,
        "failed": [
            {"topic": topic, "partition": number, "reason": reason}
            for (topic, number), reason in outcome.failed.items()
        ],
        "under_way": [list(place) for place in outcome.under_way],
        "behind": [
            {"topic": topic, "partition": number, "brokers": list(brokers)}
            for (topic, number), brokers in outcome.behind.items()
        ],
        "not_led": [
            {"topic": topic, "partition": number, "reason": reason}
            for (topic, number), reason in outcome.not_led.items()
        ],
        "throttle_left": list(outcome.throttle_left),
    }


Patience = Annotated[
    float,
    typer.Option(
        "--stall-timeout",
        metavar="SECONDS",
        min=0.0,
        help="Wait no longer when nothing has moved for so long.",
    ),
]
Additional = Annotated[
    bool,
    typer.Option(
        "--additional",
        help="Go on beside reassignments that are not the plan's, and replace those of its "
        "own partitions.",
    ),
]
PlanArgument = Annotated[
    str | None, typer.Argument(metavar="PLAN", help="The plan's file; - is standard input.")
]

DEFAULT_STALL = DEFAULT_PATIENCE
APPLY_JSON = """JSON: a line for each event, {schema_version: 1, command, event, ...}:
 planned (the fields of plan's JSON), begun, throttled, batch_begun, progressed
 (number, batches, placed, partitions, copied, bytes, rate, seconds), failed
 (topic, partition, reason), waiting, elected, throttle_lifted, throttle_left,
 left_under_way; at last finished {ok, dry_run, placed, failed: [{topic,
 partition, reason}], under_way, behind, not_led, throttle_left}."""
STATUS = """Exit status: 0 all is as planned, read back; 1 something is not, or you
said no; 2 it could not be begun, with the reason in one line; 130 after Ctrl-C. Ctrl-C lifts the
throttle and leaves to the cluster what it is copying: apply again takes it up, cancel takes it
back."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be carried out.

    ``source`` is its name on a command line, ``view`` the whole cluster now; ``sizes`` are bytes
    per partition on its leader, as far as they are known.
    """

    command: str
    source: str
    moves: tuple[Move, ...]
    view: ClusterView
    pace: Pace
    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    localities: tuple[Locality, ...] = ()


@dataclass(frozen=True, slots=True)
class Manner:
    """How a command was told to behave."""

    yes: bool
    dry_run: bool
    as_json: bool
    every: bool
    patience: float
    additional: bool

    @property
    def console(self) -> Console:
        """Where tables and progress go."""
        return for_people(self.as_json)


def check_can_ask_of(plan: str | None, manner: Manner) -> None:
    """Raise InvalidOptionError where the plan comes over the input that would be asked."""
    if plan == STANDARD and not manner.yes and not manner.dry_run:
        raise InvalidOptionError(
            "the plan comes over standard input, so that nobody can be asked: give --yes or "
            "--dry-run"
        )


def carry_out(
    job: Job,
    cluster: LiveCluster,
    manner: Manner,
    check: Callable[[ClusterState], None],
    default_batch: int = DEFAULT_BATCH,
) -> None:
    """Check, show, ask, do, read back. ``check`` raises where the plan does not fit the state.

    typer.Exit(1) where something is not as planned. Raises RackwardError.
    """
    topics = sorted({move.partition.topic for move in job.moves})
    state, ongoing = cluster.look(topics)
    check(state)
    standing = Standing.of(job.moves, state, ongoing)
    check_alone(standing, manner.additional)
    left = tuple(move for move in job.moves if standing.phases[move.partition] is not Phase.PLACED)
    # What is under way counts as not there yet.
    before = {move.partition: move.before for move in left}
    change = Change(
        replace(job.view, replicas={**job.view.replicas, **before}),
        left,
        job.sizes,
        job.pace.throttle,
        job.localities,
    )
    console = manner.console
    if left:
        show_change(change, console, every=manner.every)
    if done := len(job.moves) - len(left):
        console.print(
            f"{count_text(done, 'partition')} {'is' if done == 1 else 'are'} as planned already."
        )
    if under_way := standing.count(Phase.UNDER_WAY):
        console.print(f"{count_text(under_way, 'partition')} are on their way already.")
    if manner.as_json:
        print_line(job.command, "planned", {"dry_run": manner.dry_run, **change_json(change)})
    if manner.dry_run:
        console.print("Dry run: nothing was changed.")
        return
    if left:
        ask(f"Change {count_text(len(left), 'partition')}?", manner.yes)
    settings = Settings(
        most_partitions=job.pace.partitions or default_batch,
        most_bytes=job.pace.bytes,
        throttle=job.pace.throttle,
        patience=manner.patience,
        additional=manner.additional,
    )
    with narrator(job.command, console, job.source, manner.as_json) as tell:
        outcome = Engine(job.moves, job.sizes, cluster, settings, tell).run()
    report(job.command, outcome, console, manner.as_json)


def check_alone(standing: Standing, additional: bool) -> None:
    """Raise ForeignReassignmentError where others are under way and nobody said to go on."""
    foreign = sorted(standing.foreign)
    if foreign and not additional:
        some = ", ".join(f"{topic}-{number}" for topic, number in foreign[:3])
        many = len(foreign) > 1
        raise ForeignReassignmentError(
            f"{count_text(len(foreign), 'reassignment')} that {'are' if many else 'is'} not of "
            f"this plan {'are' if many else 'is'} under way ({some}"
            f"{', ...' if len(foreign) > 3 else ''}): wait, take them back with rackward "
            "placement cancel, or go on beside them with --additional"
        )
