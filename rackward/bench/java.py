"""Java clients: Kafka's own VerifiableConsumer and ProducerPerformance, a process each.

The consumer prints a JSON line per event: partitions assigned and revoked, and the offsets of the
records of each poll. The time of a batch is the one that it prints.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from placement_core import TopicPartition
from rackward.bench import BenchError
from rackward.bench.clients import (
    FETCH_MAX_WAIT_MS,
    FETCH_MIN_BYTES,
    HEARTBEAT_MS,
    METADATA_MAX_AGE_MS,
    POLL_SECONDS,
    SESSION_TIMEOUT_MS,
    MemberSpec,
    OnChange,
    Read,
)
from rackward.bench.traffic import RECORD_BYTES
from rackward.testing.errors import ClusterTimeoutError
from rackward.testing.kafka_jars import cache_directory, fetch_tools, java_home
from rackward.testing.processes import Processes

JVM_OPTIONS = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLOSE_SECONDS = 6.0
READ_INTERVAL = 0.05

ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


_NAME = "client"


class JavaConsumer:
    """A consumer in a process of its own, which ends with this one."""

    def __init__(self, spec: MemberSpec, on_change: OnChange) -> None:
        self._on_change = on_change
        self._owned: frozenset[TopicPartition] = frozenset()
        self._reads: list[Read] = []
        self._line = ""
        self._processes = Processes()
        try:
            path = self._processes.folder / "output"
            self._processes.start(_NAME, _command(spec, self._processes.folder), path)
            self._output: IO[str] = path.open(encoding="utf-8", errors="replace")
        except BaseException:
            self._processes.close()
            raise

    def poll(self) -> Iterable[Read]:
        """Return reads. Raises RuntimeError if the process has ended."""
        deadline = time.monotonic() + POLL_SECONDS
        while not self._reads and time.monotonic() < deadline:
            time.sleep(READ_INTERVAL)
            self._read()
        if not self._reads and (code := self._processes.exit_code(_NAME)) is not None:
            self._output.seek(0)
            raise RuntimeError(f"the process ended with {code}: {self._output.read()[-1000:]}")
        reads, self._reads = self._reads, []
        return reads

    def assignment(self) -> frozenset[TopicPartition]:
        return self._owned

    def close(self) -> None:
        """Let the consumer leave: SIGTERM."""
        try:
            self._processes.signal(_NAME, signal.SIGTERM)
            self._processes.wait(_NAME, CLOSE_SECONDS)
        except ClusterTimeoutError:
            pass  # It is killed.
        finally:
            self._output.close()
            self._processes.close()

    def _read(self) -> None:
        """Handle all lines that are complete."""
        *lines, self._line = (self._line + self._output.read()).split("\n")
        for line in lines:
            if line.startswith("{"):
                self._handle(json.loads(line))

    def _handle(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "records_consumed":
                for read in event["partitions"]:
                    self._reads.append(
                        Read(
                            TopicPartition(read["topic"], read["partition"]),
                            read["minOffset"],
                            read["maxOffset"],
                            read["count"],
                            event["timestamp"] / 1000,
                        )
                    )
            case "partitions_assigned" | "partitions_revoked" as name:
                changed = frozenset(
                    TopicPartition(tp["topic"], tp["partition"]) for tp in event["partitions"]
                )
                if name == "partitions_assigned":
                    self._owned |= changed
                    self._on_change("assigned", changed)
                else:
                    self._owned -= changed
                    self._on_change("revoked", changed)


def _command(spec: MemberSpec, folder: Path) -> list[str]:
    properties = {
        "client.id": spec.name,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "metadata.max.age.ms": METADATA_MAX_AGE_MS,
        "auto.commit.interval.ms": 1000,
        "fetch.min.bytes": FETCH_MIN_BYTES,
        "fetch.max.wait.ms": FETCH_MAX_WAIT_MS,
        "client.rack": spec.rack,
    }
    return [
        *_java("VerifiableConsumer"),
        *("--bootstrap-server", spec.bootstrap),
        *("--group-id", spec.group),
        *("--topic", ",".join(spec.topics)),
        *("--assignment-strategy", ASSIGNORS[spec.strategy.assignor]),
        *("--reset-policy", "earliest"),
        *("--session-timeout", str(SESSION_TIMEOUT_MS)),
        "--enable-autocommit",
        *("--command-config", _write_properties(folder, properties)),
    ]


class JavaProducer:
    """A producer of ``rate`` bytes per second whose partitioner prefers leaders in ``rack``.

    It ends with this process.
    """

    def __init__(self, bootstrap: str, topic: str, rate: float, rack: str) -> None:
        self._processes = Processes()
        self._stopped = False
        properties = {
            "acks": "all",
            "linger.ms": 250,
            "batch.size": 32 * 1024,
            "metadata.max.age.ms": METADATA_MAX_AGE_MS,
            "client.rack": rack,
            "partitioner.rack.aware": "true",
        }
        folder = self._processes.folder
        command = [
            *_java("ProducerPerformance"),
            *("--bootstrap-server", bootstrap),
            *("--topic", topic),
            *("--num-records", "1000000000"),
            *("--record-size", str(RECORD_BYTES)),
            *("--throughput", str(max(1, round(rate / RECORD_BYTES)))),
            *("--command-config", _write_properties(folder, properties)),
        ]
        try:
            self._processes.start(_NAME, command, folder / "output")
        except BaseException:
            self._processes.close()
            raise

    def check(self) -> None:
        """Raise BenchError if the process has ended."""
        if not self._stopped and (code := self._processes.exit_code(_NAME)) is not None:
            output = (self._processes.folder / "output").read_text(errors="replace")
            raise BenchError(f"the producer ended with {code}: {output[-1000:]}")

    def stop(self) -> None:
        """Stop at once. Records that are not acknowledged may be lost."""
        self._stopped = True
        self._processes.close()

    close = stop


def _java(tool: str) -> list[str]:
    """Return the command of one of Kafka's tools, without its arguments."""
    return [
        str(java_home() / "bin" / "java"),
        *JVM_OPTIONS,
        *("-cp", fetch_tools(cache_directory())),
        f"org.apache.kafka.tools.{tool}",
    ]


def _write_properties(folder: Path, properties: Mapping[str, object]) -> str:
    """Return the path of a new file of properties."""
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)
