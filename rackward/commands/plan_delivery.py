"""Where a plan goes once it is made: into a file, to stdout, before people's eyes."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placement_core import ClusterView, InvalidOptionError
from placement_core.reassignment import to_kafka_json
from rackward.commands.output import print_json, stderr, stdout
from rackward.commands.plan_output import Change, change_json, show_change
from rackward.plans import Plan, to_text
from rackward.plans.files import STANDARD, write_text
from rackward.units import count_text


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
