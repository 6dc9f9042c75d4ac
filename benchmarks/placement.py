"""Time the placers on large clusters: ``python -m benchmarks.placement``."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass

from placement_core import Broker, ClusterView, PlacementSpec, ReplicaLists, TopicPartition
from placement_core.placers import (
    MultiLevelPlacer,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    place,
)

TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class Case:
    """A placement, and the CPU seconds that it may take."""

    placer: ReplicaPlacer
    view: ClusterView
    spec: PlacementSpec
    limit: float


def _cluster(racks: list[str], brokers: int) -> ClusterView:
    return ClusterView(tuple(Broker(id, racks[id % len(racks)]) for id in range(brokers)))


def _large(placer: ReplicaPlacer, racks: list[str]) -> Case:
    """Return a case of 200,000 new partitions on 600 brokers."""
    return Case(placer, _cluster(racks, 600), PlacementSpec(200_000, 3), limit=3.0)


def _added(racks: list[str]) -> Case:
    """Return a case of one added partition for a topic of 100 partitions on 1,000 brokers."""
    view = _cluster(racks, 1_000)
    present = RackAlternatingPlacer(seed=1).place(PlacementSpec(100, 3, topic=TOPIC), view)
    view = ClusterView(
        view.brokers, {TopicPartition(TOPIC, p): row for p, row in enumerate(present)}
    )
    spec = PlacementSpec(1, 3, topic=TOPIC, first_partition=100)
    return Case(RackAlternatingPlacer(seed=2), view, spec, limit=0.1)


SIX = list("abcdef")
LOPSIDED = ["a"] * 95 + list("bcdef")

CASES = {
    "simple": _large(SimplePlacer(seed=1), SIX),
    "rack-alternating, 6 racks": _large(RackAlternatingPlacer(seed=1), SIX),
    "rack-alternating, one rack of 570": _large(RackAlternatingPlacer(seed=1), LOPSIDED),
    "multi-level, 6 racks": _large(MultiLevelPlacer(seed=1), SIX),
    "multi-level, 3 x 2 racks": _large(
        MultiLevelPlacer(seed=1), [f"/dc{i % 3}/r{i // 3}" for i in range(6)]
    ),
    "multi-level, 2 x 3 racks": _large(
        MultiLevelPlacer(seed=1), [f"/dc{i % 2}/r{i // 2}" for i in range(6)]
    ),
    "multi-level, 3 x 2 x 10 racks": _large(
        MultiLevelPlacer(seed=1), [f"/dc{i % 3}/room{i // 3 % 2}/r{i // 6}" for i in range(60)]
    ),
    "multi-level, uneven racks": _large(
        MultiLevelPlacer(seed=1), [f"/dc{i % 3}/r{i % 7}" for i in range(20)]
    ),
    "1 added partition, 6 racks": _added(SIX),
    "1 added partition, one rack of 950": _added(LOPSIDED),
}


def spread(layout: ReplicaLists) -> str:
    """Return the minimum and maximum of leaders and of replicas per broker that has any."""
    leaders = Counter(row[0] for row in layout).values()
    replicas = Counter(broker for row in layout for broker in row).values()
    return f"{min(leaders)} to {max(leaders)}, {min(replicas)} to {max(replicas)}"


def main() -> None:
    """Print a line per case; exit status 1 if one takes longer than its limit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description="CPU seconds to place 200,000 new partitions on 600 brokers, and one added "
        "partition on 1,000 brokers, RF 3, validation included; then leaders and replicas per "
        "broker.",
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each case (default: 3)")
    arguments = parser.parse_args()
    over = False
    print(f"{'':<36}{'min':>7}{'median':>8}{'limit':>7}  leaders, replicas per broker")
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        seconds = []
        for _ in range(arguments.repeat):
            start = time.process_time()
            layout = place(case.spec, case.view, case.placer)
            seconds.append(time.process_time() - start)
        slow = min(seconds) > case.limit
        over |= slow
        figures = f"{min(seconds):>7.2f}{statistics.median(seconds):>8.2f}{case.limit:>7.1f}"
        print(f"{name:<36}{figures}  {spread(layout)}{'  OVER LIMIT' if slow else ''}", flush=True)
    sys.exit(over)


if __name__ == "__main__":
    main()
