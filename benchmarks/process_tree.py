"""The CPU of this process and of all that it has started: Spark's Java, Python's workers."""

from __future__ import annotations

import os
from pathlib import Path

_PARENT, _TIMES = 1, slice(11, 15)
"""Places in /proc/PID/stat behind the command's name (proc(5)): the parent, and the clock ticks of
the process itself and of the children that it has waited for, in user and in system mode."""


def cpu_seconds() -> float:
    """Seconds of CPU of this process and its descendants so far, ended ones included.

    As Linux counts them; NaN where there is no /proc. Ask while the descendants still run: those
    whose parent did not wait for them are no longer counted when they are gone.
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
    """Process id to the fields behind its command's name, which may hold anything."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = path.read_text()
        except OSError:  # it has ended meanwhile
            continue
        found[int(path.parent.name)] = told.rpartition(")")[2].split()
    return found
