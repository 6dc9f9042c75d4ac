"""A plan and the load of brokers as tables and as JSON; the options that write a plan to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from placement_core import ClusterView, InvalidOptionError
from placement_core.cluster import ClusterLoad, Load, Move, cluster_load
from placement_core.leaders import Locality
from rackward.cli.console import print_json, stderr, stdout, table
from rackward.reassignment import Plan, PlannedChange
from rackward.reassignment.plan import (
    STDIO,
    bytes_to_copy,
    count_copies,
    count_leader_changes,
    count_removals,
    format_plan,
    to_kafka_json,
    write_text,
)
from rackward.units import format_bytes, format_count, format_duration

MAX_BROKER_ROWS = 30
"""With more brokers, a table has one row per rack with the ranges of its brokers."""

NO_RACK = "(no rack)"
_MAX_RACK_LENGTH = 10


def load_table(title: str, load: ClusterLoad) -> Table:
    """Return a table with a row per rack and per broker: leaders and replicas."""
    rows = table(title)
    rows.add_column("rack", overflow="fold")
    rows.add_column("broker", justify="right")
    for name in ("leaders", "replicas"):
        rows.add_column(f"{name}\nbefore", justify="right")
        rows.add_column("\nafter", justify="right")
    many = len(load.brokers) > MAX_BROKER_ROWS
    for rack, rack_load in load.racks.items():
        members = [(b, each) for b, (r, each) in load.brokers.items() if r == rack]
        name = NO_RACK if rack is None else rack
        if many:
            rows.add_row(name, f"{len(members)} brokers", *_cells(rack_load))
            rows.add_row("", "each", *_ranges([each for _, each in members]))
            continue
        rows.add_row(name, "all", *_cells(rack_load), style="bold")
        for broker, each in members:
            rows.add_row("", str(broker), *_cells(each))
    return rows


def load_json(load: ClusterLoad) -> dict[str, Any]:
    """Return ``brokers`` and ``racks``, each a list of objects."""
    return {
        "brokers": [
            {"id": broker, "rack": rack, **_fields(each)}
            for broker, (rack, each) in load.brokers.items()
        ],
        "racks": [{"rack": rack, **_fields(each)} for rack, each in load.racks.items()],
    }


def format_range(values: Sequence[int]) -> str:
    """Return ``3 to 1,200``, or ``3`` if all values are 3."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _fields(load: Load) -> dict[str, int]:
    return {
        "leaders_before": load.leaders_before,
        "leaders_after": load.leaders_after,
        "replicas_before": load.replicas_before,
        "replicas_after": load.replicas_after,
    }


def _cells(load: Load) -> list[str]:
    return [f"{value:,}" for value in _fields(load).values()]


def _ranges(loads: Sequence[Load]) -> Iterator[str]:
    for values in zip(*(_fields(load).values() for load in loads), strict=True):
        yield format_range(values)


def replicas_text(row: tuple[int, ...], racks: Mapping[int, str | None]) -> str:
    """Return ``0:a 2:b 4:c``, or ``0 2 4`` if racks are unknown or have long names."""
    longest = max((len(rack or "") for rack in racks.values()), default=0)
    if longest > _MAX_RACK_LENGTH or not any(racks.values()):
        return " ".join(map(str, row))
    return " ".join(
        f"{broker}:{racks.get(broker) or '-'}" if broker >= 0 else str(broker) for broker in row
    )


MAX_LISTED_PARTITIONS = 20


def show_change(change: PlannedChange, console: Console, *, every_partition: bool) -> None:
    """Print a change: in total, by consumers, by broker and rack, by partition."""
    console.print(_headline(change), style="bold", soft_wrap=False)
    if (violations := change.rack_rule_violations()) is not None and any(violations):
        before, after = violations
        console.print(
            f"Partitions not spread over racks as evenly as possible: {before:,} before, "
            f"{after:,} after."
        )
    seconds = change.min_copy_seconds
    if seconds is not None and change.throttle is not None:
        console.print(
            f"At {format_bytes(change.throttle)}/s per broker, copying takes at least "
            f"{format_duration(seconds)}."
        )
    console.print()
    if change.localities:
        console.print(_locality_table(change.localities))
        console.print()
    load = cluster_load(change.view, change.after)
    console.print(load_table("Load of brokers, all topics", load))
    console.print()
    listed = change.moves if every_partition else change.moves[:MAX_LISTED_PARTITIONS]
    console.print(_partition_table(change, listed))
    if hidden := len(change.moves) - len(listed):
        console.print(f"... and {hidden:,} more: --all-partitions lists them")
    console.print()


