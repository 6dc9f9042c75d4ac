"""Totals as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from rackward.cli.console import table
from rackward.topics.planner import Load, Totals

MOST_BROKERS = 30
"""With more brokers the table has a line per rack and a range for its brokers."""

NO_RACK = "(no rack)"


def totals_table(title: str, found: Totals) -> Table:
    """A line per rack and one per broker: leaders and replicas, before and after."""
    made = table(title)
    made.add_column("rack", overflow="fold")
    made.add_column("broker", justify="right")
    for what in ("leaders", "replicas"):
        made.add_column(f"{what}\nbefore", justify="right")
        made.add_column("\nafter", justify="right")
    many = len(found.brokers) > MOST_BROKERS
    for rack, load in found.racks.items():
        members = [(b, each) for b, (r, each) in found.brokers.items() if r == rack]
        name = NO_RACK if rack is None else rack
        if many:
            made.add_row(name, f"{len(members)} brokers", *_cells(load))
            made.add_row("", "each", *_ranges([each for _, each in members]))
            continue
        made.add_row(name, "all", *_cells(load), style="bold")
        for broker, each in members:
            made.add_row("", str(broker), *_cells(each))
    return made


def totals_json(found: Totals) -> dict[str, Any]:
    """``brokers`` and ``racks``, each a list of objects."""
    return {
        "brokers": [
            {"id": broker, "rack": rack, **_fields(load)}
            for broker, (rack, load) in found.brokers.items()
        ],
        "racks": [{"rack": rack, **_fields(load)} for rack, load in found.racks.items()],
    }


def _fields(load: Load) -> dict[str, int]:
    return {
        "leaders_before": load.leaders_before,
        "leaders_after": load.leaders_after,
        "replicas_before": load.replicas_before,
        "replicas_after": load.replicas_after,
    }


def _cells(load: Load) -> list[str]:
    return [f"{figure:,}" for figure in _fields(load).values()]


def _ranges(loads: list[Load]) -> Iterator[str]:
    for name in ("leaders_before", "leaders_after", "replicas_before", "replicas_after"):
        figures = [getattr(load, name) for load in loads]
        least, most = min(figures), max(figures)
        yield f"{least:,}" if least == most else f"{least:,} to {most:,}"
