"""Time one shape in a process of its own, and print what came of it as JSON."""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks.shapes import SHAPES, Shape, input_of

BYTES_PER_KILOBYTE = 1 if sys.platform == "darwin" else 1024


def timed(run: Callable[[], object], repeat: int) -> dict[str, float]:
    """Milliseconds of this process's CPU: the least and the median of ``repeat`` runs."""
    took = []
    for _ in range(repeat):
        start = time.process_time()
        made = run()
        took.append((time.process_time() - start) * 1e3)
        del made  # not within the time of the next
    return {"least": min(took), "median": statistics.median(took)}


def measured(shape: Shape, step: str, repeat: int, peer: bool) -> dict[str, float]:
    """The times of one step; ``peer`` times kafka-python's CooperativeSticky, once."""
    members, leaders = input_of(shape, step)
    if peer or shape.adapter:
        from benchmarks.wire import ours, theirs

        run = (theirs if peer else ours)(members, leaders)
        return timed(run, 1 if peer else repeat)
    assignor = shape.assignor()
    figures = timed(lambda: assignor.assign(members, leaders), repeat)
    plan = assignor.assign(members, leaders)
    figures |= {"off_rack": plan.off_rack, "optimum": plan.optimum, "moved": plan.moved}
    return figures


def main() -> None:
    """``python -m benchmarks.measure SHAPE STEP REPEAT ours|peer``."""
    name, step, repeat, who = sys.argv[1:]
    figures = measured(SHAPES[name], step, int(repeat), who == "peer")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_KILOBYTE
    print(json.dumps(figures | {"megabytes": peak / 1e6}))


if __name__ == "__main__":
    main()
