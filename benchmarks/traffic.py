"""The pipeline at scale: from millions of commits to the hourly table, and the what-if.

``python -m benchmarks.traffic``: 50 million commits (2,000 groups x 500 partitions x 50 snapshots)
and 5 million (200 groups), each in a process of its own with local[2] and 4 GB for the driver, then
the what-if of the large case. Exit status 1 where a limit is passed or a sum is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.process_tree import cpu_seconds
from benchmarks.traffic_data import Size, true_bytes, write_snapshots
from rack_traffic.batch import BatchOptions, run_traffic, run_what_if
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.what_if.inputs import Interval

MASTER, MEMORY = "local[2]", "4g"
SIZES = {"large": Size(2000, 500, 50), "small": Size(200, 500, 50), "tiny": Size(20, 50, 50)}
MOST_SECONDS = 8 * 60
MOST_WHAT_IF_SECONDS = 3 * 60
MOST_GROWTH = 1.2
"""How much longer a million rows may take in the large case than in the small one."""
NEAR = 1e-3


def generate(size: Size, folder: Path) -> None:
    """Write the snapshots; not part of what is timed."""
    spark = spark_session(SparkOptions(MASTER, MEMORY))
    write_snapshots(spark, size, str(folder / "snapshots"))
    spark.stop()


def measure(step: str, folder: Path) -> dict[str, float]:
    """Run one job; seconds of wall clock, and of CPU of Java and all workers, from Spark being up
    to the tables being written."""
    spark = spark_session(SparkOptions(MASTER, MEMORY))
    spark.range(1).collect()
    job = BatchOptions(str(folder / "snapshots"), str(folder / "out"))
    before, begin = cpu_seconds(), time.perf_counter()
    if step == "hourly":
        told = run_traffic(spark, job, lambda: datetime.now(UTC))
        seconds = time.perf_counter() - begin
        found = {"bytes": told["traffic"]["kinds"]["consume"]["bytes"]}
    else:
        ranked = run_what_if(spark, job, Interval.ALL)
        found = {"groups": ranked.count()}
        seconds = time.perf_counter() - begin
    cpu = cpu_seconds() - before
    spark.stop()
    return {"seconds": seconds, "cpu": cpu, **found}


def _apart(*arguments: str) -> dict[str, float]:
    """This module in a process of its own; the last line of what it prints."""
    # The shuffle's files go where there is room for them, and are cleaned up.
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.traffic", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"SPARK_LOCAL_DIRS": arguments[-1]},
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description=__doc__)
    parser.add_argument("--only", choices=SIZES, help="one size alone")
    parser.add_argument("--step", nargs=3, metavar=("STEP", "SIZE", "FOLDER"), help="internal")
    chosen = parser.parse_args()
    if chosen.step:
        step, name, folder = chosen.step
        if step == "generate":
            generate(SIZES[name], Path(folder))
            print("{}")
        else:
            print(json.dumps(measure(step, Path(folder))))
        return
    per_million: dict[str, float] = {}
    over = False
    for name in [chosen.only] if chosen.only else ["small", "large"]:
        size = SIZES[name]
        folder = Path(tempfile.mkdtemp(prefix="rackward-traffic-"))
        try:
            _apart("--step", "generate", name, str(folder))
            hourly = _apart("--step", "hourly", name, str(folder))
            per_million[name] = hourly["seconds"] / size.commits * 1e6
            error = hourly["bytes"] / true_bytes(size) - 1
            wrong = abs(error) > NEAR
            slow = name == "large" and hourly["seconds"] > MOST_SECONDS
            print(
                f"{name}: {size.commits:,} commits in {hourly['seconds']:.0f} s "
                f"({hourly['cpu']:.0f} s of CPU), {per_million[name]:.2f} s per million; "
                f"bytes off by {error:+.4%}{'  WRONG' if wrong else ''}"
                f"{'  OVER TIME' if slow else ''}",
                flush=True,
            )
            asked = _apart("--step", "what-if", name, str(folder))
            late = asked["seconds"] > MOST_WHAT_IF_SECONDS
            few = asked["groups"] != size.groups
            print(
                f"{name}: what-if of {asked['groups']:.0f} groups x {size.partitions} partitions "
                f"in {asked['seconds']:.0f} s ({asked['cpu']:.0f} s of CPU)"
                f"{'  OVER TIME' if late else ''}{'  GROUPS MISSING' if few else ''}",
                flush=True,
            )
            over |= wrong or slow or late or few
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if len(per_million) == 2:
        growth = per_million["large"] / per_million["small"]
        over |= growth > MOST_GROWTH
        print(
            f"a million rows take {growth:.2f} times as long in the large case"
            f"{'  OVER TIME' if growth > MOST_GROWTH else ''}"
        )
    sys.exit(over)


if __name__ == "__main__":
    main()
