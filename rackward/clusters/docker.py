"""Kafka in containers, through Testcontainers: the public apache/kafka image or a local one."""

from __future__ import annotations

import os
import secrets
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rackward.clusters import docker_cleanup as sweep
from rackward.clusters.base import ATTEMPTS, BaseCluster
from rackward.clusters.broker_config import (
    CONTROLLER_ID,
    INTERNAL,
    Listener,
    Node,
    State,
    broker_properties,
    controller_properties,
    environment,
    free_ports,
    new_uuid,
)
from rackward.clusters.distribution import KAFKA_VERSION, Progress, cache_directory, distribution
from rackward.clusters.errors import (
    BrokerError,
    DockerUnavailableError,
    MissingExtraError,
    PortTakenError,
)
from rackward.clusters.jolokia import agent_argument
from rackward.clusters.local import DEFAULT_RACKS
from rackward.clusters.processes import Processes

# ---- The Docker engine: whether one answers, which image to take, and its errors as ours.

_ANSWER_SECONDS = 60
_PORT_TAKEN = ("port is already allocated", "address already in use")


def local_image(kafka_version: str) -> str:
    """The name of the image that ``.ci/kafka_image.py`` builds."""
    return f"rackward-kafka:{kafka_version}"


def public_image(kafka_version: str) -> str:
    """The image that the Kafka project publishes."""
    return f"apache/kafka:{kafka_version}"


def missing_docker() -> str | None:
    """Why no container can be run here, in a few words; None: they can."""
    try:
        import docker
        import testcontainers.core  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed (pip install 'rackward[docker]')"
    try:
        client = docker.from_env(timeout=_ANSWER_SECONDS)
        try:
            client.ping()
        finally:
            client.close()
    # The second where it answers, and then does not.
    except (docker.errors.DockerException, OSError) as error:
        return f"no Docker engine answers ({error})"
    return None


def image_at_hand(kafka_version: str) -> str:
    """The locally built image where there is one, else the public one.

    Raises DockerUnavailableError.
    """
    if reason := missing_docker():
        raise DockerUnavailableError(f"{reason}: start one, or use a LocalCluster")
    built = local_image(kafka_version)
    return built if has_image(built) else public_image(kafka_version)


def has_image(name: str) -> bool:
    """Whether the engine holds that image."""
    import docker

    client = docker.from_env()
    try:
        client.images.get(name)
    except docker.errors.ImageNotFound:
        return False
    finally:
        client.close()
    return True


@contextmanager
def engine_errors() -> Iterator[None]:
    """What the engine refuses becomes PortTakenError or DockerUnavailableError."""
    try:
        from docker.errors import DockerException
    except ImportError as error:
        raise MissingExtraError("docker", "docker") from error
    try:
        yield
    except DockerException as error:
        told = str(error)
        if any(sign in told for sign in _PORT_TAKEN):
            raise PortTakenError(f"a port was taken by another process ({told})") from error
        raise DockerUnavailableError(
            f"the Docker engine refused ({told}); where it is the image that cannot be had, "
            "build one with: .ci/kafka_image.py"
        ) from error


@contextmanager
def without_reaper() -> Iterator[None]:
    """Start containers without Testcontainers' reaper, which is an image to pull."""
    from testcontainers.core.config import testcontainers_config

    before = testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = True
    try:
        yield
    finally:
        testcontainers_config.ryuk_disabled = before


LABEL = "rackward.cluster"
EXTERNAL = "EXTERNAL"
"""The listener for clients outside the network of containers that stand in no rack."""

_DATA = "/var/lib/kafka/data"
_AGENT = "/opt/rackward/jolokia-agent.jar"
_AGENT_PORT = 8778
_FIRST_PORT = 9092
_CONTROLLER = "controller:9093"
_STOP_SECONDS = 120


