"""Runs the streaming job over simulated days: time per batch, and files and bytes of its folder.

``python -m benchmarks.traffic_stream``: a batch per simulated minute of a small cluster, without
Kafka. Each simulated day prints the median CPU seconds of its batches without and with published
hours, and the size of the folder. Tables keep published hours for ``--keep-days`` days. CPU seconds
are those of all processes, so that other work on the machine counts little.

The clock of the machine does not advance with the simulation: replaced files are deleted after a
minute, and after each simulated day the files of the tables' logs get a modification time that is a
day older, so that Delta Lake expires them.

Exit status 1 if, from the second day after ``--keep-days`` on, a day's median differs by more than
20 % from the first such day's, or the number of files or bytes grows by more than 20 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.process_tree import cpu_seconds
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.stream import StreamOptions, create_tables, process_batch

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
RACKS = ("a", "b", "c")
PARTITIONS, GROUPS = 12, 3
MAX_GROWTH = 1.2
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def messages(at: datetime) -> list[str]:
    """Return the messages of one snapshot: 12 partitions, three groups of three members."""
    offset = int((at - BEGIN).total_seconds())
    common = {"cluster": "c", "taken_at": at.isoformat()}
    tables: dict[str, list[dict[str, Any]]] = {
        "brokers": [common | {"broker": n, "rack": rack} for n, rack in enumerate(RACKS)],
        "partitions": [
            common
            | {"topic": "t", "topic_id": "x", "partition": n, "leader": n % 3}
            | {"replicas": [n % 3, (n + 1) % 3], "isr": [n % 3], "start_offset": 0}
            | {"end_offset": offset, "size_bytes": offset * 500}
            for n in range(PARTITIONS)
        ],
        "members": [
            common
            | {"group": f"g{group}", "state": "Stable", "member_id": rack, "rack": rack}
            | {"topics": ["t"], "assignment": [{"topic": "t", "partitions": owned}]}
            for group in range(GROUPS)
            for number, rack in enumerate(RACKS)
            for owned in [list(range((number + group) % 3, PARTITIONS, 3))]
        ],
        "commits": [
            common
            | {"group": f"g{group}", "topic": "t", "partition": n, "committed_offset": offset}
            for group in range(GROUPS)
            for n in range(PARTITIONS)
        ],
    }
    return [json.dumps({"table": table, "rows": rows}) for table, rows in tables.items()]


def size(folder: Path) -> tuple[int, int]:
    """Return the number of files and their bytes."""
    files = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return len(files), sum(files)


def age_logs(folder: Path) -> None:
    """Make the files of the tables' logs a day older."""
    for file in folder.rglob("_delta_log/*"):
        if file.is_file():
            modified = file.stat().st_mtime - DAY.total_seconds()
            os.utime(file, (modified, modified))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30, help="simulated days")
    parser.add_argument("--minutes", type=int, default=1, help="simulated minutes per batch")
    parser.add_argument("--keep-days", type=int, default=7)
    options = parser.parse_args()
    spark = spark_session(SparkOptions("local[2]", "2g", delta_lake=True, settings=SETTINGS))
    days: list[tuple[float, float, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="rackward-stream-") as name:
        folder = Path(name)
        stream = StreamOptions(name, keep_days=options.keep_days, history=timedelta(minutes=1))
        create_tables(spark, stream)
        number = 0
        for day in range(options.days):
            plain: list[float] = []
            publishing: list[float] = []
            for minute in range(0, 24 * 60, options.minutes):
                values = messages(BEGIN + day * DAY + timedelta(minutes=minute))
                batch = spark.createDataFrame([(value,) for value in values], "value string")
                start = cpu_seconds()
                closed = process_batch(batch, number, stream, "benchmark")
                (publishing if closed else plain).append(cpu_seconds() - start)
                number += 1
            age_logs(folder)
            medians = [statistics.median(each or [0.0]) for each in (plain, publishing)]
            days.append((medians[0], medians[1], *size(folder)))
            print(
                f"day {day + 1}: {number:,} batches, {medians[0]:.2f} s of CPU per batch, "
                f"{medians[1]:.2f} s with published hours, {days[-1][2]:,} files, "
                f"{days[-1][3] / 1e6:.1f} MB",
                flush=True,
            )
    spark.stop()
    steady = days[options.keep_days + 1 :]
    grown = [max(values) > values[0] * MAX_GROWTH for values in zip(*steady, strict=True)]
    sys.exit(any(grown))


if __name__ == "__main__":
    main()
