"""Time the placers on large clusters: ``python -m benchmarks.placement``.

Beside them Kafka's own StripedReplicaPlacer, from the jars of the local cluster: a Java program,
``benchmarks/kafka_placer``, that is only timed if a JDK is installed.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness import cpu_times
from placement_core import Broker, ClusterView, PlacementSpec, ReplicaLists, TopicPartition
from placement_core.placers import (
    MultiLevelPlacer,
    RackAlternatingPlacer,
    ReplicaPlacer,
    SimplePlacer,
    place,
)
from rackward.testing.kafka_jars import KAFKA_VERSION, cache_directory, fetch_kafka

TOPIC = "orders"

SOURCE = Path(__file__).parent / "kafka_placer" / "Main.java"

KAFKA_ROUNDS = 100
"""Enough for the compiler of a JVM."""


@dataclass(frozen=True, slots=True)
class Case:
    """A placement, and the milliseconds of CPU that the placer may take."""

    placer: ReplicaPlacer
    view: ClusterView
    spec: PlacementSpec
    limit: float


def _cluster(racks: list[str], brokers: int) -> ClusterView:
    return ClusterView(tuple(Broker(id, racks[id % len(racks)]) for id in range(brokers)))


def _large(placer: ReplicaPlacer, racks: list[str]) -> Case:
    """Return a case of 200,000 new partitions on 600 brokers."""
    limit = 350 if isinstance(placer, MultiLevelPlacer) else 90
    return Case(placer, _cluster(racks, 600), PlacementSpec(200_000, 3), limit)


def _added(racks: list[str]) -> Case:
    """Return a case of one added partition for a topic of 100 partitions on 1,000 brokers."""
    view = _cluster(racks, 1_000)
    present = RackAlternatingPlacer(seed=1).place(PlacementSpec(100, 3, topic=TOPIC), view)
    view = ClusterView(
        view.brokers, {TopicPartition(TOPIC, p): row for p, row in enumerate(present)}
    )
    spec = PlacementSpec(1, 3, topic=TOPIC, first_partition=100)
    return Case(RackAlternatingPlacer(seed=2), view, spec, limit=100)


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


def kafka_milliseconds(case: Case) -> float | None:
    """Return the minimum time of Kafka's placer for ``case``; None without a JDK."""
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        return None
    jars = fetch_kafka(KAFKA_VERSION, cache_directory()).directory / "libs"
    numbers = (case.spec.partitions, case.spec.replication_factor, len(case.view.brokers))
    racks = [str(broker.rack) for broker in case.view.brokers]
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run([javac, "-cp", f"{jars}/*", "-d", classes, SOURCE], check=True)
        completed = subprocess.run(
            [
                java,
                "-cp",
                f"{classes}:{jars}/*",
                "Main",
                *map(str, (*numbers, KAFKA_ROUNDS)),
                *racks,
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(completed.stdout)


def main() -> None:
    """Print a line per case; exit status 1 if one takes longer than its limit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.placement",
        description="Milliseconds of CPU to place 200,000 new partitions on 600 brokers, and one "
        "added partition on 1,000 brokers, RF 3: the placer alone, its limit, and with validation; "
        "then leaders and replicas per broker. Kafka's placer: milliseconds elapsed.",
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this text")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each case (default: 5)")
    parser.add_argument("--no-peer", action="store_true", help="do not time Kafka's placer")
    arguments = parser.parse_args()
    over = False
    print(f"{'':<36}{'min':>7}{'median':>8}{'limit':>7}{'valid':>7}  leaders, replicas per broker")
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        alone = cpu_times(partial(case.placer.place, case.spec, case.view), arguments.repeat)
        validated = partial(place, case.spec, case.view, case.placer)
        valid = cpu_times(validated, arguments.repeat)
        slow = min(alone) > case.limit
        over |= slow
        figures = f"{min(alone):>7.0f}{statistics.median(alone):>8.0f}{case.limit:>7.0f}"
        row = f"{name:<36}{figures}{min(valid):>7.0f}  {spread(validated())}"
        print(f"{row}{'  OVER LIMIT' if slow else ''}", flush=True)
    if not arguments.no_peer:
        for name in ("rack-alternating, 6 racks", "rack-alternating, one rack of 570"):
            figure = kafka_milliseconds(CASES[name])
            if figure is None:
                print("Kafka's placer is not timed: install a JDK, or pass --no-peer")
                break
            print(
                f"{'Kafka' + name.removeprefix('rack-alternating'):<36}{figure:>7.0f}", flush=True
            )
    sys.exit(over)


if __name__ == "__main__":
    main()
