"""Time the placers at the size of a large cluster: ``python -m benchmarks.placement``."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter

from placement_core import Broker, ClusterView, PlacementSpec, ReplicaLists
from placement_core.placers import (
    MultiLevelPlacer,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    place,
)

PARTITIONS = 200_000
REPLICAS = 3
BROKERS = 600
AT_MOST = 3.0
"""Seconds that a placement of this size may take (issue 4)."""


def _cluster(racks: list[str]) -> ClusterView:
    return ClusterView(tuple(Broker(id, racks[id % len(racks)]) for id in range(BROKERS)))


SIX = _cluster(list("abcdef"))
THREE_BY_TWO = _cluster([f"/dc{index % 3}/r{index // 3}" for index in range(6)])
TWO_BY_THREE = _cluster([f"/dc{index % 2}/r{index // 2}" for index in range(6)])
THREE_LEVELS = _cluster([f"/dc{i % 3}/room{i // 3 % 2}/r{i // 6}" for i in range(60)])
UNEVEN = _cluster([f"/dc{index % 3}/r{index % 7}" for index in range(20)])
LOPSIDED = _cluster(["a"] * 95 + list("bcdef"))

SHAPES: dict[str, tuple[ReplicaPlacer, ClusterView]] = {
    "simple": (SimplePlacer(seed=1), SIX),
    "rack-alternating, 6 racks": (RackAlternatingPlacer(seed=1), SIX),
    "rack-alternating, one rack of 570": (RackAlternatingPlacer(seed=1), LOPSIDED),
    "multi-level, 6 racks": (MultiLevelPlacer(seed=1), SIX),
    "multi-level, 3 x 2 racks": (MultiLevelPlacer(seed=1), THREE_BY_TWO),
    "multi-level, 2 x 3 racks": (MultiLevelPlacer(seed=1), TWO_BY_THREE),
    "multi-level, 3 x 2 x 10 racks": (MultiLevelPlacer(seed=1), THREE_LEVELS),
    "multi-level, uneven racks": (MultiLevelPlacer(seed=1), UNEVEN),
}


def spread(layout: ReplicaLists) -> str:
    """The fewest and the most leaders and replicas that a broker has."""
    leaders = Counter(row[0] for row in layout).values()
    replicas = Counter(broker for row in layout for broker in row).values()
    return f"{min(leaders)} to {max(leaders)}, {min(replicas)} to {max(replicas)}"


def main() -> None:
    """Print a line for each placer; exit status 1 where one takes longer than it may."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description=f"Seconds of CPU to place {PARTITIONS:,} partitions, RF {REPLICAS}, on "
        f"{BROKERS} brokers, checks included; then the leaders and the replicas per broker.",
    )
    parser.add_argument("--only", default="", help="placers whose names contain this")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (3)")
    chosen = parser.parse_args()
    over = False
    print(f"{'':<36}{'least':>7}{'median':>8}{'limit':>7}  leaders, replicas per broker")
    for name, (placer, view) in SHAPES.items():
        if chosen.only not in name:
            continue
        took = []
        for _ in range(chosen.repeat):
            start = time.process_time()
            layout = place(PlacementSpec(PARTITIONS, REPLICAS), view, placer)
            took.append(time.process_time() - start)
        slow = min(took) > AT_MOST
        over |= slow
        figures = f"{min(took):>7.2f}{statistics.median(took):>8.2f}{AT_MOST:>7.1f}"
        print(f"{name:<36}{figures}  {spread(layout)}{'  OVER TIME' if slow else ''}", flush=True)
    sys.exit(over)


if __name__ == "__main__":
    main()
