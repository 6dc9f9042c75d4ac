"""Seconds from a broker's return until under-replicated topics have all replicas in sync.

    python -m benchmarks.filling [--runs 5] [--json]

Starts three brokers in three racks. In each run a topic with three replicas is created while one
broker is down (KIP-409). The broker returns once with an active controller, and once while a second
controller replaces one that was killed, whose session must expire first. The time starts when the
broker serves. Exit status 1 if one takes longer than 30 s.
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
    RunningController,
    create_under_replicated,
    stop_brokers,
    wait_for_active,
    wait_for_replicas,
    wait_until_complete,
)
from rackward.testing import Cluster, LocalCluster

STOPPED_BROKER = 2
SCENARIOS = {"controller is running": False, "controller is killed": True}
"""Name to whether the controller is killed."""


def fill_seconds(cluster: Cluster, folder: Path, topic: str, *, killed: bool) -> float:
    """Return the seconds of one run. All brokers run before and after it."""
    with RunningController(cluster, folder) as first:
        wait_for_active(first)
        stop_brokers(cluster, STOPPED_BROKER)
        create_under_replicated(cluster, topic)
        if not killed:
            return _restart_and_wait(cluster, topic)
        first.kill()
    with RunningController(cluster, folder):
        return _restart_and_wait(cluster, topic)


def _restart_and_wait(cluster: Cluster, topic: str) -> float:
    cluster.start_broker(STOPPED_BROKER)
    start = time.monotonic()
    wait_for_replicas(cluster, topic, within=TAKE_OVER_SECONDS)
    seconds = time.monotonic() - start
    wait_until_complete(cluster)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times: dict[str, list[float]] = {scenario: [] for scenario in SCENARIOS}
    with (
        tempfile.TemporaryDirectory(prefix="rackward-filling-") as folder,
        LocalCluster(("a", "b", "c")) as cluster,
    ):
        for number in range(options.runs):
            for scenario, killed in SCENARIOS.items():
                topic = f"filling-{number}-{'killed' if killed else 'running'}"
                seconds = fill_seconds(cluster, Path(folder), topic, killed=killed)
                times[scenario].append(seconds)
                print(f"{scenario}: {seconds:.1f} s", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(times, indent=2))
    else:
        for scenario, runs in times.items():
            median, maximum = statistics.median(runs), max(runs)
            print(f"{scenario:<24}median {median:.1f} s, maximum {maximum:.1f} s, {len(runs)} runs")
    sys.exit(1 if max(map(max, times.values())) > FILL_SECONDS else 0)


if __name__ == "__main__":
    main()
