"""What a node's start can do without once it has been done on this machine.

Starting seven JVMs is all processor time: on two cores a cluster came up in 9 s. Two
things are therefore made at the first use and kept beside the jars:

- an archive of the classes that a broker loads, parsed and verified (class-data sharing):
  a broker starts with 2.0 s of processor time instead of 3.8;
- the feature levels that Kafka's StorageTool writes when it formats a node, so that a
  cluster is formatted without a JVM per node.

An archive is good for one Java and one set of jars, so its folder is named after both; a
JVM that finds that it does not fit goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from rackward.clusters import distribution as java
from rackward.clusters import jolokia
from rackward.clusters.broker_config import CONTROLLER_ID, INTERNAL, free_ports, render
from rackward.clusters.distribution import Distribution, Progress, locked
from rackward.clusters.errors import BrokerError, ClusterError
from rackward.clusters.processes import Processes

LAYOUT = 1
"""Raise it when what is in the folder changes."""

ANY_CLUSTER_ID = "rackward-rackward-rwAA"
_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Warmup:
    """What was prepared, in one folder."""

    directory: Path

    @property
    def checkpoint(self) -> Path:
        """``bootstrap.checkpoint`` as the storage tool writes it: the same for any cluster."""
        return self.directory / "bootstrap.checkpoint"

    @property
    def classes(self) -> Path:
        """The classes that a broker loads, one a line; empty where that is not known."""
        return self.directory / "classes.txt"

    def options(self) -> list[str]:
        """Options of the JVM that use the archive of classes, where there is one."""
        archive = self.directory / "classes.jsa"
        return (
            [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
            if (archive.exists())
            else []
        )


def warm_up(kafka: Distribution, cache: Path, progress: Progress | None = None) -> Warmup:
    """What was prepared before, or is now (10 s); safe when several processes ask at once."""
    kept = Warmup(cache / f"start-{LAYOUT}-{_key(kafka)}")
    if kept.directory.is_dir():
        return kept
    with locked(cache / "warmup.lock", progress):
        if not kept.directory.is_dir():
            if progress is not None:
                progress("preparing quick starts (10 s, once)")
            processes = Processes(cache)
            try:
                made = processes.folder / "made"
                made.mkdir()
                _format(kafka, processes, made)
                _archive(kafka, processes, made, progress)
                os.rename(made, kept.directory)
            finally:
                processes.close()
    return kept


def _key(kafka: Distribution) -> str:
    """Changes with anything that would make the archive unfit."""
    modules = java.java_home() / "lib" / "modules"
    facts = [(str(path), path.stat()) for path in (modules, *kafka.jars)]
    told = [(path, facts.st_size, facts.st_mtime_ns) for path, facts in facts]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _format(kafka: Distribution, processes: Processes, made: Path) -> None:
    """Format a node, which is then a cluster of one, and keep the feature levels."""
    controller, internal = free_ports(2)
    data = processes.folder / "data"
    (processes.folder / "server.properties").write_text(
        render(
            {
                "process.roles": "broker,controller",
                "node.id": str(CONTROLLER_ID),
                "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://127.0.0.1:{controller},"
                f"{INTERNAL}://127.0.0.1:{internal}",
                "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{INTERNAL}:PLAINTEXT",
                "inter.broker.listener.name": INTERNAL,
                "log.dirs": str(data),
            }
        )
    )
    out = processes.folder / "format.out"
    arguments = ("format", "-t", ANY_CLUSTER_ID, "-c", str(processes.folder / "server.properties"))
    processes.start("format", java.tool(kafka, java.STORAGE_TOOL, *arguments), out)
    if processes.wait("format", _SECONDS) != 0:
        raise BrokerError(
            CONTROLLER_ID,
            "could not be formatted",
            out.read_text(errors="replace"),
            f"is Kafka {kafka.version} at least 4.0?",
        )
    (made / "bootstrap.checkpoint").write_bytes((data / "bootstrap.checkpoint").read_bytes())


def _archive(
    kafka: Distribution, processes: Processes, made: Path, progress: Progress | None
) -> None:
    """Start the node to learn which classes it loads, and archive them.

    The archive only saves time, so a failure here is told, not raised.
    """
    folder = processes.folder
    classes, archive = made / "classes.txt", made / "classes.jsa"
    classes.touch()
    (port,) = free_ports(1)
    try:
        command = java.server(
            kafka,
            folder / "server.properties",
            folder / "server.log",
            agent_port=port,
            options=[f"-XX:DumpLoadedClassList={classes}"],
        )
        processes.start("train", command, folder / "train.out")
        deadline = time.monotonic() + _SECONDS
        while jolokia.broker_state(port) != jolokia.RUNNING:
            if processes.exit_code("train") is not None or time.monotonic() > deadline:
                raise ClusterError(f"its broker did not start, see {folder}")
            time.sleep(0.05)
        processes.signal("train", signal.SIGTERM)
        processes.wait("train", _SECONDS)
        processes.start("dump", java.dump_archive(kafka, classes, archive), folder / "dump.out")
        if processes.wait("dump", _SECONDS) != 0:
            raise ClusterError("Java could not write it")
    except ClusterError as error:
        archive.unlink(missing_ok=True)
        if progress is not None:
            progress(f"going on without an archive of classes: {error}")
