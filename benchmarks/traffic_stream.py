"""Runs the streaming job over simulated days: time per batch, and files and bytes of its folder.

``python -m benchmarks.traffic_stream``: a small cluster with a snapshot per simulated minute,
without Kafka. Each simulated day prints the median CPU seconds of its batches without and with
published hours, and the size of the folder. Tables keep published hours for ``--keep-days`` days.
CPU seconds are those of all processes, so that other work on the machine counts little.

A batch per minute would be 43,200 batches in 30 days, so the run is compressed. Of each
``--hours`` simulated hours, the first ``--single`` minutes have a batch each; the other snapshots
come in one batch, which publishes these hours. Rows, days and published hours are those of a batch
per minute. Its other batches would have added entries to the logs of the tables: these are written
by this program, without changes of data, so that Delta Lake lists and expires as many. Smaller than
with a batch per minute is the number of small files that each compaction joins.
``--hours 1 --single 59`` is the run without compression.

The clock of the machine does not advance with the simulation: replaced files are deleted after a
minute, and after each simulated day the files of the tables' logs get a modification time that is a
day older, so that Delta Lake expires them.

Exit status 1 if, from the second day after ``--keep-days`` on, the medians over the last week, of
seconds, files or bytes, exceed those over the first week by more than 20 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.process_tree import cpu_seconds
from rack_traffic.session import SparkOptions, spark_session
from rack_traffic.stream import StreamOptions, create_tables, process_batch

BEGIN = datetime(2026, 3, 1, 0, 11, tzinfo=UTC)
"""The last snapshot of each hour closes the hour before: batches are delayed by ten minutes."""
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
RACKS = ("a", "b", "c")
TABLES = ("brokers", "partitions", "members", "commits")
PARTITIONS, GROUPS = 12, 3
MAX_GROWTH, WEEK = 1.2, 7
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


def add_log_entries(folder: Path, table: str, number: int) -> None:
    """Add ``number`` entries without changes, or up to nine more, to the log of a table.

    Delta Lake summarises the log with the next entry, the number of which is a multiple of ten. It
    would have done so after every ten of these; a file in the place of all of them is as fast to
    read.
    """
    log = folder / table / "_delta_log"
    for old in log.glob("*.compacted.json"):
        old.unlink()
    first = 1 + max(int(entry.stem) for entry in log.glob("*.json"))
    last = first + number - 1 + -(first + number) % 10
    entry = json.dumps({"commitInfo": {"timestamp": 0, "operation": "WRITE"}})
    for version in range(first, last + 1):
        (log / f"{version:020}.json").write_text(entry)
    (log / f"{first:020}.{last:020}.compacted.json").write_text(entry)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30, help="simulated days")
    parser.add_argument("--hours", type=int, default=24, help="published at once")
    parser.add_argument("--single", type=int, default=2, help="batches of a minute before that")
    parser.add_argument("--keep-days", type=int, default=7)
    options = parser.parse_args()
    minutes = options.hours * 60
    ends = [*range(1, options.single + 1), minutes]
    spark = spark_session(SparkOptions("local[2]", "2g", delta_lake=True, settings=SETTINGS))
    days: list[tuple[float, float, int, int]] = []
    with tempfile.TemporaryDirectory(prefix="rackward-stream-") as name:
        folder = Path(name)
        stream = StreamOptions(name, keep_days=options.keep_days, history=MINUTE)
        create_tables(spark, stream)
        number = 0
        for day in range(options.days):
            plain: list[float] = []
            publishing: list[float] = []
            for hour in range(0, 24, options.hours):
                start = BEGIN + day * DAY + timedelta(hours=hour)
                for first, end in pairwise((0, *ends)):
                    values = [
                        value
                        for minute in range(first, end)
                        for value in messages(start + minute * MINUTE)
                    ]
                    batch = spark.createDataFrame([(value,) for value in values], "value string")
                    before = cpu_seconds()
                    closed = process_batch(batch, number, stream, "benchmark")
                    (publishing if closed else plain).append(cpu_seconds() - before)
                    number += 1
            if skipped := 24 * 60 - 24 // options.hours * len(ends):
                for table in (*(f"snapshots/{each}" for each in TABLES), "progress"):
                    add_log_entries(folder, table, skipped)
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
    steady = list(zip(*days[options.keep_days + 1 :], strict=True))
    grown = [
        statistics.median(values[-WEEK:]) > statistics.median(values[:WEEK]) * MAX_GROWTH
        for values in steady
    ]
    sys.exit(any(grown))


if __name__ == "__main__":
    main()
