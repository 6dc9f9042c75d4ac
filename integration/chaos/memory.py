"""Resident memory of processes, sampled while they run, and whether it grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SAMPLE_SECONDS = 5.0
SETTLED_SECONDS = 300.0
"""Memory may grow for so long after the first sample."""

GROWTH_LIMIT = 1.10
"""The most that it may take afterwards, as a multiple of what it took until then."""


@dataclass(frozen=True)
class MemoryUse:
    """Resident memory, in KiB, of the largest of all processes with the same work.

    The largest, because members are killed and replaced.

    processes, seconds
        How many there were, and for how long they were observed.
    settled
        At most until `SETTLED_SECONDS`.
    highest
        At most afterwards.
    """

    name: str
    processes: int
    seconds: float
    settled: int
    highest: int

    @property
    def growth(self) -> float:
        """The highest as a multiple of the settled one."""
        return self.highest / self.settled


def memory_use(name: str, samples: Sequence[tuple[float, int, int]]) -> MemoryUse | None:
    """Return the use of processes; None if they did not run for longer than they may grow.

    ``samples`` are times in seconds, process ids and KiB, in order of time.
    """
    began = samples[0][0]
    settled = [size for at, _, size in samples if at - began <= SETTLED_SECONDS]
    later = [size for at, _, size in samples if at - began > SETTLED_SECONDS]
    if not later:
        return None
    processes = len({pid for _, pid, _ in samples})
    return MemoryUse(name, processes, samples[-1][0] - began, max(settled), max(later))


def grown(uses: Sequence[MemoryUse]) -> list[str]:
    """Return those that took more than `GROWTH_LIMIT` allows."""
    return [
        f"{each.name} grew from {each.settled} KiB until {SETTLED_SECONDS:g} s to {each.highest}"
        f" KiB ({each.growth:.2f} times) until {each.seconds:.0f} s, the limit is"
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

    def __init__(self, processes: Callable[[], Mapping[str, Sequence[int]]]) -> None:
        """Sample ``processes()``: the ids of all processes with the same work, by its name."""
        self._processes = processes
        self._samples: dict[str, list[tuple[float, int, int]]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def uses(self, name_begins: str) -> list[MemoryUse]:
        """Return the use of the processes of each name that begins so."""
        uses = [
            memory_use(name, samples)
            for name, samples in list(self._samples.items())
            if name.startswith(name_begins)
        ]
        return [each for each in uses if each is not None]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(SAMPLE_SECONDS):
            for name, pids in self._processes().items():
                for pid in pids:
                    size = resident(pid)
                    if size is not None:
                        sample = (time.monotonic(), pid, size)
                        self._samples.setdefault(name, []).append(sample)
