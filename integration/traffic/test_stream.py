"""A stream that is killed during batches writes the same tables as one that is not.

The number of kills is 3, or that of the environment variable RACKWARD_KILLS.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from kafka import KafkaProducer

from integration.support.topics import create_topic, new_name
from integration.support.traffic import SHORT_RUN, count_rows, messages, table_rows, write_snapshots
from rack_traffic.schemas import HOURLY, PARTITION_HOURS
from rackward.testing import Cluster
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


class Stream:
    """The command in its own process group, and its progress according to its folder."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "rackward.cli.main", "traffic", "stream"),
                    *(topic, str(folder), "--once", "--delay", "5", *ESTIMATION, *SPARK),
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


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_no_snapshot_is_lost_or_counted_twice(cluster: Cluster, tmp_path: Path) -> None:
    faults = frozenset({Fault.DUPLICATES, Fault.RECREATED, Fault.REBALANCING})
    rows = observe(simulate(11, hours=HOURS, faults=faults), every=120)
    write_snapshots(tmp_path / "snapshots", rows)
    topic = create_topic(cluster, new_name("snapshots"), [[0, 2]])
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_request_size=2**20)
    for value in messages(rows, at_once=3):
        producer.send(topic, value)
    producer.flush()
    producer.close()

    folder = tmp_path / "stream"
    folder.mkdir()
    killed: list[int] = []
    batch = 0
    while len(killed) < KILLS:
        batch, interrupted = Stream(cluster, topic, folder).kill_during(batch)
        if interrupted:
            killed.append(batch)
        batch += 1
    stream = Stream(cluster, topic, folder)
    try:
        assert stream.process.wait(SECONDS * 2) == 0, stream.log.read_text()[-4000:]
    finally:
        stream.kill()

    batch_job = subprocess.run(
        [
            *(sys.executable, "-m", "rackward.cli.main", "traffic", "run"),
            *(str(tmp_path / "snapshots"), str(tmp_path / "batch"), *ESTIMATION, *SPARK),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert batch_job.returncode == 0, batch_job.stdout + batch_job.stderr
    for table, given in rows.items():
        assert count_rows(folder / "snapshots" / table) == len(given), table
    for table, schema in (("hourly", HOURLY), ("partition_hours", PARTITION_HOURS)):
        streamed = table_rows(folder / table, schema.names)
        # The batch job also has the last hour, which the stream cannot close yet.
        expected = table_rows(tmp_path / "batch" / table, schema.names, until=ENDS)
        assert len(expected) > 100
        assert streamed == expected
