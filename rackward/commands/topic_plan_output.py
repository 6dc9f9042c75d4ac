"""A plan of new partitions as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from placement_core import ReplicaLists
from rackward.admin.topics import NewPartitions
from rackward.commands.placing_options import Placing
from rackward.commands.topic_plan import TopicsPlan
from rackward.commands.totals_output import totals_json, totals_table

MOST_PARTITIONS = 60
"""Partitions that are shown one by one, over all topics, unless all are asked for."""
LEAST_PARTITIONS = 6
"""But as many of each topic."""

_MOST_RACK = 10
_MARGIN = 2
_GAP = 3


def show_plan(plan: TopicsPlan, placing: Placing, console: Console, *, every: bool) -> None:
    """Print the layout of each topic, and the totals."""
    racks = plan.after.racks()
    most = max(LEAST_PARTITIONS, MOST_PARTITIONS // len(plan.wanted))
    for wanted in plan.wanted:
        console.print(_heading(wanted, placing), style="bold")
        show_rows(wanted.rows, racks, console, first=wanted.first, most=None if every else most)
        for key, value in wanted.configs.items():
            console.print(f"  {key}={value}")
        console.print()
    console.print(totals_table("What brokers carry, over all topics", plan.totals))


def show_rows(
    rows: ReplicaLists,
    racks: Mapping[int, str | None],
    console: Console,
    *,
    first: int = 0,
    most: int | None = MOST_PARTITIONS,
) -> None:
    """Print replica lists side by side, the first being partition ``first``'s: ``most`` of them,
    or all where that is None."""
    shown = rows[:most]
    cells = [(str(number), replicas_text(row, racks)) for number, row in enumerate(shown, first)]
    grid = _grid(cells, console.width - _MARGIN)
    console.print(Padding(grid, (0, 0, 0, _MARGIN), expand=False))
    if hidden := len(rows) - len(shown):
        console.print(f"  ... and {hidden:,} more: --every-partition shows them")


def plan_json(plan: TopicsPlan, placing: Placing) -> dict[str, Any]:
    """The plan's fields of a command's JSON."""
    return {
        "placement": placing.name,
        "seed": placing.seed,
        "topics": [
            {
                "name": wanted.topic,
                "first_partition": wanted.first,
                "partitions": wanted.first + len(wanted.rows),
                "replication_factor": len(wanted.rows[0]),
                "configs": dict(wanted.configs),
                "replicas": {
                    str(number): list(row) for number, row in enumerate(wanted.rows, wanted.first)
                },
            }
            for wanted in plan.wanted
        ],
        **totals_json(plan.totals),
    }


def replicas_text(row: tuple[int, ...], racks: Mapping[int, str | None]) -> str:
    """``0:a 2:b 4:c``, or ``0 2 4`` where racks are not known or have long names."""
    names = {broker: racks.get(broker) for broker in row}
    longest = max((len(rack or "") for rack in racks.values()), default=0)
    if longest > _MOST_RACK or not any(racks.values()):
        return " ".join(map(str, row))
    return " ".join(
        f"{broker}:{names[broker] or '-'}" if broker >= 0 else str(broker) for broker in row
    )


def _heading(wanted: NewPartitions, placing: Placing) -> str:
    replicas = len(wanted.rows[0])
    copies = f"{replicas} replica{'s' if replicas > 1 else ''}"
    how = f"placed by {placing.name}"
    if placing.seed is not None:
        how += f", seed {placing.seed}"
    count = len(wanted.rows)
    if wanted.first:
        last = wanted.first + count - 1
        return f"{wanted.topic}: partitions {wanted.first} to {last} are new, {copies}; {how}"
    return f"{wanted.topic}: {count:,} partition{'s' if count > 1 else ''}, {copies}; {how}"


def _grid(cells: list[tuple[str, str]], width: int) -> Table:
    """Pairs side by side, down the first column and then the next."""
    left = max((len(number) for number, _ in cells), default=1)
    right = max((len(text) for _, text in cells), default=1)
    columns = max(1, min(len(cells), (min(width, 200) + _GAP) // (left + 2 + right + _GAP)))
    lines = -(-len(cells) // columns)
    grid = Table.grid(padding=(0, _GAP))
    for _ in range(columns):
        grid.add_column(no_wrap=True)
    for line in _lines(cells, lines, columns, left):
        grid.add_row(*line)
    return grid


def _lines(
    cells: list[tuple[str, str]], lines: int, columns: int, left: int
) -> Iterator[list[str]]:
    for line in range(lines):
        places = (line + column * lines for column in range(columns))
        yield [
            f"{cells[place][0]:>{left}}  {cells[place][1]}" if place < len(cells) else ""
            for place in places
        ]