def change_json(change: PlannedChange) -> dict[str, Any]:
    """Return the fields of a change in a command's JSON."""
    violations, seconds = change.rack_rule_violations(), change.min_copy_seconds
    return {
        "copies": count_copies(change.moves),
        "bytes": bytes_to_copy(change.moves, change.sizes),
        "leader_changes": count_leader_changes(change.moves),
        "throttle": change.throttle,
        "min_copy_seconds": None if seconds is None else round(seconds, 3),
        "against_rack_rules": None if violations is None else list(violations),
        "localities": [
            {
                "readers": each.name,
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
        **load_json(cluster_load(change.view, change.after)),
    }


def _headline(change: PlannedChange) -> str:
    copies, leaders = count_copies(change.moves), count_leader_changes(change.moves)
    if not copies:
        copying = "no data is copied"
    else:
        size = bytes_to_copy(change.moves, change.sizes)
        size_text = "an unknown size" if size is None else format_bytes(size)
        copying = f"{format_count(copies, 'replica')} to copy ({size_text})"
    if removed := count_removals(change.moves):
        copying += f", {format_count(removed, 'replica')} to remove without a replacement"
    return (
        f"{format_count(len(change.moves), 'partition')} to change: {copying}, "
        f"{format_count(leaders, 'preferred leader')} {'changes' if leaders == 1 else 'change'}"
    )


def _locality_table(localities: Sequence[Locality]) -> Table:
    rows = table("Partitions read in the rack of their leader")
    rows.add_column("consumers", overflow="fold")
    for name in ("partitions", "before", "after"):
        rows.add_column(name, justify="right")
    for each in localities:
        rows.add_row(
            each.name,
            f"{each.partitions:,}",
            _share(each.before, each.partitions),
            _share(each.after, each.partitions),
        )
    return rows


def _share(part: int, whole: int) -> str:
    return f"{part:,} = {100 * part / whole:.1f} %" if whole else "-"


def _partition_table(change: PlannedChange, moves: Sequence[Move]) -> Table:
    racks = change.view.racks()
    with_sizes = any(move.adding and move.partition in change.sizes for move in moves)
    rows = table()
    rows.add_column("topic", overflow="fold")
    rows.add_column("parti-\ntion", justify="right")
    rows.add_column("replicas\nbefore")
    rows.add_column("\nafter")
    if with_sizes:
        rows.add_column("bytes\nto copy", justify="right")
    previous = None
    for move in moves:
        topic, number = move.partition
        cells = [
            "" if topic == previous else topic,
            str(number),
            replicas_text(move.before, racks),
            replicas_text(move.after, racks),
        ]
        if with_sizes:
            cells.append(_size_to_copy(change, move))
        rows.add_row(*cells)
        previous = topic
    return rows


def _size_to_copy(change: PlannedChange, move: Move) -> str:
    if not move.adding:
        return "-"
    size = change.sizes.get(move.partition)
    return "?" if size is None else format_bytes(size * len(move.adding))


# Writing a plan.


class PlanFormat(StrEnum):
    """Formats of a plan file."""

    RACKWARD = "rackward"
    KAFKA = "kafka"


Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the plan to FILE; - is stdout."),
]
Format = Annotated[
    PlanFormat,
    typer.Option(
        "--format",
        help="Format of the plan file: rackward, which apply can check; or kafka, the JSON of "
        "kafka-reassign-partitions.",
    ),
]

PLAN_JSON = """JSON: {schema_version: 1, command, output, copies, bytes, leader_changes,
 throttle, min_copy_seconds, against_rack_rules: [before, after],
 localities: [{readers, partitions, before, after}],
 partitions: [{topic, partition, before: [broker], after: [broker], bytes}],
 brokers: [{id, rack, leaders_before, leaders_after, replicas_before,
            replicas_after}], racks: [{rack, ...}], notes: [sentence]}"""


def check_output(output: str | None, format: PlanFormat, as_json: bool) -> None:
    """Raise InvalidOptionError if the options contradict each other."""
    if format is PlanFormat.KAFKA and output is None:
        raise InvalidOptionError("--format kafka needs --output FILE (- is stdout)")
    if output == STDIO and as_json:
        raise InvalidOptionError("--output - and --json both write to stdout: give one of the two")


def write_plan(
    command: str,
    plan: Plan,
    view: ClusterView,
    output: str | None,
    format: PlanFormat,
    *,
    every_partition: bool,
    as_json: bool,
    topics: frozenset[str] | None = None,
    notes: Sequence[str] = (),
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Show a plan, and write it to ``output`` if that is given.

    ``topics`` are those that could change (None: all), ``notes`` sentences to show after the
    tables, ``fields`` more fields of the JSON. Raises PlanFileError.
    """
    text = to_kafka_json(plan.target) if format is PlanFormat.KAFKA else format_plan(plan)
    if output is not None and output != STDIO:
        write_text(output, text)
    change = PlannedChange(
        view, plan.moves, plan.sizes, plan.limits.throttle, plan.localities, topics
    )
    if as_json:
        more = {**(fields or {}), "notes": list(notes)}
        print_json(command, {"output": output, **change_json(change), **more})
        return
    console = stderr() if output == STDIO else stdout()
    if plan.moves:
        show_change(change, console, every_partition=every_partition)
    else:
        console.print("Nothing to change.", style="green")
    for note in notes:
        # Without wrapping, so that commands can be copied.
        console.print(note, soft_wrap=True)
    if output == STDIO:
        sys.stdout.write(text)
    elif output is not None:
        count = format_count(len(plan.moves), "partition")
        console.print(f"Plan written to {output} ({count}).")
        if plan.moves:
            console.print(f"To execute it: {_apply_command(plan, output, format)}")
    elif plan.moves:
        console.print("To execute the plan, write it to a file first: --output FILE.")


def _apply_command(plan: Plan, output: str, format: PlanFormat) -> str:
    if format is PlanFormat.KAFKA:
        return f"rackward placement apply --reassignment-json-file {output}"
    return f"rackward {plan.kind.value} apply {output}"
