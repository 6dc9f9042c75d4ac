"""A Kafka cluster of Docker containers, through Testcontainers."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from rackward.testing import docker_cleanup
from rackward.testing.broker_config import (
    CONTROLLER_ID,
    INTERNAL,
    Listener,
    broker_properties,
    controller_properties,
    environment_variables,
    free_ports,
    new_uuid,
)
from rackward.testing.cluster import DEFAULT_RACKS, Cluster, Node, NodeState
from rackward.testing.errors import (
    BrokerError,
    DockerUnavailableError,
    PortTakenError,
    requires_extra,
)
from rackward.testing.jolokia import agent_option
from rackward.testing.kafka_jars import Progress, cache_directory, default_version, fetch_kafka

LABEL = "rackward.cluster"
"""Name of the label of every container and network; its value is unique to the cluster."""

EXTERNAL = "EXTERNAL"
"""The listener for clients outside the containers' network that have no rack."""

_DATA = "/var/lib/kafka/data"
_AGENT = "/opt/rackward/jolokia-agent.jar"
_AGENT_PORT = 8778
_FIRST_PORT = 9102
_CONTROLLER_NAME = "controller"
_CONTROLLER = f"{_CONTROLLER_NAME}:9093"
_STOP_TIMEOUT = 120
_USER = 1000
"""The user that runs Kafka in the image."""
_ENGINE_TIMEOUT = 60
_PORT_TAKEN = ("port is already allocated", "address already in use")


class DockerCluster(Cluster):
    """Brokers and a controller as containers on a Docker network of their own.

    ``image`` is any image with the layout of the public ``apache/kafka`` image, which reads
    its configuration from ``KAFKA_*`` variables. Default: ``rackward-kafka:VERSION`` if the
    engine has an image of that name, else ``apache/kafka:VERSION``. All other arguments are
    those of `LocalCluster`. Ports are published on 127.0.0.1 only, so the engine must run on
    this machine. With ``data_size``, such as ``64m``, each node's data are in memory and limited
    to that size; they are lost when the node stops.

    Raises DockerUnavailableError, DownloadError (the Jolokia agent is mounted from the cache
    of jars), MissingExtraError, and BrokerError with the end of a container's log if the
    container does not start. All containers and networks carry `label`; a small process
    removes them even if this interpreter is killed. Testcontainers' own reaper is a further
    image and is not used.
    """

    _default_listener = EXTERNAL

    def __init__(
        self,
        racks: Sequence[str | None] = DEFAULT_RACKS,
        *,
        image: str | None = None,
        client_racks: Sequence[str] | None = None,
        kafka_version: str | None = None,
        server_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        data_size: str | None = None,
    ) -> None:
        super().__init__(racks, client_racks)
        self._extra_properties = dict(server_properties or {})
        self._containers: dict[str, Any] = {}
        self._data_size = data_size
        version = kafka_version or default_version()
        self._image = find_image(image, version, progress)
        self._agent = fetch_kafka(version, cache_directory(cache_dir), progress).agent
        self._labels = {LABEL: secrets.token_hex(8)}
        self.label = f"{LABEL}={self._labels[LABEL]}"
        # Container ports by listener.
        listeners = [EXTERNAL, INTERNAL, *self._rack_listeners.values()]
        self._container_ports = {name: _FIRST_PORT + i for i, name in enumerate(listeners)}
        # -P: without the folder of the script on its path, where docker.py is this module.
        clean_up = [sys.executable, "-P", docker_cleanup.__file__, self.label]
        self._start_cluster(directory, progress, clean_up)

    def _open(self) -> None:
        from testcontainers.core.network import Network

        self._cluster_id = new_uuid()
        self._containers.clear()
        with _engine_errors():
            self._network = Network(docker_network_kw={"labels": self._labels}).create()
        properties = controller_properties(
            _CONTROLLER.replace(_CONTROLLER_NAME, "0.0.0.0"),
            _CONTROLLER,
            brokers=len(self._initial_racks),
            data=_DATA,
            extra=self._extra_properties,
        )
        self._define_container(_CONTROLLER_NAME, environment_variables(properties), {})
        with _without_reaper():
            self._start_container(_CONTROLLER_NAME)

    def _create_node(self, broker_id: int, rack: str | None) -> Node:
        published = [name for name in self._container_ports if name != INTERNAL]
        agent_port, *ports = free_ports(1 + len(published))
        node = Node(broker_id, rack, dict(zip(published, ports, strict=True)), agent_port)
        bindings = {self._container_ports[name]: port for name, port in node.ports.items()}
        bindings[_AGENT_PORT] = agent_port
        self._define_container(node.name, self._broker_variables(node), bindings)
        return node

    def _broker_variables(self, node: Node) -> dict[str, str]:
        listeners = [
            Listener(
                name,
                f"0.0.0.0:{port}",
                f"{node.name}:{port}" if name == INTERNAL else f"127.0.0.1:{node.ports[name]}",
            )
            for name, port in self._container_ports.items()
        ]
        properties = broker_properties(
            node.id,
            node.rack,
            listeners,
            controller=_CONTROLLER,
            brokers=len(self._initial_racks),
            data=_DATA,
            extra=self._extra_properties,
        )
        agent = agent_option(_AGENT, "0.0.0.0", _AGENT_PORT)
        return {**environment_variables(properties), "KAFKA_OPTS": agent}

    def _define_container(
        self, name: str, variables: Mapping[str, str], bindings: Mapping[int, int]
    ) -> None:
        """Configure a container; ``bindings`` maps its ports to ports of 127.0.0.1."""
        from testcontainers.core.container import DockerContainer

        container = (
            DockerContainer(self._image)
            .with_network(self._network)
            .with_network_aliases(name)
            .with_volume_mapping(self._agent, _AGENT, "ro")
            .with_envs(
                CLUSTER_ID=self._cluster_id,
                KAFKA_HEAP_OPTS="-Xmx256m",
                KAFKA_JVM_PERFORMANCE_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
                **variables,
            )
            .with_kwargs(labels=self._labels)
        )
        if self._data_size is not None:
            container.with_tmpfs_mount(_DATA, f"size={self._data_size},uid={_USER}")
        # with_bind_ports takes no address and would publish on all of them.
        for inside, outside in bindings.items():
            container.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)
        self._containers[name] = container

    def _launch(self, nodes: Sequence[Node]) -> None:
        # The engine takes 0.5 s for one container; seven in parallel take 1 s.
        with _without_reaper(), ThreadPoolExecutor(8) as pool:
            list(pool.map(self._start_container, [node.name for node in nodes]))

    def _start_container(self, name: str) -> None:
        container = self._containers[name]
        with _engine_errors():
            if container.status == "not_started":
                container.start()
            else:
                container.get_wrapped_container().start()

    def _has_exited(self, node: Node) -> bool:
        if not self._is_up(_CONTROLLER_NAME):
            log = self._read_log(_CONTROLLER_NAME)
            raise BrokerError(CONTROLLER_ID, "(the controller) exited", log, "create a new cluster")
        return not self._is_up(node.name)

    def _is_up(self, name: str) -> bool:
        container = self._containers[name]
        with _engine_errors():
            container.reload()
        return container.status in ("created", "running", "paused", "restarting")

    def _signal(self, node: Node, number: signal.Signals) -> None:
        container = self._containers[node.name].get_wrapped_container()
        with _engine_errors():
            match number:
                case signal.SIGKILL:
                    if node.state is NodeState.PAUSED:
                        # The engine does not kill a paused container.
                        container.unpause()
                    container.reload()
                    if container.status == "running":
                        container.kill()
                    container.wait()
                case signal.SIGTERM:
                    container.stop(timeout=_STOP_TIMEOUT)
                case signal.SIGSTOP:
                    container.pause()
                case signal.SIGCONT:
                    container.unpause()

    def _remove_node(self, node: Node) -> None:
        container = self._containers.pop(node.name)
        if container.status != "not_started":
            with _engine_errors():
                container.get_wrapped_container().remove(force=True, v=True)

    def _read_log(self, name: str) -> str:
        container = self._containers[name]
        if container.status == "not_started":
            return ""
        with _engine_errors():
            return str(container.get_wrapped_container().logs().decode(errors="replace"))


