"""Stock Java consumers as members of a `ConsumerGroup`: Kafka's own VerifiableConsumer.

Its jar is downloaded once, as Kafka is. It prints a JSON line per event: partitions assigned and
revoked, and the offsets of consumed records.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.support.clients import MemberConfig, OnChange, PartitionId
from rackward.clusters.distribution import (
    KAFKA_VERSION,
    build_once,
    cache_directory,
    fetch_kafka,
    java_home,
)

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
ROUND_ROBIN = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
STICKY = "org.apache.kafka.clients.consumer.StickyAssignor"
COOPERATIVE_STICKY = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"

JVM_OPTIONS = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLOSE_SECONDS = 15.0


def tools_class_path() -> str:
    """Return the class path of Kafka's tools, after downloading them if necessary."""
    cache = cache_directory()
    kafka = fetch_kafka(KAFKA_VERSION, cache)
    target = cache / f"kafka-tools-{KAFKA_VERSION}"

    def build(folder: Path) -> None:
        from jgo.maven import MavenContext, PythonResolver

        repository = folder / "maven"
        context = MavenContext(resolver=PythonResolver(), repo_cache=repository, timeout=60)
        # The other jars that the tools need are among Kafka's own.
        tools = context.create_dependency(f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}")
        path = Path(tools.artifact.resolve())
        shutil.copyfile(path, folder / path.name)
        shutil.rmtree(repository, ignore_errors=True)

    build_once(target, build)
    return ":".join(map(str, [*sorted(target.glob("*.jar")), *kafka.jars]))


def _escape(value: object) -> str:
    """Return the value as a file of Java properties has it."""
    return str(value).replace("\\", "\\\\").replace("\n", "\\n")


class JavaClient:
    """A VerifiableConsumer in a process of its own. Its generation is not known: 0 while it owns.

    The process starts with `subscribe`, whose topics cannot be changed afterwards.
    """

    def __init__(self, config: MemberConfig, strategy: str) -> None:
        self._config = config
        self._strategy = strategy
        self._owned: set[PartitionId] = set()
        self._records: queue.Queue[list[tuple[PartitionId, int]]] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None
        self._on_change: OnChange | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="java-consumer-")
        self.lost_at: list[float] = []

    @property
    def consumer(self) -> Any:
        """The process."""
        return self._process

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """Start the process. A pattern is not supported."""
        assert pattern is None
        self._on_change = on_change
        properties = {
            "client.id": self._config.name,
            "heartbeat.interval.ms": 500,
            "metadata.max.age.ms": 2000,
            **({} if self._config.rack is None else {"client.rack": self._config.rack}),
            **{key: value for key, value in self._config.settings.items() if "." in key},
        }
        path = Path(self._folder.name) / "consumer.properties"
        path.write_text("".join(f"{key}={_escape(value)}\n" for key, value in properties.items()))
        with (Path(self._folder.name) / "stderr").open("w") as errors:
            self._process = subprocess.Popen(
                [
                    str(java_home() / "bin" / "java"),
                    *JVM_OPTIONS,
                    "-cp",
                    tools_class_path(),
                    "org.apache.kafka.tools.VerifiableConsumer",
                    *("--bootstrap-server", self._config.bootstrap),
                    *("--group-id", self._config.group_id),
                    *("--topic", ",".join(topics)),
                    *("--assignment-strategy", self._strategy),
                    *("--reset-policy", "earliest"),
                    *("--session-timeout", "10000"),
                    "--verbose",
                    *("--command-config", str(path)),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._on_change is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            kind = event.get("name")
            if kind == "record_data":
                tp = (event["topic"], event["partition"])
                self._records.put([(tp, event["offset"])])
            elif kind in ("partitions_assigned", "partitions_revoked"):
                tps = [(each["topic"], each["partition"]) for each in event["partitions"]]
                if kind == "partitions_assigned":
                    self._owned.update(tps)
                    self._on_change("assigned", tps)
                else:
                    self._owned.difference_update(tps)
                    self._on_change("revoked", tps)

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        """Return what the process has printed of consumed records."""
        if self._process is not None and self._process.poll() is not None:
            errors = (Path(self._folder.name) / "stderr").read_text()[-2000:]
            raise RuntimeError(f"the Java consumer ended with {self._process.returncode}: {errors}")
        records: list[tuple[PartitionId, int]] = []
        deadline = time.monotonic() + seconds
        while (rest := deadline - time.monotonic()) > 0:
            try:
                records.extend(self._records.get(timeout=rest))
            except queue.Empty:
                break
            while not self._records.empty():
                records.extend(self._records.get())
            break
        return records

    def owned(self) -> frozenset[PartitionId]:
        """See `Client`."""
        return frozenset(self._owned)

    def generation(self) -> int:
        """See the class."""
        return 0 if self._owned else -1

    def close(self) -> None:
        """End the process as Ctrl-C does: the consumer leaves."""
        process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._folder.cleanup()

    def kill(self) -> None:
        """Kill the process: the consumer does not leave."""
        assert self._process is not None
        self._process.kill()


@dataclass(frozen=True)
class Java:
    """Constructs Java consumers with this ``partition.assignment.strategy``."""

    strategy: str = COOPERATIVE_STICKY

    def __call__(self, config: MemberConfig) -> JavaClient:
        return JavaClient(config, self.strategy)
