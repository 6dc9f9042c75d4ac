"""What came of a run, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from rich.console import Console

from placement_core import TopicPartition
from rackward.applying import Outcome
from rackward.applying.watching import listed
from rackward.commands.narrators import print_line
from rackward.units import count_text

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
