"""Load of brokers and racks before and after a change, as table and JSON; replica lists as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from placement_core.cluster import ClusterLoad, Load
from rackward.cli.console import table

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
