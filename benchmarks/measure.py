"""Time one shape in a separate process, and print the figures as JSON."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks.shapes import SHAPES, Shape, input_of

BYTES_PER_KILOBYTE = 1 if sys.platform == "darwin" else 1024


def cpu_times(function: Callable[[], object], repeat: int) -> dict[str, float]:
    """Return minimum and median of ``repeat`` calls, in milliseconds of this process's CPU."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        result = function()
        times.append((time.process_time() - start) * 1e3)
        del result  # Outside the time of the next call.
    return {"min": min(times), "median": statistics.median(times)}


def measure(shape: Shape, step: str, repeat: int, peer: bool) -> dict[str, float]:
    """Return the times of one step; ``peer`` times kafka-python's CooperativeSticky, once."""
    members, leaders = input_of(shape, step)
    if peer:
        from benchmarks.wire import kafka_python_assignment

        return cpu_times(kafka_python_assignment(members, leaders), 1)
    assignor = shape.assignor()
    # A plan has its lists when they are looked at: "to plain lists" is measured.
    figures = cpu_times(lambda: dict(assignor.assign(members, leaders).partitions), repeat)
    plan = assignor.assign(members, leaders)
    return figures | {"off_rack": plan.off_rack, "moved": plan.moved}


def main() -> None:
    """Run ``python -m benchmarks.measure SHAPE STEP REPEAT rackward|peer``."""
    name, step, repeat, assignor = sys.argv[1:]
    figures = measure(SHAPES[name], step, int(repeat), assignor == "peer")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_KILOBYTE
    print(json.dumps(figures | {"megabytes": peak / 1e6}))


if __name__ == "__main__":
    main()
