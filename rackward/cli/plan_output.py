"""A plan and the load of brokers as tables and as JSON; the options that write a plan to a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from placement_core import ClusterView, InvalidOptionError
from placement_core.cluster import BrokerLoad, ClusterLoad, RackLoad, cluster_load
from placement_core.leaders import Locality
from rackward.cli.options import AllPartitions, Json
from rackward.cli.output import number, print_json, rack_name, stderr, stdout, table, text
from rackward.reassignment import Plan, PlannedChange
from rackward.reassignment.plan import (
    STDIO,
    PlannedPartition,
    bytes_to_copy,
    format_plan,
    planned_partitions,
    to_kafka_json,
    write_text,
)
from rackward.units import format_bytes, format_count, format_duration

MAX_BROKER_ROWS = 30
"""With more brokers, a table has one row per rack with the ranges of its brokers."""
MAX_LISTED_PARTITIONS = 60
"""Partitions of all topics together that are listed without --all-partitions."""
MAX_LISTED_CHANGES = 20
"""Partitions of a change, or with a problem, that are listed without --all-partitions."""

_MAX_RACK_LENGTH = 10


# ---- The load of brokers and racks.


def load_table(load: ClusterLoad) -> Table:
    """Return a table with a row per rack and per broker: leaders and replicas."""
    headings = ("leaders\nbefore", "leaders\nafter", "replicas\nbefore", "replicas\nafter")
    rows = table(
        "rack", number("broker"), *map(number, headings), title="Load of brokers, all topics"
    )
    names = ("leaders_before", "leaders_after", "replicas_before", "replicas_after")
    add_load_rows(rows, load.racks, load.brokers, names)
    return rows


def add_load_rows(
    rows: Table, racks: Iterable[Any], brokers: Sequence[Any], names: Sequence[str]
) -> None:
    """Add a row for each rack, and for each of its brokers unless they are too many.

    ``names`` are the figures of both, as names of attributes.
    """
    many = len(brokers) > MAX_BROKER_ROWS
    figures = attrgetter(*names)
    for rack in racks:
        there = [broker for broker in brokers if broker.rack == rack.rack]
        rows.add_row(
            rack_name(rack.rack),
            f"{len(there)} brokers" if many else "all",
            *map(text, figures(rack)),
            style="bold",
        )
        if many:
            ranges = map(format_range, zip(*map(figures, there), strict=True))
            rows.add_row("", "each", *ranges)
            continue
        for broker in there:
            rows.add_row("", str(broker.id), *map(text, figures(broker)))


def format_range(values: Sequence[int]) -> str:
    """Return ``3 to 1,200``, or ``3`` if all values are 3."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def replicas_text(row: tuple[int, ...], racks: Mapping[int, str | None]) -> str:
    """Return ``0:a 2:b 4:c``, or ``0 2 4`` if racks are unknown or have long names."""
    longest = max((len(rack or "") for rack in racks.values()), default=0)
    if longest > _MAX_RACK_LENGTH or not any(racks.values()):
        return " ".join(map(str, row))
    return " ".join(
        f"{broker}:{racks.get(broker) or '-'}" if broker >= 0 else str(broker) for broker in row
    )


# ---- A change.


class ChangeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, or what is left of it.

    copies, bytes, leader_changes
        Replicas to copy, their size (null: unknown), and preferred leaders that change.
    throttle
        Bytes per second and broker; null: none.
    min_copy_seconds
        The time that copying takes at least; null: unknown.
    against_rack_rules
        Partitions that are not spread over racks as evenly as possible, before and after; null
        without racks.
    localities
        Per group, the partitions that are read in the rack of their leader.
    """

    copies: int
    bytes: int | None
    leader_changes: int
    throttle: int | None
    min_copy_seconds: float | None
    against_rack_rules: tuple[int, int] | None
    localities: tuple[Locality, ...]
    partitions: tuple[PlannedPartition, ...]
    brokers: tuple[BrokerLoad, ...]
    racks: tuple[RackLoad, ...]


def change_result(change: PlannedChange) -> ChangeResult:
    """Return a change as the JSON of commands has it."""
    load, seconds = cluster_load(change.view, change.after), change.min_copy_seconds
    partitions = planned_partitions(change.moves, change.view, change.sizes)
    return ChangeResult(
        copies=sum(row.copies for row in partitions),
        bytes=bytes_to_copy(change.moves, change.sizes),
        leader_changes=sum(row.before[:1] != row.after[:1] for row in partitions),
        throttle=change.throttle,
        min_copy_seconds=None if seconds is None else round(seconds, 3),
        against_rack_rules=change.rack_rule_violations(),
        localities=change.localities,
        partitions=partitions,
        brokers=load.brokers,
        racks=load.racks,
    )


def show_change(
    change: ChangeResult,
    racks: Mapping[int, str | None],
    console: Console,
    *,
    all_partitions: bool,
) -> None:
    """Print a change: in total, by consumers, by broker and rack, by partition.

    ``racks`` are those of the brokers.
    """
    console.print(_headline(change), style="bold", soft_wrap=False)
    if change.against_rack_rules is not None and any(change.against_rack_rules):
        before, after = change.against_rack_rules
        console.print(
            f"Partitions not spread over racks as evenly as possible: {before:,} before, "
            f"{after:,} after."
        )
    if change.min_copy_seconds is not None and change.throttle is not None:
        console.print(
            f"At {format_bytes(change.throttle)}/s per broker, copying takes at least "
            f"{format_duration(change.min_copy_seconds)}."
        )
    console.print()
    if change.localities:
        console.print(_locality_table(change.localities))
        console.print()
    console.print(load_table(ClusterLoad(change.brokers, change.racks)))
    console.print()
    listed = change.partitions if all_partitions else change.partitions[:MAX_LISTED_CHANGES]
    console.print(_partition_table(listed, racks))
    if hidden := len(change.partitions) - len(listed):
        console.print(f"... and {hidden:,} more: --all-partitions lists them")
    console.print()


def _headline(change: ChangeResult) -> str:
    copying = "no data is copied"
    if change.copies:
        size = "an unknown size" if change.bytes is None else format_bytes(change.bytes)
        copying = f"{format_count(change.copies, 'replica')} to copy ({size})"
    removed = sum(max(0, len(move.before) - len(move.after)) for move in change.partitions)
    if removed:
        copying += f", {format_count(removed, 'replica')} to remove without a replacement"
    leaders = change.leader_changes
    return (
        f"{format_count(len(change.partitions), 'partition')} to change: {copying}, "
        f"{format_count(leaders, 'preferred leader')} {'changes' if leaders == 1 else 'change'}"
    )


def _locality_table(localities: Sequence[Locality]) -> Table:
    rows = table(
        "consumers",
        *map(number, ("partitions", "before", "after")),
        title="Partitions read in the rack of their leader",
    )
    for each in localities:
        shares = (
            f"{part:,} = {100 * part / each.partitions:.1f} %" if each.partitions else "-"
            for part in (each.before, each.after)
        )
        rows.add_row(each.name, text(each.partitions), *shares)
    return rows


def _partition_table(moves: Sequence[PlannedPartition], racks: Mapping[int, str | None]) -> Table:
    with_sizes = any(move.copies and move.bytes is not None for move in moves)
    sizes = [number("bytes\nto copy")] if with_sizes else []
    rows = table("topic", number("partition"), "replicas\nbefore", "replicas\nafter", *sizes)
    previous = None
    for move in moves:
        cells = [replicas_text(move.before, racks), replicas_text(move.after, racks)]
        if with_sizes:
            size = "?" if move.bytes is None else format_bytes(move.bytes * move.copies)
            cells.append(size if move.copies else "-")
        rows.add_row("" if move.topic == previous else move.topic, str(move.partition), *cells)
        previous = move.topic
    return rows


# ---- Writing a plan.


class PlanFormat(StrEnum):
    """Formats of a plan file."""

    RACKWARD = "rackward"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """The options for what a command does with its plan."""

    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the plan to FILE; - is stdout."),
    ] = None
    format: Annotated[
        PlanFormat,
        typer.Option(
            help="Format of the plan file: rackward, which apply can check; or kafka, the JSON of "
            "kafka-reassign-partitions."
        ),
    ] = PlanFormat.RACKWARD
    all_partitions: AllPartitions = False
    as_json: Json = False

    def check(self) -> None:
        """Raise InvalidOptionError if the options contradict each other."""
        if self.format is PlanFormat.KAFKA and self.output is None:
            raise InvalidOptionError("--format kafka needs --output FILE (- is stdout)")
        if self.output == STDIO and self.as_json:
            raise InvalidOptionError(
                "--output - and --json both write to stdout: give one of the two"
            )


class PlanFile(msgspec.Struct, frozen=True):
    """The file of a plan, null if it was not written, and sentences about the plan."""

    output: str | None
    notes: Sequence[str]


def write_plan(
    command: str,
    plan: Plan,
    view: ClusterView,
    options: PlanOutput,
    *,
    topics: frozenset[str] | None = None,
    notes: Sequence[str] = (),
    more: msgspec.Struct | None = None,
) -> None:
    """Show a plan, and write it to a file if one is given.

    ``topics`` are those that could change (None: all), ``notes`` sentences to show after the
    tables, ``more`` further fields of the JSON. Raises PlanFileError.
    """
    output = options.output
    kafka = options.format is PlanFormat.KAFKA
    content = to_kafka_json(plan.target) if kafka else format_plan(plan)
    if output is not None and output != STDIO:
        write_text(output, content)
    change = change_result(
        PlannedChange(view, plan.moves, plan.sizes, plan.limits.throttle, plan.localities, topics)
    )
    if options.as_json:
        values = [PlanFile(output, notes), change, more]
        print_json(command, *filter(None, values))
        return
    console = stderr() if output == STDIO else stdout()
    if plan.moves:
        show_change(change, view.racks(), console, all_partitions=options.all_partitions)
    else:
        console.print("Nothing to change.", style="green")
    for note in notes:
        # Without wrapping, so that commands can be copied.
        console.print(note, soft_wrap=True)
    if output == STDIO:
        sys.stdout.write(content)
    elif output is not None:
        count = format_count(len(plan.moves), "partition")
        console.print(f"Plan written to {output} ({count}).")
        if plan.moves:
            source = f"--reassignment-json-file {output}" if kafka else output
            kind = "placement" if kafka else plan.kind.value
            console.print(f"To execute it: rackward {kind} apply {source}")
    elif plan.moves:
        console.print("To execute the plan, write it to a file first: --output FILE.")


def format_now() -> str:
    """Return the time, in UTC, in the format of plan files."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
