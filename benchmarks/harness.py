"""What several benchmarks measure with: times, memory, and functions in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

_PARENT, _TIMES = 1, slice(11, 15)
"""Indexes of the fields of /proc/PID/stat after the command's name (proc(5)): the parent, and the
clock ticks of the process and of the children that it has waited for, in user and system mode."""


def in_new_process(
    function: Callable[..., Result], *arguments: Any, timeout: float | None = None
) -> Result:
    """Return the result of a module's function, run in a new process.

    Raises what the function raises, and multiprocessing.TimeoutError after ``timeout`` seconds.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, arguments).get(timeout)


def cpu_times(function: Callable[[], object], repeat: int) -> list[float]:
    """Return the milliseconds of CPU of each of ``repeat`` calls."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        result = function()
        times.append((time.process_time() - start) * 1e3)
        del result  # Outside the time of the next call.
    return times


def peak_megabytes() -> float:
    """Return the maximum resident size of this process."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def tree_cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants, such as Spark's JVM and workers.

    Those that exited are included. NaN on systems without /proc. Call it while the descendants run:
    Linux does not count an exited process whose parent has not waited for it.
    """
    tree = _tree()
    ticks = sum(sum(map(int, fields[_TIMES])) for fields in tree.values())
    return ticks / os.sysconf("SC_CLK_TCK") if tree else float("nan")


def tree_peak_megabytes() -> float:
    """Return the sum of the maximum resident sizes of this process and its running descendants.

    NaN on systems without /proc.
    """
    kilobytes = 0
    for pid in _tree():
        with suppress(OSError):  # The process has exited since.
            status = Path(f"/proc/{pid}/status").read_text()
            # An exited process that its parent has not waited for has no such line.
            kilobytes += sum(map(int, re.findall(r"VmHWM:\s+(\d+)", status)))
    return kilobytes * 1024 / 1e6 if kilobytes else float("nan")


def _tree() -> dict[int, list[str]]:
    """Return the fields of /proc/PID/stat of this process and its descendants."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # The process has exited since.
            # The command's name may contain blanks.
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    found: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    pids = [os.getpid()] if stats else []
    while pids:
        pid = pids.pop()
        found[pid] = stats[pid]
        pids += children.get(pid, [])
    return found
