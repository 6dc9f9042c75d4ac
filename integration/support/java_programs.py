"""Members of groups that are not plain consumers, as Java programs: share consumers, Kafka Streams,
and the workers of a Connect cluster, whose tasks are the members of another group.

    with ConsumerGroup(cluster, topics=[topic], client=ShareConsumer()) as group: ...
    with sink_connector(cluster, topic) as (workers, group_id): ...

Each prints what it reads. Its jars are downloaded once, as Kafka is. The application of Kafka
Streams is compiled once, which needs a javac.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from integration.support.clients import MemberConfig
from integration.support.groups import ConsumerGroup
from integration.support.program_clients import ProgramClient, built, java, write_properties
from integration.support.topics import new_name
from rackward.testing import Cluster
from rackward.testing.broker_config import free_ports
from rackward.testing.kafka_jars import KAFKA_VERSION, build_once, cache_directory, fetch_tools
from tests.support.waiting import TEST_TIMEOUT, wait_until

RACKS = ("a", "b", "c")

CONNECT_VERSION = "4.1.0"
"""Of the workers and the sink connector, whatever the version of the brokers."""

CONNECT_SECONDS = 3 * TEST_TIMEOUT
"""Seconds for three workers to start, on a busy machine."""

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SERDE = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"
TRANSFORMS = "org.apache.kafka.connect.transforms"


@dataclass(frozen=True)
class ShareConsumer:
    """Constructs share consumers (KIP-932)."""

    def __call__(self, config: MemberConfig) -> ProgramClient:
        properties = {"client.rack": config.rack, "client.id": config.name}

        def command(topics: Sequence[str], folder: Path) -> list[str]:
            (topic,) = topics
            return java(
                fetch_tools(cache_directory()),
                "org.apache.kafka.tools.VerifiableShareConsumer",
                *("--bootstrap-server", config.bootstrap, "--topic", topic),
                *("--group-id", config.group_id, "--offset-reset-strategy", "earliest"),
                *("--command-config", write_properties(folder / "properties", properties)),
                "--verbose",
            )

        return ProgramClient(command)


@dataclass(frozen=True)
class Streams:
    """Constructs applications of Kafka Streams with this ``group.protocol``."""

    protocol: str

    def __call__(self, config: MemberConfig) -> ProgramClient:
        jars = _fetch_jars("kafka-streams", f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}")

        def build(source: Path, folder: Path) -> None:
            command = ["javac", "--release", "17", "-cp", jars, "-d", str(folder)]
            subprocess.run([*command, *map(str, source.glob("*.java"))], check=True)

        def command(topics: Sequence[str], folder: Path) -> list[str]:
            settings = {
                "application.id": config.group_id,
                "bootstrap.servers": config.bootstrap,
                "group.protocol": self.protocol,
                "client.id": config.name,
                "client.rack": config.rack,
                "commit.interval.ms": 5000,
                "state.dir": folder / "state",
                "default.key.serde": SERDE,
                "default.value.serde": SERDE,
            }
            return java(
                f"{built('streams_app', build)}:{jars}",
                "StreamsApp",
                write_properties(folder / "properties", settings),
                ",".join(topics),
            )

        return ProgramClient(command)


@contextmanager
def sink_connector(cluster: Cluster, topic: str) -> Iterator[tuple[ConsumerGroup, str]]:
    """Run a Connect cluster of a worker in each rack, with a sink connector of six tasks.

    Yield the workers, and the id of the group of the tasks. What a worker's tasks read is what the
    worker has read.
    """
    class_path = _fetch_jars(
        "kafka-connect",
        f"org.apache.kafka:connect-runtime:{CONNECT_VERSION}",
        f"org.apache.kafka:connect-file:{CONNECT_VERSION}",
    )
    ports: list[int] = []

    def worker(config: MemberConfig) -> ProgramClient:
        (port,) = free_ports(1)
        ports.append(port)
        settings = {
            "bootstrap.servers": config.bootstrap,
            "group.id": config.group_id,
            "consumer.client.rack": config.rack,
            "listeners": f"http://127.0.0.1:{port}",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "offset.flush.interval.ms": 5000,
            "offset.storage.topic": f"{config.group_id}-offsets",
            "config.storage.topic": f"{config.group_id}-config",
            "status.storage.topic": f"{config.group_id}-status",
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            # Another worker gets the tasks of one that has left at once.
            "scheduled.rebalance.max.delay.ms": 0,
        }

        def command(topics: Sequence[str], folder: Path) -> list[str]:  # noqa: ARG001
            return java(
                class_path,
                "org.apache.kafka.connect.cli.ConnectDistributed",
                write_properties(folder / "properties", settings),
            )

        return ProgramClient(command, _parse_struct)

    sink = new_name("sink")
    connector = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "6",
        "topics": topic,
        # Print where each record is from instead of its value.
        "transforms": "hoist,insert,replace",
        "transforms.hoist.type": f"{TRANSFORMS}.HoistField$Value",
        "transforms.hoist.field": "value",
        "transforms.insert.type": f"{TRANSFORMS}.InsertField$Value",
        **{f"transforms.insert.{field}.field": field for field in ("topic", "partition", "offset")},
        "transforms.replace.type": f"{TRANSFORMS}.ReplaceField$Value",
        "transforms.replace.exclude": "value",
    }
    with ConsumerGroup(cluster, topics=[topic], client=worker) as workers:
        for rack in RACKS:
            workers.start(f"worker-{rack}", rack)
        wait_until(
            lambda: bool(ports) and _put(ports[0], f"/connectors/{sink}/config", connector),
            CONNECT_SECONDS,
            "a Connect worker accepts the connector",
        )
        yield workers, f"connect-{sink}"


def has_javac() -> bool:
    """Return whether Java sources can be compiled."""
    return shutil.which("javac") is not None


def _parse_struct(line: str) -> dict[str, Any] | None:
    """Return the event of a record that a task has printed: Struct{topic=t,partition=0,...}."""
    fields = dict(re.findall(r"(topic|partition|offset)=([^,}]+)", line))
    if len(fields) < 3:
        return None
    return {
        "name": "record_data",
        "topic": fields["topic"],
        "partition": int(fields["partition"]),
        "offset": int(fields["offset"]),
    }


def _put(port: int, path: str, value: object) -> bool:
    """Return whether a REST service accepts a JSON value."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(value).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    try:
        with urllib.request.urlopen(request, timeout=10.0) as response:
            return bool(response.status < 300)
    except OSError:
        return False


def _fetch_jars(name: str, *coordinates: str) -> str:
    """Return the class path of artifacts of a Maven repository, with their dependencies."""

    def build(folder: Path) -> None:
        from jgo.maven import MavenContext, PythonResolver

        with TemporaryDirectory(dir=folder) as repository:
            context = MavenContext(resolver=PythonResolver(), repo_cache=Path(repository))
            roots = [context.create_dependency(each) for each in coordinates]
            _, others = context.resolver.resolve(roots)
            needed = [each for each in others if each.scope in ("compile", "runtime")]
            for path in {Path(each.artifact.resolve()) for each in (*roots, *needed)}:
                shutil.copyfile(path, folder / path.name)

    version = coordinates[0].rpartition(":")[2]
    folder = cache_directory() / f"{name}-{version}"
    build_once(folder, build)
    return ":".join(map(str, sorted(folder.glob("*.jar"))))
