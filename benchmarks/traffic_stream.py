"""Runs the streaming job over simulated days: time per batch, and files and bytes of its folder.

``python -m benchmarks.traffic_stream``: a small cluster with a snapshot per simulated minute,
without Kafka. A batch per minute would be 43,200 batches in 30 days, so the run is compressed: of
each ``--hours`` simulated hours, the first ``--single`` minutes have a batch each, and the other
snapshots come in one batch, which publishes these hours and, once per day, deletes what is old.
Rows, hours and days are those of a batch per minute; smaller are the numbers of small files that a
compaction joins, and of entries in the logs of the tables. Each simulated day prints medians of its
batches without and with published hours, and the size of the folder. Tables keep published hours
for ``--keep-days`` days.

The clock of the machine does not advance with the simulation: replaced files are deleted after
:data:`HISTORY`, about as much of a simulated day as six hours are of a day, and after each
simulated day the files of the tables' logs get a modification time that is a day older, so that
Delta Lake expires them.

``--log-entries 0 1440 2880 12096`` shows whether the length of the logs matters: batches into
tables to which the package deltalake has appended nothing so many times. Delta Lake keeps entries
for one to two days, and a day at a batch per minute has 1,440. Spark writes four files for an entry
on a local disk, and deltalake one: 12,096 entries are as many files to list as 2,880 of Spark's.

CPU seconds are those of all processes, so that other work on the machine counts little. Exit status
1 if the medians of CPU seconds, files or bytes grow by more than 20 %: from the second day after
``--keep-days`` on, the last week's over the first week's; or those of any log over the first's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from benchmarks.harness import tree_cpu_seconds
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.stream import StreamOptions, create_tables, process_batch

BEGIN = datetime(2026, 3, 1, 0, 11, tzinfo=UTC)
"""The last snapshot of each hour closes the hour before: batches are delayed by ten minutes."""
DAY, MINUTE, HISTORY = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=20)
RACKS = ("a", "b", "c")
TABLES = ("snapshots/brokers", "snapshots/partitions", "snapshots/members", "snapshots/commits")
PARTITIONS, GROUPS = 12, 3
MAX_GROWTH, WEEK = 1.2, 7
SINGLE_PER_LOG = 9
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.driver.extraJavaOptions": (
        # The compiler's cache of 48 MB would be full after some batches.
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m "
        "-XX:MetaspaceSize=512m -Xmn600m"
    ),
}


class Figures(NamedTuple):
    """Medians over batches without and with published hours, the CPU seconds of all batches, and
    the size of the folder."""

    plain_cpu: float
    plain_wall: float
    publishing_cpu: float
    publishing_wall: float
    all_cpu: float
    files: int
    size: int

    def __str__(self) -> str:
        return (
            f"{self.plain_cpu:.2f} s of CPU ({self.plain_wall:.2f} s) per batch, "
            f"{self.publishing_cpu:.2f} s ({self.publishing_wall:.2f} s) with published hours, "
            f"{self.all_cpu:.0f} s of CPU in all, "
            f"{self.files:,} files, {self.size / 1e6:.1f} MB"
        )


def medians(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the medians of CPU seconds and of seconds."""
    return statistics.median(cpu for cpu, _ in times), statistics.median(wall for _, wall in times)


