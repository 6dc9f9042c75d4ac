"""Traffic on a real cluster: collected, computed by the pipeline, and counted by the brokers.

Two groups read one topic: one with kafka-python's range assignor, whose members have racks by the
subnets of their addresses, and one with rackward's assignor, whose members send their racks. A
producer writes for a while, and the collector takes snapshots. Then the bytes that the pipeline
computes from the snapshots are compared, per pair of racks, with those that brokers counted per
listener.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from confluent_kafka import Producer
from deltalake import DeltaTable
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.net import KafkaNetSocket

from integration.support.clients import KafkaPython
from integration.support.collecting import collect, read_table
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import committed, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import wait_until

Rows = dict[str, list[dict[str, Any]]]

SHORT_RUN_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For short runs: a Java process that ends before optimized compilation would pay off."""

SHORT_RUN = ("--conf", f"spark.driver.extraJavaOptions={SHORT_RUN_JAVA}")


def table_rows(folder: Path, columns: list[str], until: datetime | None = None) -> list[str]:
    """Return the rows of a table, of hours before ``until``, as sorted text with all digits."""
    read = DeltaTable(folder).to_pyarrow_table(columns=columns).to_pylist()
    wanted = read if until is None else [row for row in read if row["hour"] < until]
    return sorted(repr(row) for row in wanted)


RACKS = ("a", "b", "c")
SUBNETS = {"a": "127.20.1.0/24", "b": "127.20.2.0/24", "c": "127.20.3.0/24"}
PARTITIONS = 24
INTERVAL = 5.0
RECORD_BYTES = 4000
RECORDS_PER_SECOND = 400
SPARK_SECONDS = 600.0

# Few requests, because brokers count all bytes that they send, not only records.
CONSUMER_SETTINGS: dict[str, Any] = {
    "fetch_max_wait_ms": 500,
    "fetch_min_bytes": 65536,
    "heartbeat_interval_ms": 2000,
    "session_timeout_ms": 30000,
    "metadata_max_age_ms": 60000,
    "auto_commit_interval_ms": 1000,
}


class BoundSocket(KafkaNetSocket):  # type: ignore[misc]
    """Connects from the address that ``proxy_url`` ("from://127.20.1.7") names."""

    SCHEMES = ("from",)

    def __init__(self, proxy_url: str) -> None:
        super().__init__(proxy_url)
        self._address = urlparse(proxy_url).hostname

    def socket(self, *arguments: Any) -> socket.socket:
        """Return a socket that is bound to the address."""
        bound: socket.socket = super().socket(*arguments)
        bound.bind((self._address, 0))
        return bound


Pair = tuple[str, str]
"""From a broker's rack to a client's."""


@dataclass(frozen=True)
class Figures:
    """Results of a run: bytes ``counted`` by brokers, and ``per_group`` by the pipeline."""

    counted: Counter[Pair]
    per_group: Mapping[str, Counter[Pair]]
    unknown: int
    """Bytes with an unknown rack."""
    payload: int
    """Bytes of the records that each group read."""
    seconds: float
    snapshots: int

    @property
    def computed(self) -> Counter[Pair]:
        """Return the bytes of all groups together, as computed by the pipeline."""
        return sum(self.per_group.values(), Counter())

    def differences(self) -> dict[Pair, float]:
        """Return the relative error of each pair with at least 1 % of all bytes."""
        threshold, computed = sum(self.counted.values()) / 100, self.computed
        return {
            pair: computed.get(pair, 0) / count - 1
            for pair, count in sorted(self.counted.items())
            if count >= threshold
        }

    @property
    def difference(self) -> float:
        """Return the relative error of all pairs together."""
        return sum(self.computed.values()) / sum(self.counted.values()) - 1

    def as_table(self) -> str:
        """Return a table as text."""
        lines = [
            f"{self.seconds:.0f} s, {self.snapshots} snapshots, "
            f"{self.payload / 1e6:.1f} MB of records read by each of two groups",
            f"{'from':>6}{'to':>4}{'counted MB':>12}{'pipeline MB':>13}{'error':>9}",
        ]
        errors, all_groups = self.differences(), self.computed
        for pair, count in sorted(self.counted.items()):
            computed = all_groups.get(pair, 0)
            share = f"{errors[pair]:+.2%}" if pair in errors else ""
            lines.append(
                f"{pair[0]:>6}{pair[1]:>4}{count / 1e6:>12.2f}{computed / 1e6:>13.2f}{share:>9}"
            )
        counted, computed = sum(self.counted.values()), sum(all_groups.values())
        lines.append(
            f"{'all':>10}{counted / 1e6:>12.2f}{computed / 1e6:>13.2f}{self.difference:>+9.2%}"
        )
        for group, pairs in self.per_group.items():
            crossing = sum(count for (one, other), count in pairs.items() if one != other)
            lines.append(f"{group}: {crossing / max(1, sum(pairs.values())):.1%} crosses racks")
        return "\n".join(lines)


