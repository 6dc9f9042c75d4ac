"""CPU time of this process and all its descendants, such as Spark's JVM and Python workers."""

from __future__ import annotations

import os
from pathlib import Path

_PARENT, _TIMES = 1, slice(11, 15)
"""Indexes of the fields of /proc/PID/stat after the command's name (proc(5)): the parent, and the
clock ticks of the process and of the children that it has waited for, in user and system mode."""


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants, including those that exited.

    NaN on systems without /proc. Call it while the descendants run: Linux does not count an exited
    process whose parent has not waited for it.
    """
    stats = _stats()
    if not stats:
        return float("nan")
    ticks, tree = 0, [os.getpid()]
    children: dict[int, list[int]] = {}
    for pid, fields in stats.items():
        children.setdefault(int(fields[_PARENT]), []).append(pid)
    while tree:
        pid = tree.pop()
        ticks += sum(map(int, stats[pid][_TIMES]))
        tree += children.get(pid, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def _stats() -> dict[int, list[str]]:
    """Return, by process id, the fields after the command's name (which may contain blanks)."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:  # The process has exited since.
            continue
        stats[int(path.parent.name)] = text.rpartition(")")[2].split()
    return stats
