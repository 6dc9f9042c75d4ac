"""Times the traffic pipeline with millions of commits: the hourly table, and the what-if.

``python -m benchmarks.traffic``: 50 million commits (2,000 groups x 500 partitions x 50 snapshots)
and 5 million (200 groups), each job in a separate process with local[2] and a driver of 4 GB.
Exit status 1 if a limit is exceeded or a sum is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.harness import in_new_process, tree_cpu_seconds
from benchmarks.traffic_data import Size, true_bytes, write_snapshots
from rack_traffic.batch import BatchOptions, run_traffic, run_what_if
from rack_traffic.options import Interval
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.tables import PRODUCERS, REPLICATION

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


def start_spark(folder: Path) -> SparkSession:
    """Start Spark; the shuffle's files go into the folder, which is removed at the end."""
    os.environ["SPARK_LOCAL_DIRS"] = str(folder)
    return spark_session(SparkOptions(MASTER, MEMORY))


def generate(size: Size, folder: Path) -> None:
    """Write the snapshots, which is not timed."""
    spark = start_spark(folder)
    write_snapshots(spark, size, str(folder / "snapshots"))
    spark.stop()


def measure(what_if: bool, folder: Path) -> dict[str, float]:
    """Run one job; return its seconds of wall clock and of CPU (Java and all workers).

    The time starts when Spark runs, and ends when the tables are written.
    """
    spark = start_spark(folder)
    spark.range(1).collect()
    job = BatchOptions(str(folder / "snapshots"), str(folder / "out"))
    cpu_before, start = tree_cpu_seconds(), time.perf_counter()
    if what_if:
        ranked = run_what_if(spark, job, Interval.ALL)
        result = {"groups": ranked.filter(~ranked.group.isin(PRODUCERS, REPLICATION)).count()}
    else:
        summary = run_traffic(spark, job, lambda: datetime.now(UTC))
        result = {"bytes": summary["traffic"]["kinds"]["consume"]["bytes"]}
    seconds = time.perf_counter() - start
    cpu = tree_cpu_seconds() - cpu_before
    spark.stop()
    return {"seconds": seconds, "cpu": cpu, **result}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description=__doc__)
    parser.add_argument("--only", choices=SIZES, help="run this size only")
    options = parser.parse_args()
    per_million: dict[str, float] = {}
    failed = False
    for name in [options.only] if options.only else ["small", "large"]:
        size = SIZES[name]
        with tempfile.TemporaryDirectory(prefix="rackward-traffic-") as folder:
            in_new_process(generate, size, Path(folder))
            hourly = in_new_process(measure, False, Path(folder))
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
            what_if = in_new_process(measure, True, Path(folder))
            slow_what_if = what_if["seconds"] > MAX_WHAT_IF_SECONDS
            missing = what_if["groups"] != size.groups
            print(
                f"{name}: what-if of {what_if['groups']:.0f} groups x {size.partitions} partitions "
                f"in {what_if['seconds']:.0f} s ({what_if['cpu']:.0f} s of CPU)"
                f"{'  OVER TIME' if slow_what_if else ''}{'  GROUPS MISSING' if missing else ''}",
                flush=True,
            )
            failed |= wrong or slow or slow_what_if or missing
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
