"""Cached artifacts that make nodes start faster, created at the first use on a machine.

The start of seven JVMs is bound by the CPU: on two cores a cluster took 9 s. Two artifacts
are therefore kept beside the jars:

- an archive of the classes that a broker loads, parsed and verified (class-data sharing,
  CDS): a broker starts with 2.0 s of CPU time instead of 3.8;
- the file with the feature levels that Kafka's StorageTool writes when it formats a node (its
  place depends on the version); with it, a cluster is formatted without one more JVM per node.

An archive is valid for one Java runtime and one set of jars, so the folder is named after
both. A JVM that finds an invalid archive starts without it. Its classes are those of
``kafka-classes.txt``, so that no node has to run first. ``python -m
integration.clusters.class_list`` writes that file for a new default version.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rackward.testing.broker_config import (
    CONTROLLER,
    CONTROLLER_ID,
    INTERNAL,
    format_properties,
    free_ports,
)
from rackward.testing.distribution import (
    KAFKA_VERSION,
    Distribution,
    Progress,
    build_once,
    java_home,
)
from rackward.testing.errors import BrokerError, ClusterTimeoutError
from rackward.testing.processes import Processes

CLASSES = Path(__file__).with_name("kafka-classes.txt")
"""The classes that a node loads until it runs, in the format of ``-XX:SharedClassListFile``."""

_LAYOUT = 3
"""Part of the folder's name: increase it when the contents of the folder change."""

_CLUSTER_ID = "rackward-rackward-rwAA"
_STEP_TIMEOUT = 90.0
"""Seconds that formatting a node, or writing the archive, may take."""


@dataclass(frozen=True, slots=True)
class StartupCache:
    """The artifacts, in one folder."""

    directory: Path

    @property
    def formatted(self) -> Path:
        """A data folder as the StorageTool writes it, without what is different in each node."""
        return self.directory / "formatted"

    @property
    def archive(self) -> Path:
        """The CDS archive; absent if it could not be written."""
        return self.directory / "classes.jsa"

    def jvm_options(self) -> list[str]:
        """Return the JVM options that use the archive, none without an archive."""
        if not self.archive.exists():
            return []
        return [
            f"-XX:SharedArchiveFile={self.archive}",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        ]


def prepare_startup_cache(
    kafka: Distribution, cache: Path, progress: Progress | None = None
) -> StartupCache:
    """Return the artifacts for ``kafka``, created in ``cache`` (5 s) unless they are there.

    Raises BrokerError if a node could not be formatted, and MissingExtraError.
    """
    startup = StartupCache(cache / f"start-{_LAYOUT}-{_fingerprint(kafka)}")

    def build(folder: Path) -> None:
        if progress is not None:
            progress("preparing fast broker starts (5 s, once)")
        artifacts = StartupCache(folder)
        with closing(Processes()) as processes:
            classes = processes.folder / "classes.txt"
            classes.write_text(class_list(kafka))
            command = kafka.dump_archive_command(classes, artifacts.archive)
            processes.start("dump", command, processes.folder / "dump.out")
            format_node(kafka, processes, artifacts.formatted)
            try:
                status = processes.wait("dump", _STEP_TIMEOUT)
            except ClusterTimeoutError:
                status = None
            # The archive only saves time.
            if status != 0:
                artifacts.archive.unlink(missing_ok=True)
                if progress is not None:
                    progress("brokers will start slower: Java could not write a CDS archive")

    build_once(startup.directory, build, progress)
    return startup


def class_list(kafka: Distribution) -> str:
    """Return the content of CLASSES as far as ``kafka`` can have it.

    Java skips classes that another version lacks, but it crashes at their lambdas.
    """
    lines = CLASSES.read_text().splitlines(keepends=True)
    if kafka.version != KAFKA_VERSION:
        lines = [line for line in lines if not line.startswith("@lambda-proxy")]
    return "".join(lines)


def format_node(kafka: Distribution, processes: Processes, formatted: Path) -> Path:
    """Format a node that is controller and broker in one; copy its data folder to ``formatted``,
    without ``meta.properties``.

    Returns its ``server.properties``. Raises BrokerError.
    """
    controller, internal = free_ports(2)
    data = processes.folder / "data"
    properties = processes.folder / "server.properties"
    properties.write_text(
        format_properties(
            {
                "process.roles": "broker,controller",
                "node.id": str(CONTROLLER_ID),
                "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller}",
                "controller.listener.names": CONTROLLER,
                "listeners": f"{CONTROLLER}://127.0.0.1:{controller},"
                f"{INTERNAL}://127.0.0.1:{internal}",
                "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,{INTERNAL}:PLAINTEXT",
                "inter.broker.listener.name": INTERNAL,
                "log.dirs": str(data),
            }
        )
    )
    out = processes.folder / "format.out"
    command = kafka.storage_tool_command("format", "-t", _CLUSTER_ID, "-c", str(properties))
    processes.start("format", command, out)
    if processes.wait("format", _STEP_TIMEOUT) != 0:
        raise BrokerError(
            CONTROLLER_ID,
            "could not be formatted",
            out.read_text(errors="replace"),
            f"Kafka must be 3.9 or later, and this is {kafka.version}",
        )
    shutil.copytree(data, formatted, ignore=shutil.ignore_patterns("meta.properties"))
    return properties


def _fingerprint(kafka: Distribution) -> str:
    """Return a hash that changes with anything that invalidates an archive."""
    stats = [(str(path), path.stat()) for path in (java_home() / "lib" / "modules", *kafka.jars)]
    identity = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
