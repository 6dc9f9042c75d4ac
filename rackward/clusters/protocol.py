"""What a test, a demo or a benchmark may do to a Kafka cluster, whatever runs it.

A `Cluster` is a real Kafka that the caller owns: brokers with ``broker.rack``, and one
controller beside them that no call here can hurt, so that killing brokers never costs
the quorum. Two classes implement it, `LocalCluster` (processes) and `DockerCluster`
(containers), and the same tests run on both; code that takes a ``Cluster`` runs on
either.

Life
    The object exists, so the cluster runs: the constructor returns when every broker
    serves, and cleans up after itself where it raises. ``close()`` ends every process or
    container and removes every file; it may be called twice, and ``with`` calls it.
    Nothing is left behind when the block raises, on Ctrl-C, or when the interpreter is
    killed (each class says how far it can promise that). Calls are not thread-safe
    among themselves; several clusters may run at once.

Doors
    Every broker has one listener for the brokers, the admin client, producers and
    clients without a rack (``bootstrap_servers``), and one for clients of each rack
    (``bootstrap(rack)``). Kafka answers a metadata request with the addresses of the
    listener that it came in by, so a consumer that bootstraps by its rack's door uses
    that door at every broker, whatever language it is written in.

Bytes
    Brokers count what they send per listener, and a door stands for a client's rack, so
    ``bytes_out()`` is the traffic matrix from broker to client's rack as the brokers
    themselves saw it. It counts bytes on the socket: fetched batches as they are stored
    (compressed, with their headers), and every other response to those clients. 200 MB
    of payload count as 203 to 204 MB. A counter starts at zero with its broker's process:
    read it before a kill or a stop, and add.

Faults
    ========= =============================== ==========================================
    call      what the broker's process sees  what the cluster sees
    ========= =============================== ==========================================
    kill      SIGKILL                         silence, fenced after the session timeout
    stop      SIGTERM, waits for its end      leaders handed over first, no silence
    pause     SIGSTOP                         a peer whose sockets live and say nothing
    resume    SIGCONT                         the same broker, same process, same counters
    start     a new process on the old data   a broker that catches up, leads nothing yet
    ========= =============================== ==========================================

    The ports of a broker stay the same over kill or stop and start. Leaders do not move
    back by themselves: ``auto.leader.rebalance.enable`` is off, so leaders are where the
    test put them; `move_leaders` brings them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Protocol, Self

from placement_core import ClusterView, TopicPartition


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
