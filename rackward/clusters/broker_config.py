"""What goes into a node's configuration: pure, so that it can be tested without a node.

The settings are a broker's defaults but for three kinds: those that make a small cluster
complete (replication of the internal topics), those that make a test quick without making
it another system (no delay before the first rebalance, few partitions of the internal
topics, fencing after 6 s), and those that make it predictable (leaders move when told to
and topics appear when made). Buffers sized for servers are cut to what seven processes on
a laptop can afford.
"""

from __future__ import annotations

import random
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

from rackward.clusters.errors import ClusterError

INTERNAL = "INTERNAL"
"""The listener for brokers, admin clients, producers and clients without a rack."""

CONTROLLER = "CONTROLLER"
"""The listener of the controller, which the brokers alone use."""

CONTROLLER_ID = 3000
"""Far from the brokers' ids, which count from 0."""

COMMON = {
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    "log.cleaner.threads": "1",
    "num.io.threads": "4",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "auto.create.topics.enable": "false",
}

BROKER = {
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": "6",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}

_VARIABLE = str.maketrans({".": "_", "_": "__", "-": "___"})
_ESCAPES = str.maketrans(
    {**{char: f"\\{char}" for char in "\\=:#!"}, "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
)


@dataclass(frozen=True, slots=True)
class Listener:
    """One door of a broker: where it binds, and the address that it tells clients."""

    name: str
    bind: str
    advertised: str


def rack_listeners(client_racks: Iterable[str]) -> dict[str, str]:
    """Rack to the name of its listener; racks may hold characters that names may not."""
    return {rack: f"RACK_{index}" for index, rack in enumerate(client_racks)}


def client_racks_of(racks: Iterable[str | None]) -> tuple[str, ...]:
    """The distinct racks that are known, in order of appearance."""
    return tuple(dict.fromkeys(rack for rack in racks if rack))


def broker_properties(
    broker_id: int,
    rack: str | None,
    listeners: Iterable[Listener],
    *,
    controller: str,
    brokers: int,
    data: str,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """server.properties of one broker.

    ``controller`` is the address of the controller, ``brokers`` the number of brokers that
    the cluster starts with (it bounds the replication of internal topics), ``data`` the
    folder of the logs. ``extra`` wins over everything.
    """
    doors = list(listeners)
    replication = str(min(3, brokers))
    settings = {
        **COMMON,
        **BROKER,
        "process.roles": "broker",
        "node.id": str(broker_id),
        "controller.quorum.voters": f"{CONTROLLER_ID}@{controller}",
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": ",".join(f"{door.name}://{door.bind}" for door in doors),
        "advertised.listeners": ",".join(f"{door.name}://{door.advertised}" for door in doors),
        "listener.security.protocol.map": _plaintext([CONTROLLER, *(door.name for door in doors)]),
        "log.dirs": data,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": str(min(2, brokers)),
    }
    if rack:
        settings["broker.rack"] = rack
    return {**settings, **(extra or {})}


def controller_properties(
    bind: str,
    address: str,
    *,
    brokers: int,
    data: str,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """server.properties of the controller, which binds to ``bind`` and is known as ``address``."""
    return {
        **COMMON,
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "controller.quorum.voters": f"{CONTROLLER_ID}@{address}",
        "controller.listener.names": CONTROLLER,
        "listeners": f"{CONTROLLER}://{bind}",
        "default.replication.factor": str(min(3, brokers)),
        "listener.security.protocol.map": _plaintext([CONTROLLER]),
        "log.dirs": data,
        **(extra or {}),
    }


def render(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file, ASCII alone, sorted by key."""
    lines = (f"{_escape(key)}={_escape(properties[key])}" for key in sorted(properties))
    return "".join(f"{line}\n" for line in lines)


def environment(properties: Mapping[str, str]) -> dict[str, str]:
    """The same as the ``KAFKA_*`` variables that the apache/kafka image reads.

    >>> environment({"broker.rack": "a", "some_thing-odd": "1"})
    {'KAFKA_BROKER_RACK': 'a', 'KAFKA_SOME__THING___ODD': '1'}
    """
    return {f"KAFKA_{key.translate(_VARIABLE).upper()}": properties[key] for key in properties}


def _plaintext(names: Iterable[str]) -> str:
    return ",".join(f"{name}:PLAINTEXT" for name in names)


def _escape(text: str) -> str:
    """One key or value; escapes whatever would start a comment, a separator or a line."""
    leading = len(text) - len(text.lstrip(" "))
    plain = text.translate(_ESCAPES)
    plain = "\\ " * leading + plain[leading:]
    units = plain.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 127 else f"\\u{unit:04x}" for unit in pairs)


# ---- A broker as the cluster that runs it knows it.


def new_uuid() -> str:
    """A random id as Kafka writes them, never beginning with a dash."""
    return "r" + urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]


class State(StrEnum):
    """What a broker's process does."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(slots=True)
class Node:
    """A broker: ``ports`` are those of 127.0.0.1 by listener, ``agent`` is Jolokia's."""

    id: int
    rack: str | None
    ports: Mapping[str, int]
    agent: int
    state: State = State.DEAD

    @property
    def name(self) -> str:
        """What its process, folder or container is called."""
        return f"broker-{self.id}"


# ---- Free TCP ports on 127.0.0.1 that nobody is likely to take before their owner does.

RANGE = range(15000, 31000)
"""Below the ports that Linux (32768 up) and macOS (49152 up) give to outgoing connections:
a port from there may be some client's own by the time a broker binds, or binds again."""


_next = random.SystemRandom().randrange(len(RANGE))


def free_ports(count: int) -> list[int]:
    """That many distinct ports that can be bound now, and that this process never gave out before.

    A process hands them out in a row from a random start, and goes on where it stopped: a
    port is not given twice while its first owner has yet to bind it, and the rows of two
    processes that start clusters at the same time hardly ever meet.
    """
    global _next
    found: list[int] = []
    with ExitStack() as held:
        for _ in RANGE:
            if len(found) == count:
                break
            port = RANGE[_next]
            _next = (_next + 1) % len(RANGE)
            door = held.enter_context(socket.socket())
            # As Java binds: a port that only lingers after its last owner counts as free.
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                door.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise ClusterError(f"only {len(found)} of {count} ports are free on 127.0.0.1")
    return found
