"""confluent's properties, divided between the two clients that serve one consumer.

librdkafka gets all that it knows, so that it refuses what it refuses elsewhere, but for these:

``partition.assignment.strategy``
    It refuses what is not its own.
``enable.auto.commit``
    Its commits would carry no generation, and a broker would take them from nobody in a group
    that has members. They go through the membership instead.
``client.rack``
    It would ask followers for records. The rack is the assignor's.
``rackward.refresh``
    It does not know it: a :class:`~assignors.RefreshPolicy`, when leaders that moved are worth a
    rebalance, or None: never.

It keeps ``group.id``, which makes it no member: only ``subscribe`` would. With it, partitions
taken by ``assign`` start at the group's committed offsets, read as stable ones where
``isolation.level`` is ``read_committed``, and ``committed`` works.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assignors.confluent.errors import invalid
from assignors.connection import (
    CONNECTION_PROPERTIES,
    ConnectionPropertyError,
    kafka_python_settings,
    librdkafka_settings,
)
from assignors.leader_moves import DEFAULT_REFRESH, RefreshPolicy, checked_refresh
from assignors.rack_discovery import RackSource, chosen_rack
from placement_core import InvalidOptionError

COOPERATIVE = "leader-rack-aware-cooperative-sticky"
RANGE = "leader-rack-aware-range"
STRATEGIES = (COOPERATIVE, RANGE)

REFRESH = "rackward.refresh"
"""The one property of ours: a RefreshPolicy, or None to leave leaders that move alone."""

COORDINATOR_MS = 10_000
"""Milliseconds between librdkafka's questions for the group's coordinator: members hear by their
heartbeats that it has moved, and this one sends none."""

_DIGITS = re.compile(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_OF_JAVA = {
    "receive.buffer.bytes",
    "sasl.jaas.config",
    "send.buffer.bytes",
    "ssl.enabled.protocols",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
}
"""Connection properties that librdkafka does not know by these names."""


@dataclass(frozen=True)
class Configuration:
    """One consumer's properties. Times are in seconds where the name does not say otherwise."""

    librdkafka: Mapping[str, object]
    membership: Mapping[str, Any]
    strategy: str
    rack: str | None
    refresh: RefreshPolicy | None
    group_id: str
    instance_id: str | None
    auto_commit: bool
    auto_commit_interval: float
    auto_offset_store: bool
    session_timeout: float
    max_poll_interval_ms: int
    ignored_topics: tuple[str, ...]
    offset_reset: str
    on_commit: Callable[[Any, list[Any]], object] | None

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions through a rebalance."""
        return self.strategy == COOPERATIVE


def merged(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[Any, Any] | None:
    """The properties as confluent's constructor takes them; None where it takes none of it."""
    if len(args) > 1 or (args and not isinstance(args[0], dict)):
        return None
    properties = {**(args[0] if args else {}), **kwargs}
    topic = properties.get("default.topic.config")
    if isinstance(topic, dict):
        del properties["default.topic.config"]
        properties.update(topic)
    return properties


def check_honoured(properties: Mapping[Any, Any]) -> None:
    """Raise KafkaException, as confluent does, for what no consumer of ours can honour."""
    _strategy(properties)
    _refresh(properties)
    if _text(properties, "group.protocol", "classic").lower() == "consumer":
        raise invalid(
            "group.protocol=consumer leaves the assignment to the broker, which knows none of"
            f" {', '.join(STRATEGIES)}: leave it out, or set it to classic"
        )
    if _text(properties, "group.protocol.type", "consumer") != "consumer":
        raise invalid("group.protocol.type can only be consumer: leave it out")
    if _text(properties, "test.mock.num.brokers", "0") != "0":
        raise invalid(
            "test.mock.num.brokers makes brokers that librdkafka alone can reach, and the group"
            " is joined by another client: leave it out, and name servers in bootstrap.servers"
        )


def for_librdkafka(
    properties: Mapping[Any, Any], on_commit: Callable[..., object]
) -> dict[Any, Any]:
    """The properties for confluent's own constructor."""
    told = {k: v for k, v in properties.items() if k not in _KEPT_BACK}
    if any(name in properties for name in _OF_JAVA):
        try:
            ours = librdkafka_settings(_named(properties))
        except ConnectionPropertyError as problem:
            raise invalid(str(problem)) from problem
        told = {k: v for k, v in told.items() if k not in CONNECTION_PROPERTIES} | ours
    # A value that librdkafka does not take for true or false is left for it to refuse.
    if _text(told, "enable.auto.commit", "true").lower() in (*_TRUE, *_FALSE):
        told["enable.auto.commit"] = "false"
    told.setdefault("coordinator.query.interval.ms", COORDINATOR_MS)
    if callable(told.get("on_commit", on_commit)):
        told["on_commit"] = on_commit
    return told