def check_docker() -> None:
    """Raise MissingExtraError or DockerUnavailableError if containers cannot be run here."""
    with requires_extra("docker"):
        import docker
        import testcontainers.core  # noqa: F401
    try:
        with closing(docker.from_env(timeout=_ENGINE_TIMEOUT)) as client:
            client.ping()
    # OSError: the engine accepted the connection and then failed.
    except (docker.errors.DockerException, OSError) as error:
        raise DockerUnavailableError(
            f"no Docker engine answers ({error}): start one, or use a LocalCluster"
        ) from error


def local_image(kafka_version: str) -> str:
    """Return the name of a locally built image, which DockerCluster prefers to the public one."""
    return f"rackward-kafka:{kafka_version}"


def has_image(name: str) -> bool:
    """Whether the engine has the image."""
    import docker

    with closing(docker.from_env()) as client:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            return False
    return True


def find_image(image: str | None, kafka_version: str, progress: Progress | None = None) -> str:
    """Return the image to run, pulled unless the engine has it.

    Raises MissingExtraError, and DockerUnavailableError if no engine answers or the image
    cannot be pulled.
    """
    check_docker()
    import docker

    if image is None:
        built = local_image(kafka_version)
        image = built if has_image(built) else f"apache/kafka:{kafka_version}"
    if not has_image(image):
        if progress is not None:
            progress(f"pulling the image {image}")
        try:
            with closing(docker.from_env()) as client:
                client.images.pull(image)
        except docker.errors.DockerException as error:
            raise DockerUnavailableError(
                f"the Docker engine has no image {image} and cannot pull it ({error}): pass "
                "image= with any image that has the layout of the public apache/kafka image, "
                "or use a LocalCluster, which needs no image"
            ) from error
    return image


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Raise PortTakenError or DockerUnavailableError for errors of the engine."""
    from docker.errors import DockerException

    try:
        yield
    except DockerException as error:
        if any(phrase in str(error) for phrase in _PORT_TAKEN):
            raise PortTakenError(f"another process took a port ({error})") from error
        raise DockerUnavailableError(f"the Docker engine reported an error: {error}") from error


@contextmanager
def _without_reaper() -> Iterator[None]:
    """Start containers without Testcontainers' reaper, which is a further image to pull."""
    from testcontainers.core.config import testcontainers_config

    before = testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = True
    try:
        yield
    finally:
        testcontainers_config.ryuk_disabled = before
