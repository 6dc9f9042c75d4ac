"""Resident memory of processes, sampled while they run, and whether it grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_SECONDS = 5.0
SETTLED_SECONDS = 300.0
"""A process may grow for so long after its start."""

GROWTH_LIMIT = 1.10
"""The most that it may take afterwards, as a multiple of what it took then."""


@dataclass(frozen=True)
class MemoryUse:
    """Resident memory of one process, in KiB.

    seconds
        For how long it was observed.
    settled
        After `SETTLED_SECONDS`.
    highest, last
        Afterwards.
    """

    name: str
    seconds: float
    settled: int
    highest: int
    last: int

    @property
    def growth(self) -> float:
        """The highest as a multiple of the settled one."""
        return self.highest / self.settled


def memory_use(name: str, samples: Sequence[tuple[float, int]]) -> MemoryUse | None:
    """Return the use of a process; None if it did not run for much longer than it may grow.

    ``samples`` are times in seconds and KiB, in order, the first soon after its start.
    """
    began = samples[0][0]
    later = [size for at, size in samples if at - began >= SETTLED_SECONDS]
    if len(later) < 2:
        return None
    return MemoryUse(name, samples[-1][0] - began, later[0], max(later), later[-1])


def grown(uses: Sequence[MemoryUse]) -> list[str]:
    """Return the processes that took more than `GROWTH_LIMIT` allows."""
    return [
        f"{each.name} grew from {each.settled} KiB after {SETTLED_SECONDS:g} s to {each.highest}"
        f" KiB ({each.growth:.2f} times) within {each.seconds:.0f} s, the limit is"
        f" {GROWTH_LIMIT:.2f}"
        for each in uses
        if each.growth > GROWTH_LIMIT
    ]


def resident(pid: int) -> int | None:
    """Return the resident memory of a process in KiB; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(sizes[0]) if sizes else None


class MemorySamples:
    """Samples the memory of processes in a thread, between entry and exit."""

    def __init__(self, processes: Callable[[], Mapping[str, int]]) -> None:
        """Sample ``processes()``: process ids by name. A new process has a new name or id."""
        self._processes = processes
        self._samples: dict[tuple[str, int], list[tuple[float, int]]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def uses(self, name_begins: str) -> list[MemoryUse]:
        """Return the use of each process whose name begins so."""
        uses = [
            memory_use(name, samples)
            for (name, _), samples in list(self._samples.items())
            if name.startswith(name_begins)
        ]
        return [each for each in uses if each is not None]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(SAMPLE_SECONDS):
            for name, pid in self._processes().items():
                size = resident(pid)
                if size is not None:
                    self._samples.setdefault((name, pid), []).append((time.monotonic(), size))
