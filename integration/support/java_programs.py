"""Java programs whose groups are not of plain consumers: share consumers, Streams, Connect.

    with share_consumers(cluster, group, topic): ...

Each runs one process per rack, with the rack as its ``client.rack``. Their jars are downloaded
once, as Kafka is. The application of Kafka Streams is compiled once, which needs a javac.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from integration.support.program_clients import JVM_OPTIONS
from rackward.testing import Cluster
from rackward.testing.broker_config import free_ports
from rackward.testing.kafka_jars import (
    KAFKA_VERSION,
    build_once,
    cache_directory,
    fetch_tools,
    java_home,
)
from rackward.testing.processes import Processes
from tests.support.waiting import TEST_TIMEOUT, wait_until

RACKS = ("a", "b", "c")

CONNECT_VERSION = "4.1.0"
"""Of the workers and the sink connector, whatever the version of the brokers."""

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SERDE = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"


@contextmanager
def share_consumers(cluster: Cluster, group: str, topic: str) -> Iterator[None]:
    """Read a topic with a share group (KIP-932)."""
    class_path = fetch_tools(cache_directory())
    with closing(Processes()) as processes:
        for rack in RACKS:
            properties = _write(processes.folder, rack, {"client.rack": rack, "client.id": rack})
            arguments = [
                *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic),
                *("--group-id", group, "--command-config", properties),
            ]
            _start(
                processes,
                rack,
                class_path,
                "org.apache.kafka.tools.VerifiableShareConsumer",
                arguments,
            )
        yield


@contextmanager
def streams_applications(
    cluster: Cluster, application: str, topic: str, protocol: str
) -> Iterator[None]:
    """Read a topic with Kafka Streams; ``protocol`` is its group.protocol."""
    jars = _fetch_jars("kafka-streams", f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}")
    class_path = f"{_compiled(jars)}:{jars}"
    with closing(Processes()) as processes:
        for rack in RACKS:
            settings = {
                "application.id": application,
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.protocol": protocol,
                "client.rack": rack,
                "state.dir": processes.folder / f"state-{rack}",
                "default.key.serde": SERDE,
                "default.value.serde": SERDE,
            }
            arguments = [_write(processes.folder, rack, settings), topic]
            _start(processes, rack, class_path, "StreamsApp", arguments)
        yield


@contextmanager
def connect_workers(cluster: Cluster, workers: str, sink: str, topic: str) -> Iterator[None]:
    """Run a Connect cluster with a sink connector of six tasks, whose group is ``connect-SINK``.

    The connector writes to a file.
    """
    class_path = _fetch_jars(
        "kafka-connect",
        f"org.apache.kafka:connect-runtime:{CONNECT_VERSION}",
        f"org.apache.kafka:connect-file:{CONNECT_VERSION}",
    )
    with closing(Processes()) as processes:
        ports = free_ports(len(RACKS))
        for rack, port in zip(RACKS, ports, strict=True):
            settings = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": workers,
                "consumer.client.rack": rack,
                "listeners": f"http://127.0.0.1:{port}",
                "key.converter": BYTES,
                "value.converter": BYTES,
                "offset.storage.topic": f"{workers}-offsets",
                "config.storage.topic": f"{workers}-config",
                "status.storage.topic": f"{workers}-status",
                "offset.storage.partitions": 1,
                "status.storage.partitions": 1,
            }
            arguments = [_write(processes.folder, rack, settings)]
            _start(
                processes,
                rack,
                class_path,
                "org.apache.kafka.connect.cli.ConnectDistributed",
                arguments,
            )
        connector = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "tasks.max": "6",
            "topics": topic,
            "file": str(processes.folder / "sink"),
        }
        wait_until(
            lambda: _put(ports[0], f"/connectors/{sink}/config", connector),
            TEST_TIMEOUT,
            "a Connect worker accepts the connector",
        )
        yield


def has_javac() -> bool:
    """Return whether Java sources can be compiled."""
    return shutil.which("javac") is not None


def _start(
    processes: Processes, name: str, class_path: str, program: str, arguments: Sequence[str]
) -> None:
    java = str(java_home() / "bin" / "java")
    command = [java, *JVM_OPTIONS, "-cp", class_path, program, *arguments]
    processes.start(name, command, processes.folder / f"{name}.log")


def _write(folder: Path, name: str, properties: Mapping[str, object]) -> str:
    """Return the path of a new file of properties."""
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(path)


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


def _compiled(class_path: str) -> Path:
    """Return the folder of the compiled application of Kafka Streams."""
    source = Path(__file__).with_name("streams_app") / "StreamsApp.java"
    folder = cache_directory() / f"streams-app-{KAFKA_VERSION}"

    def build(folder: Path) -> None:
        command = ["javac", "--release", "17", "-cp", class_path, "-d", str(folder), str(source)]
        subprocess.run(command, check=True)

    build_once(folder, build)
    return folder


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
