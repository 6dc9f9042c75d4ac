"""Time large reassignments: ``python -m benchmarks.reassignment [SHAPE ...]``.

Each shape is planned in a separate process. Columns: seconds of wall clock and of CPU, peak
memory of the process in GB (including the layout), replicas to copy and the lower bound that
follows from the loads alone, and the minimum and maximum of replicas and leaders per broker.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.harness import in_new_process, peak_megabytes
from placement_core import Broker, ClusterView, TopicPartition
from placement_core.reassignment import plan_reassignment

MAX_SECONDS, MAX_GIGABYTES = 60, 2


@dataclass(frozen=True, slots=True)
class Shape:
    """A layout, and the keyword arguments of ``plan_reassignment``."""

    view: Callable[[], ClusterView]
    options: dict[str, Any]


def layout(
    partitions: int, racks: int, each: int, factor: int, added: int = 0, mixed: bool = True
) -> ClusterView:
    """Return topics of 50 partitions, even on ``racks`` racks of ``each`` brokers.

    ``added`` more racks have no replicas. With ``mixed``, the brokers of a rack are in random
    order, so that nearly every partition has a different replica set; otherwise neighbours have
    the same, as in the layouts of placers.
    """
    rng = random.Random(7)
    brokers = [Broker(r * each + n, f"r{r}") for r in range(racks + added) for n in range(each)]
    order: list[list[int]] = []
    for rack in range(racks):
        in_rack: list[int] = []
        while len(in_rack) < partitions:
            in_order = [rack * each + n for n in range(each)]
            if mixed:
                rng.shuffle(in_order)
            in_rack += in_order
        order.append(in_rack)
    replicas = {}
    for p in range(partitions):
        row = [order[(p + k) % racks][p] for k in range(factor)]
        replicas[TopicPartition(f"topic-{p // 50:05}", p % 50)] = tuple(row)
    return ClusterView(tuple(brokers), replicas)


SHAPES = {
    "a rack added": Shape(lambda: layout(200_000, 3, 100, 3, added=1), {}),
    "a rack added, regular": Shape(lambda: layout(200_000, 3, 100, 3, added=1, mixed=False), {}),
    "ten brokers drained": Shape(
        lambda: layout(200_000, 3, 100, 3), {"drain": tuple(range(0, 300, 30))}
    ),
    "RF 1 to 3": Shape(lambda: layout(200_000, 3, 100, 1), {"replication_factor": 3}),
    "RF 3 to 2": Shape(lambda: layout(200_000, 3, 100, 3), {"replication_factor": 2}),
    "RF 3 to 2, 5 racks": Shape(lambda: layout(200_000, 5, 60, 3), {"replication_factor": 2}),
    "small: 2,000 on 12": Shape(lambda: layout(2_000, 3, 4, 3, added=1), {}),
}


def min_copies(view: ClusterView, factor: int | None, drain: tuple[int, ...]) -> int:
    """Return a lower bound of the copies: every broker below its floor has to copy."""
    staying = [broker.id for broker in view.brokers if broker.id not in drain]
    loads = dict.fromkeys(staying, 0)
    total = 0
    for row in view.replicas.values():
        total += factor or len(row)
        for broker in row:
            if broker in loads:
                loads[broker] += 1
    below = sum(max(0, total // len(staying) - load) for load in loads.values())
    return max(below, total - sum(min(load, -(-total // len(staying))) for load in loads.values()))


def measure(name: str) -> dict[str, Any]:
    """Plan one shape and return its figures."""
    shape = SHAPES[name]
    view = shape.view()
    wall, cpu = time.perf_counter(), time.process_time()
    plan = plan_reassignment(view, **shape.options)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    loads = {b.id: 0 for b in view.brokers if b.id not in shape.options.get("drain", ())}
    leads = dict(loads)
    for row in plan.target.values():
        leads[row[0]] += 1
        for broker in row:
            loads[broker] += 1
    return {
        "seconds": wall,
        "cpu": cpu,
        "gigabytes": peak_megabytes() / 1e3,
        "copies": plan.copies,
        "at_least": min_copies(
            view, shape.options.get("replication_factor"), shape.options.get("drain", ())
        ),
        "replicas": [min(loads.values()), max(loads.values())],
        "leaders": [min(leads.values()), max(leads.values())],
    }


def main() -> None:
    """Print a row per shape; exit status 1 if one exceeds a limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", choices=[[], *SHAPES], help="default: all")
    arguments = parser.parse_args()
    over = False
    print(f"{'':<24}{'s':>7}{'CPU s':>7}{'GB':>6}{'copies':>9}{'at least':>9}  replicas, leaders")
    for name in arguments.shapes or SHAPES:
        row = in_new_process(measure, name)
        exceeded = row["seconds"] > MAX_SECONDS or row["gigabytes"] > MAX_GIGABYTES
        over |= exceeded
        print(
            f"{name:<24}{row['seconds']:>7.1f}{row['cpu']:>7.1f}{row['gigabytes']:>6.2f}"
            f"{row['copies']:>9}{row['at_least']:>9}  "
            f"{row['replicas']}, {row['leaders']}{'  OVER LIMIT' if exceeded else ''}",
            flush=True,
        )
    sys.exit(over)


if __name__ == "__main__":
    main()