class DockerCluster(BaseCluster):
    """Brokers and a controller as containers on a network of their own.

    The arguments are `LocalCluster`'s, but for ``image``: None takes the image that
    ``.ci/kafka_image.py`` builds where there is one, and the public
    ``apache/kafka`` of the same version otherwise. Ports are published on 127.0.0.1
    alone, so the engine must run on this machine.

    Raises DockerUnavailableError, DownloadError (the Jolokia agent is put into the
    containers from the cache), BrokerError with the end of the log of a container that
    did not start. Containers and network carry `label` (``rackward.cluster=...``); a
    supervisor removes them even where this interpreter is killed, which is why
    Testcontainers' own reaper, an image of its own, is not used.
    """

    def __init__(
        self,
        racks: Sequence[str | None] = DEFAULT_RACKS,
        *,
        image: str | None = None,
        client_racks: Sequence[str] | None = None,
        kafka_version: str = KAFKA_VERSION,
        server_properties: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(racks, client_racks)
        self._extra = dict(server_properties or {})
        self._containers: dict[str, Any] = {}
        self._image = image or image_at_hand(kafka_version)
        self._agent = distribution(kafka_version, cache_directory(cache_dir), progress).agent
        self.label = f"{LABEL}={secrets.token_hex(8)}"
        self._ports = [EXTERNAL, INTERNAL, *self._listeners.values()]
        if progress is not None:
            progress(f"starting {len(self._wanted)} brokers and a controller of {self._image}")
        # It has no processes to look after: it is there to sweep up should this one die.
        self._processes = Processes(directory)
        try:
            self._processes.at_end([sys.executable, sweep.__file__, self.label])
            self._finalizer = weakref.finalize(self, self._processes.close)
            self._start_all()
        except BaseException:
            self._processes.close()
            raise

    def _start_all(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._try_all()
                return
            except PortTakenError:
                sweep.sweep(self.label)
                if attempt == ATTEMPTS:
                    raise

    def _try_all(self) -> None:
        from testcontainers.core.network import Network

        self._cluster_id = new_uuid()
        self._containers.clear()
        with engine_errors():
            self._network = Network(docker_network_kw={"labels": self._labels()}).create()
        self._create("controller", self._controller_variables(), {})
        with without_reaper():
            self._run("controller")
        self._nodes = {}
        for broker_id, rack in enumerate(self._wanted):
            self._nodes[broker_id] = self._new_node(broker_id, rack)
        self._start(list(self._nodes.values()))

    @property
    def _door(self) -> str:
        return EXTERNAL

    def _new_node(self, broker_id: int, rack: str | None) -> Node:
        outside = [name for name in self._ports if name != INTERNAL]
        agent, *ports = free_ports(1 + len(outside))
        node = Node(broker_id, rack, dict(zip(outside, ports, strict=True)), agent)
        inside = {name: _FIRST_PORT + 10 + index for index, name in enumerate(self._ports)}
        published = {inside[listener]: port for listener, port in node.ports.items()}
        published[_AGENT_PORT] = agent
        self._create(node.name, self._broker_variables(node, inside), published)
        return node

    def _broker_variables(self, node: Node, inside: Mapping[str, int]) -> dict[str, str]:
        listeners = [
            Listener(
                name,
                f"0.0.0.0:{port}",
                f"{node.name}:{port}" if name == INTERNAL else f"127.0.0.1:{node.ports[name]}",
            )
            for name, port in inside.items()
        ]
        properties = broker_properties(
            node.id,
            node.rack,
            listeners,
            controller=_CONTROLLER,
            brokers=len(self._wanted),
            data=_DATA,
            extra=self._extra,
        )
        agent = agent_argument(_AGENT, "0.0.0.0", _AGENT_PORT)
        return {**environment(properties), "KAFKA_OPTS": agent}

    def _controller_variables(self) -> dict[str, str]:
        return environment(
            controller_properties(
                _CONTROLLER.replace("controller", "0.0.0.0"),
                _CONTROLLER,
                brokers=len(self._wanted),
                data=_DATA,
                extra=self._extra,
            )
        )

    def _create(
        self, name: str, variables: Mapping[str, str], published: Mapping[int, int]
    ) -> None:
        """Describe a container; ``published`` is port inside to port of 127.0.0.1."""
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
            .with_kwargs(labels=self._labels())
        )
        # with_bind_ports cannot name an address, and would publish on all of them.
        for inside, outside in published.items():
            container.ports[f"{inside}/tcp"] = ("127.0.0.1", outside)
        self._containers[name] = container

    def _labels(self) -> dict[str, str]:
        name, _, value = self.label.partition("=")
        return {name: value}

    def _launch(self, node: Node) -> None:
        self._launch_all([node])

    def _launch_all(self, nodes: Sequence[Node]) -> None:
        # The engine takes half a second for each; seven at once take one.
        with without_reaper(), ThreadPoolExecutor(8) as pool:
            list(pool.map(self._run, [node.name for node in nodes]))

    def _run(self, name: str) -> None:
        container = self._containers[name]
        with engine_errors():
            if container.status == "not_started":
                container.start()
            else:
                container.get_wrapped_container().start()

    def _ended(self, node: Node) -> bool:
        if not self._is_up("controller"):
            log = self._log_of("controller")
            raise BrokerError(CONTROLLER_ID, "(the controller) ended", log, "make another cluster")
        return not self._is_up(node.name)

    def _is_up(self, name: str) -> bool:
        container = self._containers[name]
        with engine_errors():
            container.reload()
        return container.status in ("created", "running", "paused", "restarting")

    def _kill(self, node: Node) -> None:
        container = self._containers[node.name].get_wrapped_container()
        with engine_errors():
            if node.state is State.PAUSED:
                # The engine refuses to kill what is frozen.
                container.unpause()
            container.reload()
            if container.status == "running":
                container.kill()
            container.wait()

    def _stop(self, node: Node) -> None:
        with engine_errors():
            self._containers[node.name].get_wrapped_container().stop(timeout=_STOP_SECONDS)

    def _freeze(self, node: Node) -> None:
        with engine_errors():
            self._containers[node.name].get_wrapped_container().pause()

    def _thaw(self, node: Node) -> None:
        with engine_errors():
            self._containers[node.name].get_wrapped_container().unpause()

    def _discard(self, node: Node) -> None:
        container = self._containers.pop(node.name)
        if container.status != "not_started":
            with engine_errors():
                container.get_wrapped_container().remove(force=True, v=True)

    def _read_log(self, node: Node) -> str:
        return self._log_of(node.name)

    def _log_of(self, name: str) -> str:
        container = self._containers[name]
        if container.status == "not_started":
            return ""
        with engine_errors():
            return str(container.get_wrapped_container().logs().decode(errors="replace"))

    def _dismantle(self) -> None:
        try:
            with engine_errors():
                sweep.sweep(self.label)
            self._processes.at_end(None)
        finally:
            self._finalizer()
