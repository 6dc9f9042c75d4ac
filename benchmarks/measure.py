"""The steps of a shape, timed; `benchmarks.__main__` has a process for each."""

from __future__ import annotations

import statistics

from benchmarks.harness import cpu_times, peak_megabytes
from benchmarks.shapes import SHAPES, input_of


def measure(name: str, step: str, repeat: int) -> dict[str, float]:
    """Return the times of one step, in milliseconds, and the peak memory of this process."""
    shape = SHAPES[name]
    members, leaders = input_of(shape, step)
    assignor = shape.assignor()
    # A plan has its lists when they are looked at: "to plain lists" is measured.
    times = cpu_times(lambda: dict(assignor.assign(members, leaders).partitions), repeat)
    plan = assignor.assign(members, leaders)
    return {
        "min": min(times),
        "median": statistics.median(times),
        "off_rack": plan.off_rack,
        "moved": plan.moved,
        "megabytes": peak_megabytes(),
    }


def measure_peer(name: str, step: str) -> float:
    """Return the milliseconds of kafka-python's CooperativeSticky, once."""
    from benchmarks.wire import kafka_python_assignment

    (milliseconds,) = cpu_times(kafka_python_assignment(*input_of(SHAPES[name], step)), 1)
    return milliseconds
