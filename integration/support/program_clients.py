"""Stock consumers of other languages as members of a `ConsumerGroup`: Java, Go, KafkaJS.

Each runs in a process of its own that prints a JSON line per event, as Kafka's own
VerifiableConsumer does: partitions assigned and revoked, and the offsets of consumed records. That
one's jar is downloaded once, as Kafka is. The consumers of franz-go, Sarama and kafka-go are built
with Go, and KafkaJS is installed with npm, which must be there.
"""

from __future__ import annotations

import hashlib
import json
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.support.clients import MemberConfig, OnChange, PartitionId
from rackward.testing.kafka_jars import build_once, cache_directory, fetch_tools, java_home

RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"
ROUND_ROBIN = "org.apache.kafka.clients.consumer.RoundRobinAssignor"
STICKY = "org.apache.kafka.clients.consumer.StickyAssignor"
COOPERATIVE_STICKY = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"

JVM_OPTIONS = ("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLOSE_SECONDS = 15.0


def go_consumer() -> Path:
    """Return the program of the Go clients, after building it if it has changed. Needs Go."""

    def build(source: Path, folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "consumer"), "."]
        subprocess.run(command, cwd=source, check=True)

    return built("go_consumer", build) / "consumer"


def kafkajs_consumer() -> Path:
    """Return the consumer of KafkaJS, after installing it if it has changed. Needs npm."""

    def build(source: Path, folder: Path) -> None:
        for path in source.iterdir():
            shutil.copyfile(path, folder / path.name)
        command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=folder, check=True)

    return built("kafkajs_consumer", build) / "main.js"


def built(name: str, build: Callable[[Path, Path], None]) -> Path:
    """Return the folder that ``build`` fills from the source of a consumer, once per version."""
    source = Path(__file__).with_name(name)
    text = b"".join(path.read_bytes() for path in sorted(source.iterdir()))
    digest = hashlib.sha256(text).hexdigest()[:16]
    folder = cache_directory() / f"{name.replace('_', '-')}-{digest}"
    build_once(folder, lambda folder: build(source, folder))
    return folder


def parse_json(line: str) -> dict[str, Any] | None:
    """Return the object of a line that is one."""
    return json.loads(line) if line.startswith("{") else None


