"""Carrying a plan out, from its file to the verdict: what `placement` and `leaders` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer
from rich.console import Console

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from placement_core.leaders import Locality
from placement_core.moves import Move
from rackward.admin import ClusterState
from rackward.applying import Engine, LiveCluster, Settings
from rackward.applying.outcome import ForeignReassignmentError
from rackward.applying.settings import DEFAULT_BATCH, DEFAULT_PATIENCE
from rackward.commands.asking import ask
from rackward.commands.narrators import narrator, print_line
from rackward.commands.outcome_output import report
from rackward.commands.output import for_people
from rackward.commands.plan_output import Change, change_json, show_change
from rackward.plans import Pace, Phase, Standing
from rackward.plans.files import STANDARD
from rackward.units import count_text

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
