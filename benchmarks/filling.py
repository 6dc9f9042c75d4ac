"""Seconds from a broker's return until topics that were made without it have all replicas in sync.

    python -m benchmarks.filling [--runs 5] [--json]

Starts three brokers in three racks. In each run a topic of three replicas is made while one broker
is down (KIP-409). It comes back once to a controller that has the lease, and once while another is
starting in place of one that was killed, whose session has to end first. Counted from when the
broker serves. Exit status 1 where it takes longer than 30 s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from integration.support.controllers import (
    FILL_SECONDS,
    TAKE_OVER_SECONDS,
    await_full,
    await_holder,
    await_kept,
    controller,
    create,
    stop,
)
from rackward.clusters import Cluster, LocalCluster

AWAY = 2
STORIES = {"a controller that runs": False, "one killed, another starting": True}
"""Each with whether the controller is killed."""


def seconds(cluster: Cluster, folder: Path, topic: str, *, killed: bool) -> float:
    """One run. The cluster is whole before and after it."""
    with controller(cluster, folder) as first:
        await_holder(first)
        stop(cluster, AWAY)
        create(cluster, topic)
        if not killed:
            return _until_full(cluster, topic)
        first.kill()
    with controller(cluster, folder):
        return _until_full(cluster, topic)


def _until_full(cluster: Cluster, topic: str) -> float:
    cluster.start_broker(AWAY)
    began = time.monotonic()
    await_full(cluster, topic, within=TAKE_OVER_SECONDS)
    took = time.monotonic() - began
    await_kept(cluster)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[float]] = {story: [] for story in STORIES}
    with (
        tempfile.TemporaryDirectory(prefix="rackward-filling-") as folder,
        LocalCluster(("a", "b", "c")) as cluster,
    ):
        for number in range(options.runs):
            for story, killed in STORIES.items():
                topic = f"short-{number}-{'killed' if killed else 'kept'}"
                took = seconds(cluster, Path(folder), topic, killed=killed)
                found[story].append(took)
                print(f"{story}: {took:.1f} s", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for story, every in found.items():
            told = f"median {statistics.median(every):.1f} s, worst {max(every):.1f} s"
            print(f"{story:<30} {told}, of {len(every)}")
    sys.exit(1 if max(map(max, found.values())) > FILL_SECONDS else 0)


if __name__ == "__main__":
    main()