class ProgramClient:
    """A consumer in a process of its own. Its generation is not known: 0 while it owns.

    The process starts with `subscribe`, whose topics cannot be changed afterwards. ``command``
    returns its arguments for topics and its working folder, which exists as long as it. ``parse``
    returns the event of a line that it prints, None for another line.
    """

    def __init__(
        self,
        command: Callable[[Sequence[str], Path], list[str]],
        parse: Callable[[str], dict[str, Any] | None] = parse_json,
    ) -> None:
        self._command, self._parse = command, parse
        self._owned: set[PartitionId] = set()
        self._records: queue.Queue[list[tuple[PartitionId, int]]] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._on_change: OnChange | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="consumer-")
        self.lost_at: list[float] = []

    @property
    def pid(self) -> int:
        """The id of its process; raise AssertionError before `subscribe`."""
        assert self._process is not None
        return self._process.pid

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
        folder = Path(self._folder.name)
        with (folder / "stderr").open("w") as errors:
            self._process = subprocess.Popen(
                self._command(topics, folder),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._on_change is not None
        for line in self._process.stdout:
            event = self._parse(line)
            if event is None:
                continue
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
            raise RuntimeError(f"the consumer ended with {self._process.returncode}: {errors}")
        return self._take_records(seconds)

    def _take_records(self, seconds: float) -> list[tuple[PartitionId, int]]:
        """Return all records that are there; wait up to ``seconds`` for the first one."""
        records: list[tuple[PartitionId, int]] = []
        with suppress(queue.Empty):
            records.extend(self._records.get(timeout=seconds) if seconds else ())
            while True:
                records.extend(self._records.get_nowait())
        return records

    def owned(self) -> frozenset[PartitionId]:
        """See `Client`."""
        return frozenset(self._owned)

    def generation(self) -> int:
        """See the class."""
        return 0 if self._owned else -1

    def close(self) -> Iterable[tuple[PartitionId, int]]:
        """End the process with SIGTERM: the consumer leaves."""
        process = self._process
        if process is not None and self._reader is not None:
            process.terminate()
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._reader.join(CLOSE_SECONDS)
            if process.stdout is not None:
                process.stdout.close()
        self._folder.cleanup()
        return self._take_records(0.0)

    def kill(self) -> None:
        """Kill the process: the consumer does not leave."""
        self._signal(signal.SIGKILL, "killed")

    def suspend(self) -> None:
        """Stop the process by SIGSTOP: neither polls nor heartbeats are sent."""
        self._signal(signal.SIGSTOP, "suspended")

    def resume(self) -> None:
        """Continue a suspended process by SIGCONT."""
        self._signal(signal.SIGCONT, "resumed")

    def _signal(self, number: signal.Signals, kind: str) -> None:
        """Send a signal, and record it as a change without partitions."""
        assert self._process is not None
        assert self._on_change is not None
        self._process.send_signal(number)
        self._on_change(kind, ())


def write_properties(path: Path, properties: Mapping[str, object]) -> str:
    """Write a file of Java properties; return its path."""
    escaped = {
        key: str(value).replace("\\", "\\\\").replace("\n", "\\n")
        for key, value in properties.items()
    }
    path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    return str(path)


def java(class_path: str, program: str, *arguments: str) -> list[str]:
    """Return the command that runs a Java program."""
    return [str(java_home() / "bin" / "java"), *JVM_OPTIONS, "-cp", class_path, program, *arguments]


@dataclass(frozen=True)
class Java:
    """Constructs Java consumers with this ``partition.assignment.strategy``.

    Without a strategy they use the new consumer protocol (KIP-848).
    """

    strategy: str | None = COOPERATIVE_STICKY

    def __call__(self, config: MemberConfig) -> ProgramClient:
        if self.strategy is None:
            protocol = ["--group-protocol", "consumer"]
        else:
            protocol = ["--assignment-strategy", self.strategy, "--session-timeout", "10000"]
        properties = {
            "client.id": config.name,
            # A setting of the broker in the new protocol.
            **({} if self.strategy is None else {"heartbeat.interval.ms": 500}),
            "metadata.max.age.ms": 2000,
            **({} if config.rack is None else {"client.rack": config.rack}),
            **{key: value for key, value in config.settings.items() if "." in key},
        }

        def command(topics: Sequence[str], folder: Path) -> list[str]:
            return java(
                fetch_tools(cache_directory()),
                "org.apache.kafka.tools.VerifiableConsumer",
                *("--bootstrap-server", config.bootstrap),
                *("--group-id", config.group_id),
                *("--topic", ",".join(topics)),
                *protocol,
                *("--reset-policy", "earliest"),
                # Otherwise it commits after each poll, which may fail in a rebalance.
                "--enable-autocommit",
                "--verbose",
                *("--command-config", write_properties(folder / "consumer.properties", properties)),
            )

        return ProgramClient(command)


@dataclass(frozen=True)
class GoClient:
    """Constructs consumers of franz-go, sarama or kafka-go. They have no settings."""

    client: str
    strategy: str

    def __call__(self, config: MemberConfig) -> ProgramClient:
        def command(topics: Sequence[str], folder: Path) -> list[str]:  # noqa: ARG001
            return [
                *(str(go_consumer()), self.client, config.bootstrap, config.group_id),
                *(",".join(topics), config.name, config.rack or "", self.strategy),
            ]

        return ProgramClient(command)


@dataclass(frozen=True)
class KafkaJS:
    """Constructs consumers of KafkaJS. They have no settings, and send no rack."""

    def __call__(self, config: MemberConfig) -> ProgramClient:
        def command(topics: Sequence[str], folder: Path) -> list[str]:  # noqa: ARG001
            return [
                *("node", str(kafkajs_consumer()), config.bootstrap, config.group_id),
                *(",".join(topics), config.name),
            ]

        return ProgramClient(command)
