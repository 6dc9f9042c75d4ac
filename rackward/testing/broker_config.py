"""Configuration of the nodes of a test cluster: server.properties, listeners and ports.

The settings are Kafka's defaults with three kinds of exceptions: those that a small cluster
needs (replication factors of internal topics), those that make tests fast without changing
semantics (no initial rebalance delay, few partitions of internal topics, fencing after 6 s),
and those that make tests predictable (no automatic leader rebalance, no automatic topic
creation). Buffers and thread pools are reduced so that seven JVMs fit on a laptop.
"""

from __future__ import annotations

import random
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from rackward.testing.errors import ClusterError

INTERNAL = "INTERNAL"
"""The listener for brokers, admin clients, producers and clients without a rack."""

CONTROLLER = "CONTROLLER"
"""The listener of the controller, which only brokers use."""

CONTROLLER_ID = 3000
"""Node id of the controller; broker ids count from 0."""

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


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener of a broker: the address it binds and the address it advertises."""

    name: str
    bind: str
    advertised: str


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
    """Return the server.properties of one broker.

    ``controller`` is the address of the controller, ``brokers`` the initial number of
    brokers (it bounds the replication factor of internal topics), ``data`` the folder of the
    logs. Settings in ``extra`` override all others.
    """
    listeners = list(listeners)
    replication = str(min(3, brokers))
    min_isr = str(min(2, brokers))
    settings = {
        **COMMON,
        **BROKER,
        "process.roles": "broker",
        "node.id": str(broker_id),
        "controller.quorum.voters": f"{CONTROLLER_ID}@{controller}",
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": ",".join(f"{each.name}://{each.bind}" for each in listeners),
        "advertised.listeners": ",".join(f"{each.name}://{each.advertised}" for each in listeners),
        "listener.security.protocol.map": _plaintext(
            [CONTROLLER, *(each.name for each in listeners)]
        ),
        "log.dirs": data,
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": min_isr,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": min_isr,
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
    """Return the server.properties of the controller; brokers reach ``bind`` as ``address``."""
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


def _plaintext(names: Iterable[str]) -> str:
    return ",".join(f"{name}:PLAINTEXT" for name in names)


def format_properties(properties: Mapping[str, str]) -> str:
    """Return the text of a Java properties file, in ASCII, sorted by key."""
    lines = (f"{_escape(key)}={_escape(properties[key])}" for key in sorted(properties))
    return "".join(f"{line}\n" for line in lines)


_ESCAPES = str.maketrans(
    {**{char: f"\\{char}" for char in "\\=:#!"}, "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
)


def _escape(text: str) -> str:
    """Escape a key or a value: comment signs, separators, line ends, leading blanks, non-ASCII."""
    leading = len(text) - len(text.lstrip(" "))
    escaped = text.translate(_ESCAPES)
    escaped = "\\ " * leading + escaped[leading:]
    # Java reads \uXXXX as UTF-16 code units.
    utf16 = escaped.encode("utf-16-be")
    units = (int.from_bytes(utf16[i : i + 2]) for i in range(0, len(utf16), 2))
    return "".join(chr(unit) if unit < 127 else f"\\u{unit:04x}" for unit in units)


_VARIABLE_NAME = str.maketrans({".": "_", "_": "__", "-": "___"})


def environment_variables(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties as the ``KAFKA_*`` variables that the apache/kafka image reads."""
    return {f"KAFKA_{key.translate(_VARIABLE_NAME).upper()}": properties[key] for key in properties}


def new_uuid() -> str:
    """Return a random id in Kafka's format (22 characters of Base64), not starting with a dash."""
    return "r" + urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]


PORT_RANGE = range(15000, 31000)
"""Below the ephemeral ports of Linux (from 32768) and macOS (from 49152): an ephemeral port could
be taken by an outgoing connection before a broker binds it, or while the broker restarts."""

_next_port = random.SystemRandom().randrange(len(PORT_RANGE))


def free_ports(count: int) -> list[int]:
    """Return ``count`` distinct free ports of 127.0.0.1, none of them returned before.

    Ports are tried in sequence from a random start, and each call continues where the previous
    one stopped. So no port is returned again before its first user has bound it, and the
    sequences of two processes that start clusters at the same time rarely overlap.

    Raises ClusterError if fewer ports are free.
    """
    global _next_port
    ports: list[int] = []
    with ExitStack() as sockets:
        for _ in PORT_RANGE:
            if len(ports) == count:
                break
            port = PORT_RANGE[_next_port]
            _next_port = (_next_port + 1) % len(PORT_RANGE)
            candidate = sockets.enter_context(socket.socket())
            # As Java binds: a port in TIME_WAIT counts as free.
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
    if len(ports) < count:
        raise ClusterError(
            f"only {len(ports)} of {count} ports are free in 127.0.0.1:{PORT_RANGE.start}-"
            f"{PORT_RANGE.stop - 1}: end other processes that listen there"
        )
    return ports
