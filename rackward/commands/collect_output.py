"""What a collection says of itself: lines while it goes on, and what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from rackward.collector import Outcome
from rackward.commands.output import for_people, print_json, table


def show_outcomes(outcomes: Sequence[Outcome], as_json: bool) -> None:
    """A row for each cluster, and what its last attempt failed of; or JSON."""
    if as_json:
        print_json("traffic collect", {"clusters": [asdict(each) for each in outcomes]})
        return
    console: Console = for_people(as_json)
    shown = table("Collected")
    for name in ("cluster", "snapshots", "failures", "requests", "rows", "faults"):
        shown.add_column(name, justify="left" if name == "cluster" else "right")
    for each in outcomes:
        shown.add_row(
            each.cluster,
            *map(
                str,
                (
                    each.snapshots,
                    each.failures,
                    each.requests,
                    sum(each.rows.values()),
                    each.faults,
                ),
            ),
        )
    console.print(shown)
    for each in outcomes:
        if each.error is not None:
            console.print(f"{each.cluster}: the last attempt failed: {each.error}")
