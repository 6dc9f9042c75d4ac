"""A stream that is killed during batches writes the same tables as one that is not.

The number of kills is 3, or that of the environment variable RACKWARD_KILLS.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from integration.support.topics import create_topic, new_name
from integration.support.traffic import SHORT_RUN, Rows, table_rows
from rack_traffic.schemas import FLOWS_HOURLY, HOURLY, PARTITION_HOURS, REPLACED_HOURLY
from rackward.testing import Cluster
from tests.support.traffic_frames import write_snapshots
from tests.support.traffic_truth import BEGIN, Fault, observe, simulate

SECONDS = 600.0
HOURS = 2
ENDS = BEGIN + timedelta(hours=HOURS)
KILLS = int(os.environ.get("RACKWARD_KILLS", "3"))
PER_BATCH = 8 if KILLS <= 5 else 2
"""Messages per batch; with more kills more batches are needed."""
STAGES = (
    "snapshots/commits",
    "progress",
    "partition_hours",
    None,
    "hourly",
    "flows_hourly",
    "snapshots/flows",
    "replaced_hourly",
    "snapshots/brokers",
    "snapshots/members",
)
"""Tables that a batch changes; the process is killed when there is a further change of one of them.
None: when the batch begins."""
SPARK = (
    *("--master", "local[2]", "--driver-memory", "1g", *SHORT_RUN),
    *("--conf", "spark.sql.shuffle.partitions=2"),
    *("--conf", "spark.sql.adaptive.enabled=false"),
)
ESTIMATION = ("--max-gap", "1")


def messages(rows: Rows) -> list[bytes]:
    """Return messages in order of time, each with up to three snapshots of a table."""
    times = sorted({row["taken_at"] for table in rows.values() for row in table})
    encoded = []
    for start in range(0, len(times), 3):
        wanted = set(times[start : start + 3])
        for table, given in rows.items():
            selected = [row for row in given if row["taken_at"] in wanted]
            message = {"table": table, "rows": selected}
            encoded.append(json.dumps(message, default=lambda time: time.isoformat()).encode())
    return encoded


class Stream:
    """The command in its own process group, and its progress according to its folder."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path, flows: tuple[str, ...]) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "rackward.cli.main", "traffic", "stream"),
                    *(topic, str(folder), "--once", "--delay", "5", *ESTIMATION, *SPARK, *flows),
                    *("--bootstrap-server", cluster.bootstrap_servers),
                    *("--max-messages-per-batch", str(PER_BATCH)),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def started(self, batch: int) -> bool:
        return (self.folder / "checkpoint" / "offsets" / str(batch)).exists()

    def completed(self, batch: int) -> bool:
        return (self.folder / "checkpoint" / "commits" / str(batch)).exists()

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Return within a millisecond after ``condition()`` is true.

        Raise AssertionError if the process ends, TimeoutError after ``SECONDS``.
        """
        ends = time.monotonic() + SECONDS
        while not condition():
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the stream ended before {what}:\n{self.log.read_text()[-4000:]}"
                )
            if time.monotonic() > ends:
                raise TimeoutError(
                    f"not {what} in {SECONDS:.0f} s:\n{self.log.read_text()[-4000:]}"
                )
            time.sleep(0.001)

    def reached(self, batch: int, table: str | None) -> bool:
        """Wait for a change of a table; return False if the batch ended before."""
        self.wait_until(lambda: self.started(batch), f"batch {batch} began")
        if table is not None:
            log = self.folder / table / "_delta_log"
            before = len(list(log.glob("*.json")))
            self.wait_until(
                lambda: len(list(log.glob("*.json"))) > before or self.completed(batch),
                f"a change of {table} or the end of {batch}",
            )
        return not self.completed(batch)

    def kill_during(self, batch: int) -> tuple[int, bool]:
        """Kill the process during ``batch``, or during a later one if that ended before.

        Return the number of the batch, and whether it was interrupted.
        """
        try:
            while not self.reached(batch, STAGES[batch % len(STAGES)]):
                batch += 1
        finally:
            self.kill()
        return batch, not self.completed(batch)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def add_network(rows: Rows, folder: Path) -> int:
    """Add listeners, and hosts of members, and write a file of flow records for each minute.

    Brokers are at 10.CLUSTER.0.BROKER, and each member at an address of its own. The file that
    arrives last is of the first minutes. Return the number of records.
    """
    rng = Random(5)
    clusters = sorted({row["cluster"] for row in rows["brokers"]})
    net = {name: f"10.{number}" for number, name in enumerate(clusters)}
    homes = {
        (row["cluster"], row["broker"]): f"{net[row['cluster']]}.0.{row['broker'] + 1}"
        for row in rows["brokers"]
    }
    rows["listeners"] = [
        {
            **{name: row[name] for name in ("cluster", "broker", "taken_at")},
            **{"host": "h", "address": homes[row["cluster"], row["broker"]], "port": 9092},
        }
        for row in rows["brokers"]
    ]
    members = {(row["cluster"], row["member_id"]) for row in rows["members"] if row["member_id"]}
    hosts = {
        (cluster, member): f"{net[cluster]}.1.{number}"
        for number, (cluster, member) in enumerate(sorted(members), 1)
    }
    rows["members"] = [
        row | {"host": hosts.get((row["cluster"], row["member_id"]))} for row in rows["members"]
    ]
    folder.mkdir()
    count = 0
    first = BEGIN - timedelta(minutes=10)
    for minute in range((HOURS * 60) + 20):
        begin = first + timedelta(minutes=minute)
        lines = ["start,end,source_address,source_port,destination_address,destination_port,bytes"]
        for (cluster, _), home in homes.items():
            readers = [host for (owner, _), host in hosts.items() if owner == cluster]
            for client in (rng.choice(readers), f"{net[cluster]}.2.1", f"{net[cluster]}.2.2"):
                size, less = rng.randrange(10**7), rng.randrange(10**4)
                # One of the two writes.
                down, up = (size, less) if not client.endswith(".2.2") else (less, size)
                window = f"{begin.timestamp():.0f},{begin.timestamp() + 60:.0f}"
                lines.append(f"{window},{home},9092,{client},40000,{down}")
                lines.append(f"{window},{client},40000,{home},9092,{up}")
        count += len(lines) - 1
        file = folder / f"{minute}.csv"
        file.write_text("\n".join(lines) + "\n")
        # In this order they arrive.
        arrived = first.timestamp() + 60 * (minute if minute > 12 else 1000)
        os.utime(file, (arrived, arrived))
    return count


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_nothing_is_lost_or_counted_twice(cluster: Cluster, tmp_path: Path) -> None:
    faults = frozenset({Fault.DUPLICATES, Fault.RECREATED, Fault.REBALANCING})
    rows = observe(simulate(11, hours=HOURS, faults=faults), every=120)
    records = add_network(rows, tmp_path / "flows")
    (tmp_path / "addresses.json").write_text('{"racks": {"10.0.2.1": "a", "10.0.2.2": "b"}}')
    flows = (
        *("--flows", str(tmp_path / "flows")),
        *("--flow-addresses", str(tmp_path / "addresses.json")),
    )
    write_snapshots(tmp_path / "snapshots", rows)
    topic = create_topic(cluster, new_name("snapshots"), [[0, 2]])
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_request_size=2**20)
    for value in messages(rows):
        producer.send(topic, value)
    producer.flush()
    producer.close()

    folder = tmp_path / "stream"
    folder.mkdir()
    killed: list[int] = []
    batch = 0
    while len(killed) < KILLS:
        batch, interrupted = Stream(cluster, topic, folder, flows).kill_during(batch)
        if interrupted:
            killed.append(batch)
        batch += 1
    stream = Stream(cluster, topic, folder, flows)
    try:
        assert stream.process.wait(SECONDS * 2) == 0, stream.log.read_text()[-4000:]
    finally:
        stream.kill()

    batch_job = subprocess.run(
        [
            *(sys.executable, "-m", "rackward.cli.main", "traffic", "run"),
            *(str(tmp_path / "snapshots"), str(tmp_path / "batch"), *ESTIMATION, *SPARK, *flows),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert batch_job.returncode == 0, batch_job.stdout + batch_job.stderr
    for table, given in rows.items():
        assert DeltaTable(folder / "snapshots" / table).count() == len(given), table
    assert DeltaTable(folder / "snapshots" / "flows").count() == records
    tables = {"hourly": HOURLY, "partition_hours": PARTITION_HOURS}
    tables |= {"flows_hourly": FLOWS_HOURLY, "replaced_hourly": REPLACED_HOURLY}
    for table, schema in tables.items():
        streamed = table_rows(folder / table, schema.names)
        # The batch job also has the last hour, which the stream cannot close yet.
        expected = table_rows(tmp_path / "batch" / table, schema.names, until=ENDS)
        assert len(expected) > 50, table
        assert streamed == expected, table
    assert "{'source': 'measured'}" in table_rows(folder / "hourly", ["source"])