class Stream:
    """The streaming job into a folder, and the times of its batches."""

    def __init__(self, spark: SparkSession, folder: str, keep_days: int) -> None:
        self.spark, self.folder = spark, Path(folder)
        self.options = StreamOptions(folder, keep_days=keep_days, history=HISTORY)
        self.batches, self.snapshots = 0, 0
        self.times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        create_tables(spark, self.options)

    def hours(self, number: int, single: int) -> None:
        """Process batches of one snapshot, and one with the others of so many hours."""
        for snapshots in (*[1] * single, number * 60 - single):
            times = [BEGIN + (self.snapshots + n) * MINUTE for n in range(snapshots)]
            rows = [(value,) for at in times for value in messages(at)]
            batch = self.spark.createDataFrame(rows, "value string")
            cpu, wall = tree_cpu_seconds(), time.monotonic()
            closed = process_batch(batch, self.batches, self.options, "benchmark")
            self.times[bool(closed)].append((tree_cpu_seconds() - cpu, time.monotonic() - wall))
            self.batches += 1
            self.snapshots += snapshots

    def figures(self) -> Figures:
        """Return the figures of the batches since the last call."""
        plain, publishing = medians(self.times[False]), medians(self.times[True])
        in_all = sum(cpu for times in self.times.values() for cpu, _ in times)
        self.times = {False: [], True: []}
        files = [file.stat().st_size for file in self.folder.rglob("*") if file.is_file()]
        return Figures(*plain, *publishing, in_all, len(files), sum(files))

    def age_logs(self) -> None:
        """Make the files of the tables' logs a day older."""
        for file in self.folder.rglob("_delta_log/*"):
            if file.is_file():
                modified = file.stat().st_mtime - DAY.total_seconds()
                os.utime(file, (modified, modified))

    def add_log_entries(self, number: int) -> None:
        """Append nothing so often to each table to which every batch writes."""
        for name in (*TABLES, "progress"):
            table = DeltaTable(self.options.path(name))
            nothing = table.to_pyarrow_table().slice(0, 0)
            for _ in range(number):
                write_deltalake(table, nothing, mode="append")
            if number:
                table.create_checkpoint()


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


def simulated_days(spark: SparkSession, options: argparse.Namespace) -> bool:
    """Print the figures of each day, and return whether they grow."""
    days: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="rackward-stream-") as folder:
        stream = Stream(spark, folder, options.keep_days)
        for day in range(options.days):
            for _ in range(0, 24, options.hours):
                stream.hours(options.hours, options.single)
            stream.age_logs()
            days.append(stream.figures())
            print(f"day {day + 1}: {days[-1]}", flush=True)
    steady = days[options.keep_days + 1 :]
    return bool(steady) and grown(steady[:WEEK], steady[-WEEK:])


def log_lengths(spark: SparkSession, lengths: Sequence[int]) -> bool:
    """Print the figures with logs of each length, and return whether they grow."""
    by_length: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="rackward-stream-") as folder:
        stream = Stream(spark, folder, keep_days=7)
        # Batches are faster as soon as the JVM has compiled what they run.
        stream.hours(1, SINGLE_PER_LOG)
        stream.figures()
        for before, entries in pairwise((0, *lengths)):
            stream.add_log_entries(entries - before)
            stream.hours(1, SINGLE_PER_LOG)
            by_length.append(stream.figures())
            print(f"{entries:,} further log entries: {by_length[-1]}", flush=True)
    return any(grown(by_length[:1], [each._replace(files=0, size=0)]) for each in by_length)


def grown(before: Sequence[Figures], after: Sequence[Figures]) -> bool:
    """Return whether the median of CPU seconds, files or bytes is larger by over 20 %."""
    columns = (zip(*figures, strict=True) for figures in (before, after))
    for name, *values in zip(Figures._fields, *columns, strict=True):
        old, new = map(statistics.median, values)
        # The seconds that pass depend on the other work of the machine.
        if not name.endswith("_wall") and new > old * MAX_GROWTH:
            return True
    return False


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30, help="simulated days")
    parser.add_argument("--hours", type=int, default=24, help="published at once")
    parser.add_argument("--single", type=int, default=2, help="batches of a minute before that")
    parser.add_argument("--keep-days", type=int, default=7)
    parser.add_argument("--log-entries", type=int, nargs="+", help="instead of simulated days")
    options = parser.parse_args()
    spark = spark_session(SparkOptions("local[2]", "2g", settings=SETTINGS))
    if options.log_entries:
        grows = log_lengths(spark, options.log_entries)
    else:
        grows = simulated_days(spark, options)
    spark.stop()
    sys.exit(grows)


if __name__ == "__main__":
    main()