def configuration(properties: Mapping[Any, Any], environ: Mapping[str, str]) -> Configuration:
    """All that is not librdkafka's, of properties that librdkafka has taken.

    Where ``client.rack`` says no rack, it is looked for, beginning with ``environ``; a RackSource
    there is asked instead. Raises KafkaException.
    """
    named = _named(properties)
    session, beat = (
        _number(named, "session.timeout.ms", 45000),
        _number(named, "heartbeat.interval.ms", 3000),
    )
    if beat >= session:
        raise invalid(
            f"heartbeat.interval.ms={beat} must be less than session.timeout.ms={session}"
        )
    longest = _number(named, "max.poll.interval.ms", 300000)
    instance = _text(named, "group.instance.id", "") or None
    try:
        connection = kafka_python_settings(_with_ports(named))
    except ConnectionPropertyError as problem:
        raise invalid(str(problem)) from problem
    membership = {
        "client_id": "rdkafka",
        **connection,
        "group_id": _text(named, "group.id", ""),
        "group_instance_id": instance,
        "session_timeout_ms": session,
        "heartbeat_interval_ms": beat,
        "max_poll_interval_ms": longest,
        "enable_auto_commit": False,
        "exclude_internal_topics": False,
        "isolation_level": _text(named, "isolation.level", "read_committed").lower(),
    }
    blacklist = _text(named, "topic.blacklist", "")
    return Configuration(
        librdkafka=named,
        membership=membership,
        strategy=_strategy(named),
        rack=chosen_rack(_rack(named.get("client.rack")), environ),
        refresh=_refresh(named),
        group_id=_text(named, "group.id", ""),
        instance_id=instance,
        auto_commit=_truth(named, "enable.auto.commit", True),
        auto_commit_interval=_number(named, "auto.commit.interval.ms", 5000) / 1000,
        auto_offset_store=_truth(named, "enable.auto.offset.store", True),
        session_timeout=session / 1000,
        max_poll_interval_ms=longest,
        ignored_topics=tuple(filter(None, (each.strip() for each in blacklist.split(",")))),
        offset_reset=_text(named, "auto.offset.reset", "largest"),
        on_commit=named.get("on_commit"),
    )


_KEPT_BACK = {"client.rack", "partition.assignment.strategy", REFRESH}


def _refresh(properties: Mapping[Any, Any]) -> RefreshPolicy | None:
    try:
        return checked_refresh(properties.get(REFRESH, DEFAULT_REFRESH))
    except InvalidOptionError as problem:
        raise invalid(f"{REFRESH}: {problem}") from problem


def _strategy(properties: Mapping[Any, Any]) -> str:
    told = _text(properties, "partition.assignment.strategy", "")
    names = [name.strip() for name in told.split(",") if name.strip()]
    if len(names) == 1 and names[0] in STRATEGIES:
        return names[0]
    raise invalid(
        f"Failed to create consumer: Unsupported partition.assignment.strategy: {told!r}:"
        f" give one of {', '.join(STRATEGIES)}, and no other beside it"
    )


def _rack(told: object) -> str | RackSource | None:
    return (
        told if isinstance(told, RackSource) else str("" if told is None else told).strip() or None
    )


def _named(properties: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in properties.items()}


def _text(properties: Mapping[Any, Any], name: str, default: str) -> str:
    value = properties.get(name)
    return default if value is None else str(value)


def _number(properties: Mapping[str, Any], name: str, default: int) -> int:
    # As C's strtol reads it, which librdkafka has found well: what follows the digits is nothing.
    found = _DIGITS.match(_text(properties, name, str(default)))
    if found is None:
        return default
    sign, hexadecimal, octal, decimal = found.groups()
    number = int(hexadecimal or octal or decimal, 16 if hexadecimal else 8 if octal else 10)
    return -number if sign == "-" else number


def _truth(properties: Mapping[str, Any], name: str, default: bool) -> bool:
    return _text(properties, name, str(default)).lower() in _TRUE


def _with_ports(properties: Mapping[str, Any]) -> dict[str, Any]:
    """With librdkafka's port for servers that are named without one."""
    found = dict(properties)
    for name in ("bootstrap.servers", "metadata.broker.list"):
        servers = [each.strip() for each in _text(properties, name, "").split(",")]
        if any(servers):
            found[name] = ",".join(
                server if server.rpartition("]")[2].count(":") else f"{server}:9092"
                for server in servers
                if server
            )
    return found


# ---- The group's metadata as ``Producer.send_offsets_to_transaction`` takes it.
#
# confluent hands ``rd_kafka_consumer_group_metadata_write``'s bytes to Python and reads them back
# in the producer, so bytes of the same form carry the generation and the member of a group that
# librdkafka never joined. The form is librdkafka's "CGMDv2:": the generation as a C int, then the
# strings with a NUL after each, the instance id behind a byte that says whether it is missing.

MAGIC = b"CGMDv2:"
NO_GENERATION = -1


def group_metadata(
    group_id: str,
    generation: int = NO_GENERATION,
    member_id: str = "",
    instance_id: str | None = None,
) -> bytes:
    """The bytes for a member of ``group_id``."""
    instance = b"\1" if instance_id is None else b"\0" + instance_id.encode() + b"\0"
    return b"".join(
        (
            MAGIC,
            struct.pack("=i", generation),
            group_id.encode() + b"\0",
            member_id.encode() + b"\0",
            instance,
        )
    )
