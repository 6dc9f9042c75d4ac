"""A plan as tables and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from placement_core.audit import audit
from placement_core.cluster import Move
from placement_core.leaders import Locality
from placement_core.reassignment import to_kafka_json
from rackward.cli.console import print_json, stderr, stdout, table
from rackward.cli.render.load import totals_json, totals_table
from rackward.cli.render.topics import replicas_text
from rackward.reassignment import Plan, to_text
from rackward.reassignment.plan import after_view
from rackward.reassignment.plan_file import STANDARD, write_text
from rackward.reassignment.progress import least_seconds
from rackward.topics.planner import totals
from rackward.units import bytes_text, count_text, seconds_text

MOST_PARTITIONS = 20
"""Partitions that are shown one by one, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a change does to ``view``, as it is shown before anything is done.

    ``sizes`` are bytes per partition on its leader, as far as they are known; ``throttle`` is
    in bytes per second and broker.
    """

    view: ClusterView
    moves: tuple[Move, ...]
    sizes: Mapping[TopicPartition, int]
    throttle: int | None = None
    localities: tuple[Locality, ...] = ()

    @classmethod
    def of(cls, plan: Plan, view: ClusterView, throttle: int | None) -> Change:
        """All that a plan wants changed."""
        return cls(
            view,
            tuple(each.move for each in plan.moves),
            sizes_of(plan),
            throttle,
            plan.localities,
        )

    @property
    def after(self) -> ClusterView:
        """The view afterwards."""
        return after_view(self.view, self.moves)

    @property
    def copies(self) -> int:
        """Replicas to be copied."""
        return sum(len(move.adding) for move in self.moves)

    @property
    def bytes(self) -> int | None:
        """Bytes to be copied; None where a size is not known."""
        copying = [move for move in self.moves if move.adding]
        if any(move.partition not in self.sizes for move in copying):
            return None
        return sum(self.sizes[move.partition] * len(move.adding) for move in copying)

    @property
    def leader_changes(self) -> int:
        """Partitions whose preferred leader changes."""
        return sum(move.before[:1] != move.after[:1] for move in self.moves)

    @property
    def seconds(self) -> float | None:
        """How long copying takes at least; None without a throttle, or without sizes."""
        if self.throttle is None or self.bytes is None:
            return None
        return least_seconds(self.moves, self.sizes, self.throttle)

    def against_rules(self) -> tuple[int, int] | None:
        """Partitions that break the rack rules, before and after; None where racks are unknown."""
        before = audit(self.view).figures.against_rack_rules
        after = audit(self.after).figures.against_rack_rules
        return None if before is None or after is None else (before, after)


def sizes_of(plan: Plan) -> dict[TopicPartition, int]:
    """The bytes per partition that a plan knows."""
    return {each.move.partition: each.bytes for each in plan.moves if each.bytes is not None}


def show_change(change: Change, console: Console, *, every: bool) -> None:
    """Print what changes: in all, for readers, per broker and rack, per partition."""
    console.print(_headline(change), style="bold", soft_wrap=False)
    if (broken := change.against_rules()) is not None and any(broken):
        now, then = broken
        console.print(f"Not spread over racks as evenly as can be: {now:,} now, {then:,} then.")
    if change.seconds is not None and change.throttle is not None:
        console.print(
            f"At {bytes_text(change.throttle)}/s per broker, copying takes "
            f"{seconds_text(change.seconds)} at least."
        )
    console.print()
    if change.localities:
        console.print(localities_table(change.localities))
        console.print()
    console.print(
        totals_table("What brokers carry, over all topics", totals(change.view, change.after))
    )
    console.print()
    console.print(_partitions(change, change.moves if every else change.moves[:MOST_PARTITIONS]))
    if not every and len(change.moves) > MOST_PARTITIONS:
        hidden = len(change.moves) - MOST_PARTITIONS
        console.print(f"... and {hidden:,} more: --every-partition shows them")
    console.print()


def localities_table(localities: Sequence[Locality]) -> Table:
    """What readers read in their own rack, before and after."""
    made = table("Read in the readers' own racks")
    made.add_column("readers", overflow="fold")
    for name in ("partitions", "before", "after"):
        made.add_column(name, justify="right")
    for each in localities:
        made.add_row(
            each.readers,
            f"{each.partitions:,}",
            _share(each.before, each.partitions),
            _share(each.after, each.partitions),
        )
    return made


def change_json(change: Change) -> dict[str, Any]:
    """The change's fields of a command's JSON."""
    broken = change.against_rules()
    return {
        "copies": change.copies,
        "bytes": change.bytes,
        "leader_changes": change.leader_changes,
        "throttle": change.throttle,
        "least_seconds": None if change.seconds is None else round(change.seconds, 3),
        "against_rack_rules": None if broken is None else list(broken),
        "localities": [
            {
                "readers": each.readers,
                "partitions": each.partitions,
                "before": each.before,
                "after": each.after,
            }
            for each in change.localities
        ],
        "partitions": [
            {
                "topic": move.partition.topic,
                "partition": move.partition.partition,
                "before": list(move.before),
                "after": list(move.after),
                "bytes": change.sizes.get(move.partition),
            }
            for move in change.moves
        ],
        **totals_json(totals(change.view, change.after)),
    }


def _headline(change: Change) -> str:
    if not change.copies:
        copied = "no data is copied"
    else:
        size = "an unknown size" if change.bytes is None else bytes_text(change.bytes)
        copied = f"{count_text(change.copies, 'replica')} to copy ({size})"
    changes = count_text(change.leader_changes, "preferred leader")
    return (
        f"{count_text(len(change.moves), 'partition')} to change: {copied}, {changes} "
        f"{'changes' if change.leader_changes == 1 else 'change'}"
    )


def _partitions(change: Change, moves: Sequence[Move]) -> Table:
    racks = change.view.racks()
    sized = any(move.adding and move.partition in change.sizes for move in moves)
    made = table()
    made.add_column("topic", overflow="fold")
    made.add_column("parti-\ntion", justify="right")
    made.add_column("replicas\nnow")
    made.add_column("\nthen")
    if sized:
        made.add_column("bytes\nto copy", justify="right")
    before = None
    for move in moves:
        topic, number = move.partition
        cells = [
            "" if topic == before else topic,
            str(number),
            replicas_text(move.before, racks),
            replicas_text(move.after, racks),
        ]
        if sized:
            size = change.sizes.get(move.partition)
            copied = None if size is None else size * len(move.adding)
            cells.append("-" if not move.adding else "?" if copied is None else bytes_text(copied))
        made.add_row(*cells)
        before = topic
    return made


def _share(part: int, whole: int) -> str:
    return f"{part:,} = {100 * part / whole:.1f} %" if whole else "-"


# ---- Where a plan goes once it is made: into a file, to stdout, before people's eyes.


class PlanFormat(StrEnum):
    """What a plan is written as."""

    RACKWARD = "rackward"
    KAFKA = "kafka"


Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the plan there; - is stdout."),
]
Format = Annotated[
    PlanFormat,
    typer.Option(
        "--format",
        help="rackward's own, which apply checks; or kafka: what kafka-reassign-partitions reads.",
    ),
]
EveryPartition = Annotated[
    bool, typer.Option("--every-partition", help="Show each partition that changes.")
]

PLAN_JSON = """JSON: {schema_version: 1, command, output, copies, bytes, leader_changes,
 throttle, least_seconds, against_rack_rules: [now, then],
 localities: [{readers, partitions, before, after}],
 partitions: [{topic, partition, before: [broker], after: [broker], bytes}],
 brokers: [{id, rack, leaders_before, leaders_after, replicas_before,
            replicas_after}], racks: [{rack, ...}]}"""


def check_output(output: str | None, format: PlanFormat, as_json: bool) -> None:
    """Raise InvalidOptionError where the options contradict each other."""
    if format is PlanFormat.KAFKA and output is None:
        raise InvalidOptionError("--format kafka without --output: say where to (- is stdout)")
    if output == STANDARD and as_json:
        raise InvalidOptionError("--output - and --json: stdout is for one of the two")


def deliver(
    command: str,
    plan: Plan,
    view: ClusterView,
    output: str | None,
    format: PlanFormat,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Show the plan, and write it where ``output`` says. Raises PlanFileError."""
    text = to_kafka_json(plan.target) if format is PlanFormat.KAFKA else to_text(plan)
    if output not in (None, STANDARD):
        write_text(Path(str(output)), text)
    change = Change.of(plan, view, plan.pace.throttle)
    if as_json:
        print_json(command, {"output": output, **change_json(change)})
        return
    # What goes down a pipe is the plan alone.
    console = stderr() if output == STANDARD else stdout()
    if plan.moves:
        show_change(change, console, every=every)
    else:
        console.print("Nothing is to be changed.", style="green")
    if output == STANDARD:
        sys.stdout.write(text)
    elif output is not None:
        apply = _apply(plan, output, format)
        console.print(f"Written to {output} ({count_text(len(plan.moves), 'partition')}).")
        if plan.moves:
            console.print(f"Carry it out: {apply}")
    elif plan.moves:
        console.print("To keep this plan, and carry it out, give --output FILE.")


def _apply(plan: Plan, output: str, format: PlanFormat) -> str:
    if format is PlanFormat.KAFKA:
        return f"rackward placement apply --reassignment-json-file {output}"
    return f"rackward {plan.kind.value} apply {output}"
