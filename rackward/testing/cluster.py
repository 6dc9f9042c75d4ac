"""The interface of a test cluster, and everything about it that does not depend on its runtime.

A `Cluster` is a real Kafka that the caller owns: brokers with ``broker.rack``, and a
controller in a process of its own that no method here stops, so that killing brokers never
costs the quorum. `LocalCluster` runs its nodes as processes, `DockerCluster` as containers. Code
that takes a ``Cluster`` works with either, and the same tests run on both.

Lifetime
    The constructor returns when every broker serves, and cleans up if it raises. ``close()``
    ends all processes or containers and removes all files; ``with`` calls it, and it may be
    called again. Nothing is left behind after an exception, Ctrl-C or a killed interpreter
    (each class documents the limits). Methods are not thread-safe; several clusters may
    run at the same time.

Listeners
    Every broker has one listener for brokers, admin clients, producers and clients without a
    rack (``bootstrap_servers``), and one for the clients of each rack (``bootstrap(rack)``).
    Kafka answers a metadata request with the addresses of the listener that received it. So
    a consumer that bootstraps through its rack's listener uses that listener at every
    broker, in whatever language it is written.

Bytes
    Brokers count the bytes sent per listener, and a listener stands for a client rack, so
    ``bytes_out()`` is the traffic matrix from brokers to client racks as the brokers measure
    it. It counts bytes on the socket: fetched batches as stored (compressed, with headers)
    and all other responses. 200 MB of payload count as 203 to 204 MB. The counters of a
    broker start at zero with its process: read them before a kill or a stop.

Faults
    ======= ================================= =============================================
    method  effect on the broker's process    effect on the cluster
    ======= ================================= =============================================
    kill    SIGKILL                           silence; fenced after the session timeout
    stop    SIGTERM, then wait for its exit   controlled shutdown: leaders are moved first
    pause   SIGSTOP                           open sockets that do not answer
    resume  SIGCONT                           the same process with the same counters
    start   a new process on the old data     the broker catches up and leads nothing yet
    ======= ================================= =============================================

    A broker keeps its ports across kill or stop and start. ``auto.leader.rebalance.enable``
    is off, so leaders stay where the caller put them; `move_leaders` moves them back.
"""

from __future__ import annotations

import http.client
import os
import signal
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Self, TypeVar

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from rackward.testing import jolokia
from rackward.testing.errors import (
    BrokerError,
    BrokerStateError,
    ClusterClosedError,
    ClusterError,
    ClusterTimeoutError,
    PortTakenError,
    UnknownBrokerError,
    UnknownClientRackError,
    requires_extra,
)

with requires_extra("cluster"):
    import kafka  # noqa: F401
from rackward.testing import admin
from rackward.testing.admin import RunningBrokers
from rackward.testing.kafka_jars import Progress
from rackward.testing.processes import Processes

START_TIMEOUT = 180.0
"""Seconds until brokers must serve: a start takes seconds on an idle machine, minutes on a
busy one."""

START_ATTEMPTS = 3
"""Number of attempts to start when another process takes a port meanwhile."""

_POLL_INTERVAL = 0.03
_EXIT_CHECK_INTERVAL = 0.5

DEFAULT_RACKS = ("a", "a", "b", "b", "c", "c")

Metric = TypeVar("Metric")


