"""What a cluster of processes and a cluster of containers have in common.

A subclass knows how to start, end and freeze one node; everything that the Protocol says
about states, doors, bytes and metadata is here once.
"""

from __future__ import annotations

import http.client
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Protocol, Self, TypeVar

from placement_core import ClusterView, InvalidOptionError, TopicPartition
from rackward.clusters import admin, jolokia
from rackward.clusters.broker_config import Node, State, client_racks_of, rack_listeners
from rackward.clusters.errors import (
    BrokerError,
    BrokerStateError,
    ClusterClosedError,
    ClusterError,
    PortTakenError,
    UnknownBrokerError,
    UnknownClientRackError,
)

START_SECONDS = 180.0
"""How long brokers may take to serve: seconds on an idle machine, minutes on a busy one."""
MOVE_SECONDS = 90.0
POLL_SECONDS = 0.03
CHECK_SECONDS = 0.5
ATTEMPTS = 3
"""How often a start is tried over when another process takes a port meanwhile."""

Metric = TypeVar("Metric")


class BaseCluster(ABC):
    """The Protocol's calls over a subclass's primitives."""

    def __init__(self, racks: Sequence[str | None], client_racks: Sequence[str] | None) -> None:
        if not racks:
            raise InvalidOptionError("racks is empty: a cluster needs at least one broker")
        self._wanted = [rack or None for rack in racks]
        self._client_racks = client_racks_of(self._wanted if client_racks is None else client_racks)
        self._listeners = rack_listeners(self._client_racks)
        self._nodes: dict[int, Node] = {}
        self._closed = False

    # What a subclass provides.

    @property
    @abstractmethod
    def _door(self) -> str:
        """The listener that `bootstrap_servers` names."""

    @abstractmethod
    def _launch(self, node: Node) -> None:
        """Start the node's process, on its old data where it has any; does not wait."""

    def _launch_all(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self._launch(node)

    @abstractmethod
    def _ended(self, node: Node) -> bool:
        """Whether the node's process has ended, or will never serve."""

    @abstractmethod
    def _kill(self, node: Node) -> None:
        """End it at once; returns when it is gone."""

    @abstractmethod
    def _stop(self, node: Node) -> None:
        """End it in order; returns when it is gone."""

    @abstractmethod
    def _freeze(self, node: Node) -> None: ...

    @abstractmethod
    def _thaw(self, node: Node) -> None: ...

    @abstractmethod
    def _new_node(self, broker_id: int, rack: str | None) -> Node:
        """A node with ports of its own, not started."""

    @abstractmethod
    def _discard(self, node: Node) -> None:
        """End and remove a node that did not start."""

    @abstractmethod
    def _read_log(self, node: Node) -> str: ...

    @abstractmethod
    def _dismantle(self) -> None:
        """End and remove everything."""

    # What the Protocol promises.

    @property
    def racks(self) -> Mapping[int, str | None]:
        """Every broker's id to its rack, dead ones too."""
        return MappingProxyType({node.id: node.rack for node in self._nodes.values()})

    @property
    def client_racks(self) -> tuple[str, ...]:
        """The racks whose clients have a listener."""
        return self._client_racks

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` for admin, producers and clients without a rack."""
        return self.bootstrap(None)

    def bootstrap(self, rack: str | None) -> str:
        """``host:port,...`` for a client that stands in ``rack``."""
        if rack is not None and rack not in self._listeners:
            raise UnknownClientRackError(rack, self._client_racks)
        self._check_open()
        door = self._door if rack is None else self._listeners[rack]
        return ",".join(f"127.0.0.1:{node.ports[door]}" for node in self._nodes.values())

    def kill_broker(self, broker_id: int) -> None:
        """SIGKILL; returns when the process is gone."""
        node = self._node(broker_id, State.RUNNING, State.PAUSED)
        self._kill(node)
        node.state = State.DEAD

    def stop_broker(self, broker_id: int) -> None:
        """A controlled shutdown; returns when the process is gone."""
        node = self._node(broker_id, State.RUNNING)
        self._stop(node)
        node.state = State.DEAD

    def pause_broker(self, broker_id: int) -> None:
        """Freeze the process."""
        node = self._node(broker_id, State.RUNNING)
        self._freeze(node)
        node.state = State.PAUSED

    def resume_broker(self, broker_id: int) -> None:
        """Let a paused process go on."""
        node = self._node(broker_id, State.PAUSED)
        self._thaw(node)
        node.state = State.RUNNING

    def start_broker(self, broker_id: int) -> None:
        """Start a dead broker on its old data and ports; returns when it serves."""
        node = self._node(broker_id, State.DEAD)
        try:
            self._start([node])
        except BaseException:
            self._kill(node)
            node.state = State.DEAD
            raise

    def add_broker(self, rack: str | None) -> int:
        """Start one more broker; returns its id when it serves."""
        self._check_open()
        broker_id = max(self._nodes) + 1
        for attempt in range(1, ATTEMPTS + 1):
            self._nodes[broker_id] = node = self._new_node(broker_id, rack or None)
            try:
                self._start([node])
                break
            except BaseException as error:
                del self._nodes[broker_id]
                self._discard(node)
                if not isinstance(error, PortTakenError) or attempt == ATTEMPTS:
                    raise
        return broker_id

    def move_leaders(self, leaders: Mapping[TopicPartition, int]) -> None:
        """Make each broker the leader, and the preferred leader, of its partition."""
        self._check_open()
        for broker_id in set(leaders.values()):
            self._node(broker_id, State.RUNNING)
        if leaders:
            admin.move_leaders(self._doors(), leaders, MOVE_SECONDS)

    def view(self, topics: Iterable[str] | None = None) -> ClusterView:
        """Brokers that are up, replicas and leaders as of now."""
        return admin.read_view(self._doors(), topics)

    def bytes_out(self) -> dict[tuple[str, int], int]:
        """(client's rack, broker id) to bytes sent since that broker's start."""
        self._check_open()
        sent = {}
        for node in self._running():
            counted = self._metric(node, jolokia.bytes_out)
            for rack, listener in self._listeners.items():
                sent[rack, node.id] = counted.get(listener, 0)
        return sent

    def await_metadata(self) -> None:
        """Return when each broker that runs heeds all that has been committed up to now."""
        committed = admin.committed_offset(self._doors())
        deadline = time.monotonic() + START_SECONDS
        for node in self._running():
            while self._metric(node, jolokia.applied_offset) < committed:
                if time.monotonic() > deadline:
                    raise self._failure(node, f"had not caught up after {START_SECONDS:g} s")
                time.sleep(POLL_SECONDS)

    def log(self, broker_id: int) -> str:
        """Everything that the broker has logged so far."""
        return self._read_log(self._node(broker_id))

    def close(self) -> None:
        """End everything, remove everything; again: nothing."""
        if not self._closed:
            self._closed = True
            self._dismantle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What subclasses share.

    def _start(self, nodes: Sequence[Node]) -> None:
        """Start nodes at once and wait until each serves."""
        self._launch_all(nodes)
        deadline = time.monotonic() + START_SECONDS
        checked = 0.0
        waiting = list(nodes)
        while waiting:
            # Asking an engine about seven containers costs more than asking the brokers.
            if check := time.monotonic() - checked > CHECK_SECONDS:
                checked = time.monotonic()
            for node in list(waiting):
                # It calls itself running a moment before it opens its doors.
                serves = jolokia.broker_state(node.agent) == jolokia.RUNNING and admin.answers(
                    node.ports[self._door], node.id
                )
                # Whoever answers at a dead node's port is somebody else.
                if (serves or check) and self._ended(node):
                    raise self._failure(node, "ended while starting")
                if serves:
                    node.state = State.RUNNING
                    waiting.remove(node)
            if waiting and time.monotonic() > deadline:
                raise self._failure(waiting[0], f"did not serve within {START_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        # A broker serves before others have heard of it, or of the end of its former life.
        self.await_metadata()
        admin.wait_for_brokers(self._doors(), {node.id for node in nodes}, START_SECONDS)

    def _metric(self, node: Node, read: Callable[[int], Metric]) -> Metric:
        try:
            return read(node.agent)
        except (OSError, http.client.HTTPException) as error:
            raise BrokerError(
                node.id,
                f"does not tell its metrics ({error!r})",
                self._read_log(node),
                "has it died by itself?",
            ) from error

    def _failure(self, node: Node, what: str) -> ClusterError:
        log = self._read_log(node)
        if "Address already in use" in log:
            return PortTakenError(
                f"node {node.id} {what}: one of the ports {sorted(node.ports.values())} or "
                f"{node.agent} was taken by another process; start again"
            )
        return BrokerError(node.id, what, log, "see what its configuration or memory lacks")

    def _node(self, broker_id: int, *states: State) -> Node:
        self._check_open()
        node = self._nodes.get(broker_id)
        if node is None:
            raise UnknownBrokerError(broker_id, sorted(self._nodes))
        if states and node.state not in states:
            raise BrokerStateError(broker_id, node.state, " or ".join(states))
        return node

    def _running(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.state is State.RUNNING]

    def _doors(self) -> list[int]:
        """Ports of brokers that answer: a frozen one would take the call and say nothing."""
        self._check_open()
        if not (running := self._running()):
            raise ClusterError("no broker is running: start one")
        return [node.ports[self._door] for node in running]

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterClosedError


# ---- What a test, a demo or a benchmark may do to a Kafka cluster, whatever runs it.
#
# A `Cluster` is a real Kafka that the caller owns: brokers with ``broker.rack``, and one
# controller beside them that no call here can hurt, so that killing brokers never costs
# the quorum. Two classes implement it, `LocalCluster` (processes) and `DockerCluster`
# (containers), and the same tests run on both; code that takes a ``Cluster`` runs on
# either.
#
# Life
#     The object exists, so the cluster runs: the constructor returns when every broker
#     serves, and cleans up after itself where it raises. ``close()`` ends every process or
#     container and removes every file; it may be called twice, and ``with`` calls it.
#     Nothing is left behind when the block raises, on Ctrl-C, or when the interpreter is
#     killed (each class says how far it can promise that). Calls are not thread-safe
#     among themselves; several clusters may run at once.
#
# Doors
#     Every broker has one listener for the brokers, the admin client, producers and
#     clients without a rack (``bootstrap_servers``), and one for clients of each rack
#     (``bootstrap(rack)``). Kafka answers a metadata request with the addresses of the
#     listener that it came in by, so a consumer that bootstraps by its rack's door uses
#     that door at every broker, whatever language it is written in.
#
# Bytes
#     Brokers count what they send per listener, and a door stands for a client's rack, so
#     ``bytes_out()`` is the traffic matrix from broker to client's rack as the brokers
#     themselves saw it. It counts bytes on the socket: fetched batches as they are stored
#     (compressed, with their headers), and every other response to those clients. 200 MB
#     of payload count as 203 to 204 MB. A counter starts at zero with its broker's process:
#     read it before a kill or a stop, and add.
#
# Faults
#     ========= =============================== ==========================================
#     call      what the broker's process sees  what the cluster sees
#     ========= =============================== ==========================================
#     kill      SIGKILL                         silence, fenced after the session timeout
#     stop      SIGTERM, waits for its end      leaders handed over first, no silence
#     pause     SIGSTOP                         a peer whose sockets live and say nothing
#     resume    SIGCONT                         the same broker, same process, same counters
#     start     a new process on the old data   a broker that catches up, leads nothing yet
#     ========= =============================== ==========================================
#
#     The ports of a broker stay the same over kill or stop and start. Leaders do not move
#     back by themselves: ``auto.leader.rebalance.enable`` is off, so leaders are where the
#     test put them; `move_leaders` brings them back.


class Cluster(Protocol):
    """A Kafka cluster that the caller owns; see the module's text for the rules."""

    @property
    def racks(self) -> Mapping[int, str | None]:
        """Every broker's id to its ``broker.rack`` (None: it does not say), dead ones too."""

    @property
    def client_racks(self) -> tuple[str, ...]:
        """The racks whose clients have a listener, so that `bytes_out` tells them apart."""

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,...`` for admin, producers and clients without a rack: not counted."""

    def bootstrap(self, rack: str | None) -> str:
        """``host:port,...`` for a client that stands in ``rack``; None: `bootstrap_servers`.

        Raises UnknownClientRackError where the rack is not one of `client_racks`.
        """

    def kill_broker(self, broker_id: int) -> None:
        """SIGKILL; returns when the process is gone. A paused broker may be killed."""

    def stop_broker(self, broker_id: int) -> None:
        """A controlled shutdown; returns when the process is gone."""

    def pause_broker(self, broker_id: int) -> None:
        """Freeze the process: its sockets stay open and it says nothing."""

    def resume_broker(self, broker_id: int) -> None:
        """Let a paused process go on."""

    def start_broker(self, broker_id: int) -> None:
        """Start a killed or stopped broker on its old data and ports; returns when it serves.

        Raises BrokerError, with the end of its log, where it does not come up.
        """

    def add_broker(self, rack: str | None) -> int:
        """Start one more broker in ``rack``; returns its id when it serves.

        It gets a door for each of `client_racks`. A rack that is new with this broker
        has no clients' door: name it in ``client_racks`` when making the cluster.
        """

    def move_leaders(self, leaders: Mapping[TopicPartition, int]) -> None:
        """Make each broker the leader, and the preferred leader, of its partition.

        Only the order of the replicas changes, no data moves; so each must be one of its
        partition's replicas, alive and in sync. Returns when the cluster's metadata
        shows the new leaders.
        """

    def view(self, topics: Iterable[str] | None = None) -> ClusterView:
        """Brokers that are up, replicas and leaders as of now; None: all but internal topics."""

    def await_metadata(self) -> None:
        """Return when each broker that runs knows all that the controller has acknowledged so far.

        Brokers hear of a change (a topic, a setting, a leader) one after another, and whoever
        asks another broker than the one that has confirmed it may be told of the time before.
        """

    def bytes_out(self) -> dict[tuple[str, int], int]:
        """(client's rack, broker id) to the bytes sent to them since that broker's start.

        Brokers that do not run, or are paused, are left out.
        """

    def log(self, broker_id: int) -> str:
        """Everything that the broker has logged so far, its earlier lives included."""

    def close(self) -> None:
        """End everything, remove everything; again: nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
