"""Cached artifacts that make nodes start faster, created at the first use on a machine.

The start of seven JVMs is bound by the CPU: on two cores a cluster took 9 s. Two artifacts
are therefore kept beside the jars:

- an archive of the classes that a broker loads, parsed and verified (class-data sharing,
  CDS): a broker starts with 2.0 s of CPU time instead of 3.8;
- ``bootstrap.checkpoint``, the file with the feature levels that Kafka's StorageTool writes
  when it formats a node; with it, a cluster is formatted without one more JVM per node.

An archive is valid for one Java runtime and one set of jars, so the folder is named after
both. A JVM that finds an invalid archive starts without it.
"""

from __future__ import annotations

import hashlib
import signal
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rackward.clusters import jolokia
from rackward.clusters.broker_config import (
    CONTROLLER,
    CONTROLLER_ID,
    INTERNAL,
    format_properties,
    free_ports,
)
from rackward.clusters.distribution import Distribution, Progress, build_once, java_home
from rackward.clusters.errors import BrokerError, ClusterError
from rackward.clusters.processes import Processes

_LAYOUT = 1
"""Part of the folder's name: increase it when the contents of the folder change."""

_CLUSTER_ID = "rackward-rackward-rwAA"
_STEP_TIMEOUT = 90.0
"""Seconds that formatting, starting or stopping the node, or writing the archive may take."""


@dataclass(frozen=True, slots=True)
class StartupCache:
    """The artifacts, in one folder."""

    directory: Path

    @property
    def checkpoint(self) -> Path:
        """``bootstrap.checkpoint`` as the StorageTool writes it: the same for every cluster."""
        return self.directory / "bootstrap.checkpoint"

    @property
    def classes(self) -> Path:
        """The classes that a broker loads, one per line; empty if they could not be listed."""
        return self.directory / "classes.txt"

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
    """Return the artifacts for ``kafka``, created in ``cache`` (10 s) unless they are there.

    Raises BrokerError if a node could not be formatted, and MissingExtraError.
    """
    startup = StartupCache(cache / f"start-{_LAYOUT}-{_fingerprint(kafka)}")

    def build(folder: Path) -> None:
        if progress is not None:
            progress("preparing fast broker starts (10 s, once)")
        artifacts = StartupCache(folder)
        with closing(Processes()) as processes:
            _format_node(kafka, processes, artifacts)
            try:
                _write_archive(kafka, processes, artifacts)
            except ClusterError as error:
                # The archive only saves time.
                artifacts.archive.unlink(missing_ok=True)
                if progress is not None:
                    progress(f"brokers will start slower, without a CDS archive: {error}")

    build_once(startup.directory, build, progress)
    return startup


def _fingerprint(kafka: Distribution) -> str:
    """Return a hash that changes with anything that invalidates an archive."""
    stats = [(str(path), path.stat()) for path in (java_home() / "lib" / "modules", *kafka.jars)]
    identity = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]


def _format_node(kafka: Distribution, processes: Processes, artifacts: StartupCache) -> None:
    """Format a node that is controller and broker in one, and copy its checkpoint."""
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
    artifacts.checkpoint.write_bytes((data / "bootstrap.checkpoint").read_bytes())


def _write_archive(kafka: Distribution, processes: Processes, artifacts: StartupCache) -> None:
    """Start the formatted node to list the classes it loads, then archive them.

    Raises ClusterError if a step fails.
    """
    folder = processes.folder
    artifacts.classes.touch()
    (port,) = free_ports(1)
    command = kafka.server_command(
        folder / "server.properties",
        folder / "server.log",
        agent_port=port,
        options=[f"-XX:DumpLoadedClassList={artifacts.classes}"],
    )
    processes.start("train", command, folder / "train.out")
    deadline = time.monotonic() + _STEP_TIMEOUT
    while jolokia.broker_state(port) != jolokia.RUNNING:
        if processes.exit_code("train") is not None:
            raise ClusterError("the training node exited")
        if time.monotonic() > deadline:
            raise ClusterError(f"the training node did not start within {_STEP_TIMEOUT:g} s")
        time.sleep(0.05)
    processes.signal("train", signal.SIGTERM)
    processes.wait("train", _STEP_TIMEOUT)
    command = kafka.dump_archive_command(artifacts.classes, artifacts.archive)
    processes.start("dump", command, folder / "dump.out")
    if processes.wait("dump", _STEP_TIMEOUT) != 0:
        raise ClusterError("Java could not write the archive")