class NodeState(StrEnum):
    """State of a broker's process."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(slots=True)
class Node:
    """A broker: ``ports`` of 127.0.0.1 by listener name, ``agent_port`` of its Jolokia agent."""

    id: int
    rack: str | None
    ports: Mapping[str, int]
    agent_port: int
    state: NodeState = NodeState.DEAD

    @property
    def name(self) -> str:
        """Name of its process, folder or container."""
        return f"broker-{self.id}"


class Cluster(ABC):
    """A Kafka cluster for tests. See the module's docstring."""

    _default_listener: ClassVar[str]
    """Name of the listener that `bootstrap_servers` lists."""

    def __init__(self, racks: Sequence[str | None], client_racks: Sequence[str] | None) -> None:
        if not racks:
            raise InvalidOptionError("racks is empty: a cluster needs at least one broker")
        self._initial_racks = [rack or None for rack in racks]
        named = self._initial_racks if client_racks is None else client_racks
        self._client_racks = tuple(dict.fromkeys(rack for rack in named if rack))
        # A rack may have characters that a listener's name may not.
        self._rack_listeners = {rack: f"RACK_{n}" for n, rack in enumerate(self._client_racks)}
        self._nodes: dict[int, Node] = {}
        self._closed = False

    @property
    def racks(self) -> Mapping[int, str | None]:
        """``broker.rack`` by broker id, None for brokers without one; includes dead brokers."""
        return MappingProxyType({node.id: node.rack for node in self._nodes.values()})

    @property
    def client_racks(self) -> tuple[str, ...]:
        """The racks whose clients have a listener of their own, counted by `bytes_out`."""
        return self._client_racks

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` for admin clients, producers and clients without a rack.

        `bytes_out` does not count what is sent there.
        """
        return self.bootstrap(None)

    def bootstrap(self, rack: str | None) -> str:
        """Return ``host:port,...`` for a client in ``rack``; None means `bootstrap_servers`.

        Raises UnknownClientRackError if the rack is not one of `client_racks`.
        """
        if rack is not None and rack not in self._rack_listeners:
            known = ", ".join(map(repr, self._client_racks)) or "none"
            raise UnknownClientRackError(
                f"no listener for clients of rack {rack!r}; racks with a listener: {known}. "
                "Name the rack in client_racks"
            )
        self._check_open()
        listener = self._default_listener if rack is None else self._rack_listeners[rack]
        return ",".join(f"127.0.0.1:{node.ports[listener]}" for node in self._nodes.values())

    def kill_broker(self, broker_id: int) -> None:
        """Kill a running or paused broker with SIGKILL; return when its process is gone."""
        node = self._node(broker_id, NodeState.RUNNING, NodeState.PAUSED)
        self._signal(node, signal.SIGKILL)
        node.state = NodeState.DEAD

    def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down in a controlled way; return when its process is gone."""
        node = self._node(broker_id, NodeState.RUNNING)
        self._signal(node, signal.SIGTERM)
        node.state = NodeState.DEAD

    def pause_broker(self, broker_id: int) -> None:
        """Freeze a broker's process: its sockets stay open and do not answer."""
        node = self._node(broker_id, NodeState.RUNNING)
        self._signal(node, signal.SIGSTOP)
        node.state = NodeState.PAUSED

    def resume_broker(self, broker_id: int) -> None:
        """Continue a paused process."""
        node = self._node(broker_id, NodeState.PAUSED)
        self._signal(node, signal.SIGCONT)
        node.state = NodeState.RUNNING

    def start_broker(self, broker_id: int) -> None:
        """Start a dead broker with its data and ports; return when it serves.

        Raises BrokerError, with the end of its log, if it does not start.
        """
        node = self._node(broker_id, NodeState.DEAD)
        try:
            self._start([node])
        except BaseException:
            self._signal(node, signal.SIGKILL)
            node.state = NodeState.DEAD
            raise

    def add_broker(self, rack: str | None) -> int:
        """Start one more broker in ``rack`` and return its id when it serves.

        It gets a listener for each of `client_racks`. A rack that is new with this broker
        has no listener for clients unless ``client_racks`` named it from the start.
        """
        self._check_open()
        broker_id = max(self._nodes) + 1
        for attempt in range(1, START_ATTEMPTS + 1):
            self._nodes[broker_id] = node = self._create_node(broker_id, rack or None)
            try:
                self._start([node])
                break
            except BaseException as error:
                del self._nodes[broker_id]
                self._remove_node(node)
                if not isinstance(error, PortTakenError) or attempt == START_ATTEMPTS:
                    raise
        return broker_id

    def move_leaders(self, leaders: Mapping[TopicPartition, int]) -> None:
        """Make each broker the leader, and the preferred leader, of its partition.

        Only the order of the replicas changes and no data moves, so each new leader must be
        a replica, alive and in sync. Return when every running broker has the new leaders.
        """
        self._check_open()
        for broker_id in set(leaders.values()):
            self._node(broker_id, NodeState.RUNNING)
        if leaders:
            self.await_metadata()
            admin.move_leaders(self._brokers(), leaders)
            self.await_metadata()

    def view(self, topics: Iterable[str] | None = None) -> ClusterView:
        """Return live brokers, replicas and leaders; None: of all topics but internal ones."""
        return self._brokers().view(topics)

    def bytes_out(self) -> dict[tuple[str, int], int]:
        """Return, by (client rack, broker id), the bytes sent since the broker's start.

        Dead and paused brokers are left out.
        """
        return self._bytes(jolokia.BYTES_OUT)

    def bytes_in(self) -> dict[tuple[str, int], int]:
        """Return, by (client rack, broker id), the bytes received since the broker's start.

        Dead and paused brokers are left out.
        """
        return self._bytes(jolokia.BYTES_IN)

    def _bytes(self, attribute: str) -> dict[tuple[str, int], int]:
        self._check_open()
        found = {}
        for node in self._running_nodes():
            by_listener = self._read_metric(
                node, lambda port: jolokia.bytes_by_listener(port, attribute)
            )
            for rack, listener in self._rack_listeners.items():
                found[rack, node.id] = by_listener.get(listener, 0)
        return found

    def await_metadata(self) -> None:
        """Wait until every running broker has applied all metadata changes committed so far.

        Brokers apply a change (a topic, a setting, a leader) one after another. Without this
        call, a broker other than the one that confirmed a change may answer from before it.
        """
        committed = self._brokers().quorum().high_watermark - 1
        deadline = time.monotonic() + START_TIMEOUT
        for node in self._running_nodes():
            while self._read_metric(node, jolokia.applied_offset) < committed:
                if time.monotonic() > deadline:
                    raise self._broker_error(
                        node, f"did not apply metadata offset {committed} in {START_TIMEOUT:g} s"
                    )
                time.sleep(_POLL_INTERVAL)

    def log(self, broker_id: int) -> str:
        """Return everything that the broker has logged, including before restarts."""
        return self._read_log(self._node(broker_id).name)

    def close(self) -> None:
        """End all processes or containers and remove all files; no effect when repeated."""
        if not self._closed:
            self._closed = True
            self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # What a subclass implements. A node's name is that of its process or container.

    @abstractmethod
    def _open(self) -> None:
        """Start the controllers of a new cluster."""

    @abstractmethod
    def _create_node(self, broker_id: int, rack: str | None) -> Node:
        """Return a configured node with ports of its own, not started."""

    @abstractmethod
    def _remove_node(self, node: Node) -> None:
        """End and remove a node that failed to start."""

    @abstractmethod
    def _launch(self, nodes: Sequence[Node]) -> None:
        """Start the nodes' processes, on existing data if any, without waiting for them."""

    @abstractmethod
    def _has_exited(self, node: Node) -> bool:
        """Whether the node's process has exited, or runs but will never serve.

        Raises BrokerError or PortTakenError if the controller has exited.
        """

    @abstractmethod
    def _signal(self, node: Node, number: signal.Signals) -> None:
        """Kill, stop, pause or resume the process, as SIGKILL, SIGTERM, SIGSTOP and SIGCONT do.

        After one of the first two, return when it is gone.
        """

    @abstractmethod
    def _read_log(self, name: str) -> str:
        """Return all log output of a node."""

    # What subclasses share.

    def _start_cluster(
        self,
        directory: str | os.PathLike[str] | None,
        progress: Progress | None,
        on_exit: Sequence[str] = (),
    ) -> None:
        """Start all nodes, again if another process takes one of their ports meanwhile.

        ``on_exit`` is a command that removes what is left of them when the cluster is closed.
        """
        if progress is not None:
            progress(f"starting {len(self._initial_racks)} brokers and a controller")
        for attempt in range(1, START_ATTEMPTS + 1):
            self._processes = Processes(directory, on_exit)
            # Also closes a cluster that is garbage-collected without close().
            self._finalizer = weakref.finalize(self, self._processes.close)
            try:
                self._open()
                self._nodes = {
                    broker_id: self._create_node(broker_id, rack)
                    for broker_id, rack in enumerate(self._initial_racks)
                }
                self._start(list(self._nodes.values()))
                return
            except BaseException as error:
                self._finalizer()
                if not isinstance(error, PortTakenError) or attempt == START_ATTEMPTS:
                    raise

    def _start(self, nodes: Sequence[Node]) -> None:
        """Start nodes and wait until all of them serve."""
        self._launch(nodes)
        deadline = time.monotonic() + START_TIMEOUT
        last_check = 0.0
        waiting = list(nodes)
        while waiting:
            # Asking the Docker engine about seven containers is slower than asking the brokers.
            if exit_check_due := time.monotonic() - last_check > _EXIT_CHECK_INTERVAL:
                last_check = time.monotonic()
            for node in list(waiting):
                # A broker reports the state RUNNING shortly before its ports accept requests.
                serves = jolokia.broker_state(node.agent_port) == jolokia.RUNNING and (
                    admin.is_serving(node.ports[self._default_listener], node.id)
                )
                # The ports of an exited node may now belong to another process.
                if (serves or exit_check_due) and self._has_exited(node):
                    raise self._broker_error(node, "exited during startup")
                if serves:
                    node.state = NodeState.RUNNING
                    waiting.remove(node)
            if waiting and time.monotonic() > deadline:
                raise self._broker_error(waiting[0], f"did not serve within {START_TIMEOUT:g} s")
            time.sleep(_POLL_INTERVAL)
        # Other brokers learn of a new broker, and that an old one has returned, after it serves.
        started = {node.id for node in nodes}
        while missing := started - self.view([]).racks().keys():
            if time.monotonic() > deadline:
                raise ClusterTimeoutError(f"brokers {sorted(missing)} have not joined the cluster")
            time.sleep(_POLL_INTERVAL)
        self.await_metadata()

    def _read_metric(self, node: Node, read: Callable[[int], Metric]) -> Metric:
        try:
            return read(node.agent_port)
        except (OSError, http.client.HTTPException) as error:
            raise BrokerError(
                node.id,
                f"does not answer at its Jolokia port {node.agent_port} ({error!r})",
                self._read_log(node.name),
                "its process may have exited on its own",
            ) from error

    def _broker_error(self, node: Node, problem: str) -> ClusterError:
        log = self._read_log(node.name)
        if "Address already in use" in log:
            return PortTakenError(
                f"node {node.id} {problem}: another process took one of its ports "
                f"{sorted([*node.ports.values(), node.agent_port])}; start the cluster again"
            )
        return BrokerError(node.id, problem, log, "check its configuration and its memory")

    def _node(self, broker_id: int, *states: NodeState) -> Node:
        """Return the broker's node. Raises BrokerStateError if it is in none of ``states``."""
        self._check_open()
        node = self._nodes.get(broker_id)
        if node is None:
            known = ", ".join(map(str, sorted(self._nodes)))
            raise UnknownBrokerError(f"no broker {broker_id}: the brokers are {known}")
        if states and node.state not in states:
            raise BrokerStateError(
                f"broker {broker_id} is {node.state}, but must be {' or '.join(states)}"
            )
        return node

    def _running_nodes(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.state is NodeState.RUNNING]

    def _brokers(self) -> RunningBrokers:
        return RunningBrokers(self._running_ports())

    def _running_ports(self) -> list[int]:
        """Return ports of brokers that answer; a paused broker would accept and not answer."""
        self._check_open()
        if not (nodes := self._running_nodes()):
            raise ClusterError("no broker is running: start one")
        return [node.ports[self._default_listener] for node in nodes]

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterClosedError
