"""Times the traffic pipeline with millions of commits: the hourly table, and the what-if.

``python -m benchmarks.traffic``: 50 million commits (2,000 groups x 500 partitions x 50 snapshots)
and 5 million (200 groups), each job in a separate process with local[2] and a driver of 4 GB.
Exit status 1 if a limit is exceeded or a sum is wrong.
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
from rack_traffic.options import Interval
from rack_traffic.session import SparkOptions, spark_session

MASTER, MEMORY = "local[2]", "4g"
SIZES = {
    "large": Size(2000, 500, 50),
    "small": Size(200, 500, 50),
    # For the what-if: as many groups as the large one, after a tenth of the passes.
    "groups": Size(2000, 500, 5),
    "tiny": Size(20, 50, 50),
}
MAX_SECONDS = 8 * 60
MAX_WHAT_IF_SECONDS = 3 * 60
MAX_GROWTH = 1.2
"""Limit of the time per million rows in the large case, relative to the small one."""
MAX_ERROR = 1e-3


def generate(size: Size, folder: Path) -> None:
    """Write the snapshots, which is not timed."""
    spark = spark_session(SparkOptions(MASTER, MEMORY))
    write_snapshots(spark, size, str(folder / "snapshots"))
    spark.stop()


def measure(step: str, folder: Path) -> dict[str, float]:
    """Run one job; return its seconds of wall clock and of CPU (Java and all workers).

    The time starts when Spark runs, and ends when the tables are written.
    """
    spark = spark_session(SparkOptions(MASTER, MEMORY))
    spark.range(1).collect()
    job = BatchOptions(str(folder / "snapshots"), str(folder / "out"))
    cpu_before, start = cpu_seconds(), time.perf_counter()
    if step == "hourly":
        summary = run_traffic(spark, job, lambda: datetime.now(UTC))
        seconds = time.perf_counter() - start
        result = {"bytes": summary["traffic"]["kinds"]["consume"]["bytes"]}
    else:
        ranked = run_what_if(spark, job, Interval.ALL)
        result = {"groups": ranked.count()}
        seconds = time.perf_counter() - start
    cpu = cpu_seconds() - cpu_before
    spark.stop()
    return {"seconds": seconds, "cpu": cpu, **result}


def _run_process(*arguments: str) -> dict[str, float]:
    """Run this module in a separate process; return the figures on its last line of output."""
    # The shuffle's files go into the folder of the benchmark, which is removed at the end.
    completed = subprocess.run(
        [sys.executable, "-m", "benchmarks.traffic", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"SPARK_LOCAL_DIRS": arguments[-1]},
    )
    figures: dict[str, float] = json.loads(completed.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description=__doc__)
    parser.add_argument("--only", choices=SIZES, help="run this size only")
    parser.add_argument("--step", nargs=3, metavar=("STEP", "SIZE", "FOLDER"), help="internal")
    options = parser.parse_args()
    if options.step:
        step, name, folder = options.step
        if step == "generate":
            generate(SIZES[name], Path(folder))
            print("{}")
        else:
            print(json.dumps(measure(step, Path(folder))))
        return
    per_million: dict[str, float] = {}
    failed = False
    for name in [options.only] if options.only else ["small", "large"]:
        size = SIZES[name]
        folder = Path(tempfile.mkdtemp(prefix="rackward-traffic-"))
        try:
            _run_process("--step", "generate", name, str(folder))
            hourly = _run_process("--step", "hourly", name, str(folder))
            per_million[name] = hourly["seconds"] / size.commits * 1e6
            error = hourly["bytes"] / true_bytes(size) - 1
            wrong = abs(error) > MAX_ERROR
            slow = name == "large" and hourly["seconds"] > MAX_SECONDS
            print(
                f"{name}: {size.commits:,} commits in {hourly['seconds']:.0f} s "
                f"({hourly['cpu']:.0f} s of CPU), {per_million[name]:.2f} s per million; "
                f"bytes off by {error:+.4%}{'  WRONG' if wrong else ''}"
                f"{'  OVER TIME' if slow else ''}",
                flush=True,
            )
            what_if = _run_process("--step", "what-if", name, str(folder))
            slow_what_if = what_if["seconds"] > MAX_WHAT_IF_SECONDS
            missing = what_if["groups"] != size.groups
            print(
                f"{name}: what-if of {what_if['groups']:.0f} groups x {size.partitions} partitions "
                f"in {what_if['seconds']:.0f} s ({what_if['cpu']:.0f} s of CPU)"
                f"{'  OVER TIME' if slow_what_if else ''}{'  GROUPS MISSING' if missing else ''}",
                flush=True,
            )
            failed |= wrong or slow or slow_what_if or missing
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if len(per_million) == 2:
        growth = per_million["large"] / per_million["small"]
        failed |= growth > MAX_GROWTH
        print(
            f"a million rows take {growth:.2f} times as long in the large case"
            f"{'  OVER TIME' if growth > MAX_GROWTH else ''}"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
