"""Progress of a run: lines, and JSON lines for programs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec
from rich.console import Console

from rackward.cli.output import print_json_line
from rackward.reassignment import Event, EventHandler
from rackward.reassignment import progress as events
from rackward.reassignment.progress import (
    BrokerThrottleFound,
    Progress,
    ThrottleNotRemoved,
    ThrottleRemoved,
    ThrottleSet,
    ThrottleShared,
)
from rackward.units import format_brokers, format_bytes, format_count, format_duration

LOG_INTERVAL_SECONDS = 5.0
"""Minimum time between two lines about progress."""
MAX_LISTED_FAILURES = 20


def progress_reporter(command: str, console: Console, source: str, as_json: bool) -> EventHandler:
    """Return the handler of events: lines on the console, or JSON lines.

    ``command`` and ``source``, the arguments that name the plan, make up the command line that
    messages recommend to resume a run.
    """
    if as_json:
        return lambda event: _print_event(command, event)
    return _LineReporter(console, f"{command} {source}").handle


class _LineReporter:
    """Prints a line for each event, and one about progress from time to time."""

    def __init__(self, console: Console, command_line: str) -> None:
        self._console, self._command_line = console, command_line
        self._last_time, self._last_completed = -LOG_INTERVAL_SECONDS, -1
        self._failures = 0

    def handle(self, event: Event) -> None:
        if isinstance(event, events.Progressed):
            self._show_progress(event)
        elif isinstance(event, events.PartitionFailed):
            self._failures += 1
            if self._failures <= MAX_LISTED_FAILURES:
                self._console.print(event_text(event, self._command_line), style="red")
            elif self._failures == MAX_LISTED_FAILURES + 1:
                self._console.print("... and more", style="red")
        elif text := event_text(event, self._command_line):
            self._console.print(text, style=_style(event))

    def _show_progress(self, event: events.Progressed) -> None:
        now, progress = time.monotonic(), event.progress
        completed = progress.completed == progress.partitions
        changed = progress.completed != self._last_completed
        elapsed = now - self._last_time
        if (changed and (completed or elapsed >= LOG_INTERVAL_SECONDS)) or (
            elapsed >= 2 * LOG_INTERVAL_SECONDS
        ):
            self._last_time, self._last_completed = now, progress.completed
            several = event.batches > 1
            what = f"Batch {event.number} of {event.batches}" if several else "Reassigning"
            self._console.print(f"{what}: {progress_text(progress)}")


def progress_text(progress: Progress) -> str:
    """Return ``12/36 partitions, 1.2 GB of 3.4 GB, 48 MB/s, 45 s left``, as far as known."""
    parts = [f"{progress.completed:,}/{progress.partitions:,} partitions"]
    if progress.bytes:
        parts.append(f"{format_bytes(progress.bytes_copied)} of {format_bytes(progress.bytes)}")
    if progress.bytes_copied < progress.bytes:
        if progress.rate is not None:
            parts.append(f"{format_bytes(progress.rate)}/s")
        if progress.seconds_left is not None:
            parts.append(f"{format_duration(progress.seconds_left)} left")
    return ", ".join(parts)


def event_text(event: Event, command_line: str) -> str:
    """Return an event as a line; empty for events that are not worth one."""
    match event:
        case events.Started():
            return _started_text(event)
        case ThrottleSet(rate):
            return f"Throttle set: {format_bytes(rate)}/s per broker, in each direction."
        case ThrottleShared(rate):
            return f"Throttle of another run of rackward: {format_bytes(rate)}/s per broker."
        case BrokerThrottleFound(broker, leader, follower):
            rates = [f"{format_bytes(rate)}/s" for rate in (leader, follower) if rate is not None]
            return (
                f"Broker {broker} has a replication throttle of its own ({', '.join(rates)}), "
                "which stays in force there."
            )
        case ThrottleRemoved(leftover):
            return f"Throttle {'of an earlier run ' if leftover else ''}removed."
        case ThrottleNotRemoved(reason):
            return (
                f"THE THROTTLE COULD NOT BE REMOVED: {reason}. It stays in force until rackward "
                "placement throttle --remove."
            )
        case events.PartitionFailed(partition, reason):
            return f"{partition.topic}-{partition.partition}: {reason}"
        case events.WaitingForBrokers(partitions, brokers):
            down = f"{format_brokers(brokers)} {'is' if len(brokers) == 1 else 'are'} down"
            return (
                f"{format_count(partitions, 'partition')} cannot proceed: {down}. The others "
                "proceed."
            )
        case events.RequestFailed(reason):
            return f"Request failed, retrying: {reason}"
        case events.LeadersElected(partitions):
            return f"{format_count(partitions, 'preferred leader')} elected."
        case events.ReassignmentsCancelled(partitions):
            return f"{format_count(partitions, 'reassignment')} cancelled."
        case events.LeftInProgress(partitions, reason):
            text = (
                f"{reason.capitalize()}: the cluster is still reassigning "
                f"{format_count(partitions, 'partition')}, without a throttle. To resume: rackward "
                f"{command_line}"
            )
            if not command_line.startswith("placement apply "):
                return text
            cancel = command_line.replace("placement apply ", "placement cancel ", 1)
            return f"{text}; to cancel: rackward {cancel}"
        case _:
            return ""


def _started_text(event: events.Started) -> str:
    parts = []
    if event.completed:
        parts.append(f"{event.completed:,} already completed")
    if event.in_progress:
        parts.append(f"{event.in_progress:,} already in progress")
    parts.append(f"{event.pending:,} pending")
    batches = f" in {event.batches:,} batches" if event.batches > 1 else ""
    return f"Partitions: {', '.join(parts)}{batches}."


def _style(event: Event) -> str:
    if isinstance(event, ThrottleNotRemoved):
        return "bold red"
    warnings = (
        events.WaitingForBrokers
        | events.RequestFailed
        | events.LeftInProgress
        | BrokerThrottleFound
    )
    return "yellow" if isinstance(event, warnings) else ""


def _print_event(command: str, event: Event) -> None:
    """Print an event as a line of JSON: the name of its class in snake case, and its fields."""
    fields: dict[str, Any] = msgspec.structs.asdict(event)
    if isinstance(event, events.PartitionFailed):
        fields |= {"topic": event.partition.topic, "partition": event.partition.partition}
    if isinstance(event, events.Progressed):
        fields |= asdict(fields.pop("progress"))
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
    print_json_line(command, name, fields)


# ---- Steps of a command that only reads.

SHOWN_AFTER_SECONDS = 2.0


def step_reporter(
    console: Console, clock: Callable[[], float] = time.monotonic
) -> Callable[[str], None]:
    """Return a function that prints what is being done: after two seconds, then every five."""
    last = clock() + SHOWN_AFTER_SECONDS - LOG_INTERVAL_SECONDS

    def show(text: str) -> None:
        nonlocal last
        if clock() - last >= LOG_INTERVAL_SECONDS:
            last = clock()
            console.print(f"{text} ...")

    return show