def run(cluster: Cluster, seconds: float, snapshots: Path) -> Figures:
    """Produce for ``seconds`` and collect into ``snapshots``, while brokers count; then compute.

    Raise AssertionError if a step fails or takes too long, TimeoutExpired after ``SPARK_SECONDS``.
    """
    topic = create_topic(cluster, new_name("traffic"), replicas_led_from(evenly(PARTITIONS)))
    partitions = {(topic, partition) for partition in range(PARTITIONS)}
    with ExitStack() as stack:
        builtin = stack.enter_context(
            ConsumerGroup(
                cluster,
                topics=[topic],
                client=KafkaPython(lambda _: [RangePartitionAssignor]),
                **CONSUMER_SETTINGS,
            )
        )
        aware = stack.enter_context(ConsumerGroup(cluster, topics=[topic], **CONSUMER_SETTINGS))
        for number, rack in enumerate(RACKS):
            address = SUBNETS[rack].replace("0/24", f"{number + 7}")
            builtin.start(f"builtin-{rack}", rack, proxy_url=f"from://{address}")
            aware.start(f"rackward-{rack}", rack)
        for group in (builtin, aware):
            group.settle(partitions, within=60, hold=2.0)
        wait_until(
            lambda: _commits(cluster, (builtin, aware)) == [dict.fromkeys(partitions, 0)] * 2,
            60,
            "both groups commit their start offsets",
        )
        collector = _collector(cluster, topic, (builtin, aware), snapshots, stack)
        wait_until(lambda: bool(_collected(snapshots)), 60, "the first snapshot is written")
        before, began = cluster.bytes_out(), time.monotonic()
        _produce(cluster, topic, seconds)
        ends = _ends(cluster, topic)
        wait_until(
            lambda: _commits(cluster, (builtin, aware)) == [ends] * 2,
            120,
            "both groups read and commit everything",
        )
        after, took = cluster.bytes_out(), time.monotonic() - began
        done = time.time()
        wait_until(
            lambda: max(_collected(snapshots)) > done, 60, "a snapshot is taken after the last read"
        )
        collector.send_signal(signal.SIGINT)
        _, log = collector.communicate(timeout=60)
        assert collector.returncode == 128 + signal.SIGINT, log
    with tempfile.TemporaryDirectory() as folder:
        hourly = computed_hours(snapshots, Path(folder) / "tables")
    counted: Counter[Pair] = Counter()
    for (rack, broker), count in after.items():
        counted[str(cluster.racks[broker]), rack] += count - before[rack, broker]
    per_group = _per_group(hourly)
    return Figures(
        counted=counted,
        per_group={"built-in range": per_group[builtin.id], "rackward": per_group[aware.id]},
        unknown=per_group[UNKNOWN].total(),
        payload=sum(ends.values()) * RECORD_BYTES,
        seconds=took,
        snapshots=len(_collected(snapshots)),
    )


UNKNOWN = "racks unknown"


def _per_group(hourly: Iterable[Mapping[str, Any]]) -> dict[str, Counter[Pair]]:
    """Return the bytes that each group read, those from or in an unknown rack apart."""
    per_group: dict[str, Counter[Pair]] = defaultdict(Counter)
    for row in hourly:
        if row["kind"] == "consume":
            pair = (row["from_rack"], row["to_rack"])
            per_group[UNKNOWN if None in pair else row["group"]][pair] += row["bytes"]
    return per_group


def _collector(
    cluster: Cluster,
    topic: str,
    groups: tuple[ConsumerGroup, ...],
    snapshots: Path,
    stack: ExitStack,
) -> subprocess.Popen[str]:
    collector = collect(
        "--cluster",
        f"here={cluster.bootstrap_servers}",
        "--output",
        str(snapshots),
        "--interval",
        str(INTERVAL),
        "--groups",
        ",".join(group.id for group in groups),
        "--topics",
        topic,
        "--mapping",
        ",".join(f"{net}={rack}" for rack, net in SUBNETS.items()),
    )
    stack.callback(collector.communicate)
    stack.callback(collector.kill)
    return collector


def computed_hours(snapshots: Path, target: Path) -> list[dict[str, Any]]:
    """Run the pipeline, and return the table hourly. Raise AssertionError if it fails."""
    command = [
        sys.executable,
        "-m",
        "rackward.cli.main",
        "traffic",
        "run",
        str(snapshots),
        str(target),
        "--master",
        "local[2]",
        "--driver-memory",
        "1g",
        *SHORT_RUN,
        "--conf",
        "spark.sql.shuffle.partitions=2",
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=SPARK_SECONDS
    )
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = DeltaTable(target / "hourly").to_pyarrow_table().to_pylist()
    return rows


def _produce(cluster: Cluster, topic: str, seconds: float) -> None:
    """Send incompressible records at a steady rate, to the partitions in turn."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 200,
            # A batch that exceeds max.partition.fetch.bytes would be cut off and fetched again.
            "batch.size": 65536,
        }
    )
    pause, sent = threading.Event(), 0
    values = [os.urandom(RECORD_BYTES) for _ in range(500)]
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        while sent < passed * RECORDS_PER_SECOND:
            producer.produce(topic, values[sent % len(values)], partition=sent % PARTITIONS)
            sent += 1
        producer.poll(0)
        pause.wait(0.1)
    left = producer.flush(120)
    assert left == 0, f"{left} records are not acknowledged within 120 s"


def _ends(cluster: Cluster, topic: str) -> dict[tuple[str, int], int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return {tuple(tp): end for tp, end in consumer.end_offsets(partitions).items()}
    finally:
        consumer.close()


def _commits(
    cluster: Cluster, groups: tuple[ConsumerGroup, ...]
) -> list[dict[tuple[str, int], int]]:
    return [committed(cluster, group.id) for group in groups]


def _collected(snapshots: Path) -> list[float]:
    """Return when each snapshot read its commits, which is the table that it writes last."""
    if not list(snapshots.glob("commits/*/snapshot-*.parquet")):
        return []
    return sorted({row["taken_at"].timestamp() for row in read_table(snapshots, "commits")})
