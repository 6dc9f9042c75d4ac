"""Progress of a measurement: what happens, and what every group reads meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rackward.bench.strategies import Strategy
from rackward.bench.traffic import TrafficMatrix


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The groups of a strategy at one moment.

    ``local_partitions`` of all ``partitions`` are read in the rack of their leader, or of the
    replica that is read; None while a group rebalances.
    """

    strategy: Strategy
    members: int
    partitions: int
    local_partitions: int | None
    bytes: TrafficMatrix


class Progress:
    """Writes a line for every event, with the seconds since the start."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._start = clock()

    def log(self, text: str) -> None:
        """Report an event."""
        self._write(f"{self._clock() - self._start:5.0f} s  {text}")

    def status(self, text: str, detail: str = "") -> None:
        """Report what is going on from now; ``detail`` is about its progress."""
        self.log(f"  {detail} ..." if detail else f"{text} ...")

    def update(self, statuses: Callable[[], Sequence[GroupStatus]]) -> None:
        """Show the present state of the strategies, which only a live display does."""
