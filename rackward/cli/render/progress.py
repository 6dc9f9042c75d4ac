"""Telling what happens while a plan is carried out: to a terminal, to a log, to a program."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from placement_core import TopicPartition
from rackward.cli.console import SCHEMA_VERSION
from rackward.reassignment import Event, Tell, events
from rackward.reassignment.progress import Progress
from rackward.units import bytes_text, count_text, seconds_text

LINE_SECONDS = 5.0
"""How often a log has a line about progress."""
MOST_FAILURES = 20
"""Failures that are told one by one."""


@contextmanager
def narrator(command: str, console: Console, source: str, as_json: bool) -> Iterator[Tell]:
    """What to call with each event. ``source`` is how the plan is named on a command line, and
    ``command`` the one that carries it out."""
    if as_json:
        yield lambda event: _print_event(command, event)
    elif console.is_terminal:
        with Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=True,
            refresh_per_second=4,
        ) as bar:
            yield _Terminal(console, f"{command} {source}", bar).tell
    else:
        yield _Lines(console, f"{command} {source}").tell


class _Lines:
    """Plain lines, those about progress from time to time."""

    def __init__(self, console: Console, source: str) -> None:
        self._console, self._source = console, source
        self._last, self._placed = -LINE_SECONDS, -1
        self._failures = 0

    def tell(self, event: Event) -> None:
        """See Tell."""
        if isinstance(event, events.Progressed):
            self.progress(event)
        elif isinstance(event, events.Failed):
            self._failures += 1
            if self._failures <= MOST_FAILURES:
                self._console.print(line_of(event, self._source), style="red")
            elif self._failures == MOST_FAILURES + 1:
                self._console.print("... and more", style="red")
        elif text := line_of(event, self._source):
            self._console.print(text, style=_style(event))

    def progress(self, event: events.Progressed) -> None:
        """A line if the last is old, or if all is done."""
        now, done = time.monotonic(), event.progress.placed == event.progress.partitions
        changed = event.progress.placed != self._placed
        if (changed and (done or now - self._last >= LINE_SECONDS)) or (
            now - self._last >= 2 * LINE_SECONDS
        ):
            self._last, self._placed = now, event.progress.placed
            self._console.print(f"{heading(event)}: {figures(event.progress)}")


class _Terminal(_Lines):
    """Lines, and a bar below them."""

    def __init__(self, console: Console, source: str, bar: Bar) -> None:
        super().__init__(console, source)
        self._bar = bar
        self._task: TaskID | None = None

    def progress(self, event: events.Progressed) -> None:
        """Move the bar, by bytes where there are any."""
        found = event.progress
        total, done = (
            (found.bytes, found.copied) if found.bytes else (found.partitions, found.placed)
        )
        title = heading(event)
        if self._task is None:
            self._task = self._bar.add_task(title, total=total, figures="")
        self._bar.update(
            self._task, description=title, total=total, completed=done, figures=figures(found)
        )


def heading(event: events.Progressed) -> str:
    """``Batch 2 of 5``, or nothing much."""
    return f"Batch {event.number} of {event.batches}" if event.batches > 1 else "Moving"


def figures(progress: Progress) -> str:
    """``12/36, 1.2 of 3.4 GB, 48 MB/s, 45 s left``, as far as it is known."""
    parts = [f"{progress.placed:,}/{progress.partitions:,} partitions"]
    if progress.bytes:
        parts.append(f"{bytes_text(progress.copied)} of {bytes_text(progress.bytes)}")
    if progress.rate is not None and progress.copied < progress.bytes:
        parts.append(f"{bytes_text(progress.rate)}/s")
    if progress.seconds is not None and progress.copied < progress.bytes:
        parts.append(f"{seconds_text(progress.seconds)} left")
    return ", ".join(parts)


def line_of(event: Event, source: str) -> str:
    """An event in a line; empty for those that are not worth one."""
    match event:
        case events.Begun():
            return _begun(event)
        case events.Throttled(rate):
            return f"Copying is throttled to {bytes_text(rate)}/s per broker, each way."
        case events.OwnThrottle(broker, leader, follower):
            rates = [f"{bytes_text(rate)}/s" for rate in (leader, follower) if rate is not None]
            return (
                f"Broker {broker} has a replication throttle of its own ({', '.join(rates)}), "
                "which is in force there and is left alone."
            )
        case events.ThrottleLifted(leftover):
            return (
                "Lifted a throttle that an earlier run had left."
                if leftover
                else "The throttle is lifted."
            )
        case events.ThrottleLeft(reason):
            return (
                f"THE THROTTLE COULD NOT BE LIFTED: {reason}. It stays in force until the next "
                "rackward placement apply or cancel."
            )
        case events.Failed(partition, reason):
            return f"{_name(partition)}: {reason}"
        case events.Waiting(partitions, brokers):
            names = ", ".join(map(str, brokers))
            return (
                f"{count_text(partitions, 'partition')} cannot go on: broker"
                f"{'s' if len(brokers) > 1 else ''} {names} down; the rest goes on."
            )
        case events.Trouble(problem):
            return f"The cluster cannot be asked just now ({problem}); trying again."
        case events.Elected(partitions):
            return f"{count_text(partitions, 'preferred leader')} elected."
        case events.Cancelled(partitions):
            return f"{count_text(partitions, 'reassignment')} cancelled."
        case events.LeftUnderWay(partitions, reason):
            told = (
                f"{reason.capitalize()}: {count_text(partitions, 'partition')} "
                f"{'is' if partitions == 1 else 'are'} still being moved by the cluster, "
                f"without a throttle. Take it up again: rackward {source}"
            )
            if not source.startswith("placement apply "):
                return told
            back = source.replace("placement apply ", "placement cancel ", 1)
            return f"{told}; or take it back: rackward {back}"
        case _:
            return ""


def _begun(event: events.Begun) -> str:
    parts = []
    if event.placed:
        parts.append(f"{event.placed:,} as planned already")
    if event.under_way:
        parts.append(f"{event.under_way:,} under way already")
    parts.append(f"{event.to_do:,} to do")
    batches = f" in {event.batches:,} batches" if event.batches > 1 else ""
    return f"Partitions: {', '.join(parts)}{batches}."


def _style(event: Event) -> str:
    if isinstance(event, events.ThrottleLeft):
        return "bold red"
    worrying = events.Waiting | events.Trouble | events.LeftUnderWay | events.OwnThrottle
    return "yellow" if isinstance(event, worrying) else ""


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _print_event(command: str, event: Event) -> None:
    """One line of JSON: the event's name, its fields."""
    fields: dict[str, Any] = asdict(event)
    if isinstance(event, events.Failed):
        fields |= {"topic": event.partition.topic, "partition": event.partition.partition}
    if isinstance(event, events.Progressed):
        fields |= fields.pop("progress")
    print_line(command, _snake(type(event).__name__), fields)


def print_line(command: str, event: str, fields: dict[str, Any]) -> None:
    """Write one line of JSON to stdout, at once."""
    told = {"schema_version": SCHEMA_VERSION, "command": command, "event": event, **fields}
    sys.stdout.write(json.dumps(told, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _snake(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")
