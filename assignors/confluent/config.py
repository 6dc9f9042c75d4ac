"""confluent's properties, divided between the two clients behind one consumer.

librdkafka gets all properties that it knows, so that it refuses what it always refuses, except:

``partition.assignment.strategy``
    It refuses assignors that are not its own.
``enable.auto.commit``
    Its commits have no generation, and a broker refuses them in a group that has members. They go
    through the membership instead.
``client.rack``
    It would fetch from followers. The rack is the assignor's.
``rackward.max_imbalance``, ``rackward.balance``, ``rackward.weights``, ``rackward.co_partitioned``,
``rackward.refresh``
    Not its properties: the options of the assignors.
``rackward.oauth.allow.http``
    Not its property: allows a token endpoint without TLS.

It keeps ``group.id``, which does not make it a member: only ``subscribe`` would. With a group id,
partitions that the application assigns itself start at the group's committed offsets, and
``committed`` works.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from assignors.confluent.internals import GROUP_METADATA_MAGIC
from assignors.connection import (
    CONNECTION_PROPERTIES,
    ConnectionPropertyError,
    kafka_python_settings,
    librdkafka_settings,
)
from assignors.connection.oauth import ALLOW_HTTP, CALLBACK, ENDPOINT, METHOD
from assignors.leader_moves import validate_refresh
from assignors.model import validate_balance, validate_imbalance
from assignors.rack_discovery import RackSource, resolve_rack
from placement_core import InvalidOptionError

COOPERATIVE = "leader-rack-aware-cooperative-sticky"
RANGE = "leader-rack-aware-range"
STRATEGIES = (COOPERATIVE, RANGE)

STRATEGY_PROPERTY = "partition.assignment.strategy"
OPTIONS = (
    "rackward.max_imbalance",
    "rackward.balance",
    "rackward.weights",
    "rackward.co_partitioned",
    "rackward.refresh",
)
"""The options of the assignors."""

COORDINATOR_QUERY_MS = 10_000
"""Milliseconds between librdkafka's requests for the group coordinator. A member learns from its
heartbeats that the coordinator has moved; librdkafka sends none here."""

_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
_JAVA_ONLY = {
    "receive.buffer.bytes",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.header.urlencode",
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
"""Connection properties whose names librdkafka does not know."""


@dataclass(frozen=True)
class Configuration:
    """The properties of one consumer that are not librdkafka's alone.

    Times are in seconds, or in the unit that a name ends with. ``kafka_python`` are keyword
    arguments of kafka-python's clients, ``options`` those of the assignor.
    """

    kafka_python: Mapping[str, Any]
    strategy: str
    rack: str | None
    options: Mapping[str, Any]
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
    logger: Any

    @property
    def cooperative(self) -> bool:
        """Whether members keep their partitions during a rebalance."""
        return self.strategy == COOPERATIVE


def merge_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the properties in the constructor's arguments; None if confluent refuses these."""
    if len(args) > 1 or (args and not isinstance(args[0], dict)):
        return None
    properties = {**(args[0] if args else {}), **kwargs}
    topic_config = properties.get("default.topic.config")
    if isinstance(topic_config, dict):
        del properties["default.topic.config"]
        properties.update(topic_config)
    return {str(name): value for name, value in properties.items()}


def validate(properties: Mapping[str, Any]) -> None:
    """Raise KafkaException, as confluent does, for properties that this consumer cannot support."""
    _read_strategy(properties)
    _read_options(properties)
    if _get_str(properties, "group.protocol", "classic").lower() == "consumer":
        raise _invalid(
            "with group.protocol=consumer the broker assigns partitions, and it supports none of"
            f" {', '.join(STRATEGIES)}: leave it out, or set it to classic"
        )
    if _get_str(properties, "group.protocol.type", "consumer") != "consumer":
        raise _invalid("group.protocol.type can only be consumer: leave it out")
    if _get_str(properties, "test.mock.num.brokers", "0") != "0":
        raise _invalid(
            "test.mock.num.brokers creates brokers inside librdkafka, which the client that joins"
            " the group cannot reach: leave it out, and set bootstrap.servers"
        )


def librdkafka_config(
    properties: Mapping[str, Any], on_commit: Callable[..., object]
) -> dict[str, Any]:
    """Return the properties for confluent's own constructor. Raise KafkaException."""
    config = {
        name: value
        for name, value in properties.items()
        if name not in ("client.rack", STRATEGY_PROPERTY, ALLOW_HTTP, *OPTIONS)
    }
    if any(name in properties for name in _JAVA_ONLY):
        try:
            connection = librdkafka_settings(properties)
        except ConnectionPropertyError as error:
            raise _invalid(str(error)) from error
        config = {k: v for k, v in config.items() if k not in CONNECTION_PROPERTIES} | connection
    if config.get(ENDPOINT) and CALLBACK not in config:
        config.setdefault(METHOD, "oidc")  # Java has no other use of the endpoint.
    # Any other value is left for librdkafka to refuse.
    if _get_str(config, "enable.auto.commit", "true").lower() in (*_TRUE, *_FALSE):
        config["enable.auto.commit"] = "false"
    config.setdefault("coordinator.query.interval.ms", COORDINATOR_QUERY_MS)
    if callable(config.get("on_commit", on_commit)):
        config["on_commit"] = on_commit
    return config


def collects_statistics(properties: Mapping[str, Any]) -> bool:
    """Return whether librdkafka will call a ``stats_cb``."""
    interval_ms = _get_int(properties, "statistics.interval.ms", 0)
    return callable(properties.get("stats_cb")) and interval_ms > 0


def read_configuration(properties: Mapping[str, Any], environ: Mapping[str, str]) -> Configuration:
    """Return the configuration in properties that librdkafka has accepted.

    If ``client.rack`` is blank or a RackSource, the rack is resolved, from ``environ`` first. Raise
    KafkaException.
    """
    session_ms = _get_int(properties, "session.timeout.ms", 45000)
    heartbeat_ms: float = _get_int(properties, "heartbeat.interval.ms", 3000)
    if heartbeat_ms >= session_ms:
        # librdkafka accepts it, kafka-python does not.
        heartbeat_ms = session_ms / 3
    max_poll_interval_ms = _get_int(properties, "max.poll.interval.ms", 300000)
    instance_id = _get_str(properties, "group.instance.id", "") or None
    try:
        connection = kafka_python_settings(_with_default_ports(properties))
    except ConnectionPropertyError as error:
        raise _invalid(str(error)) from error
    kafka_python = {
        "client_id": "rdkafka",
        **connection,
        "group_id": _get_str(properties, "group.id", ""),
        "group_instance_id": instance_id,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": heartbeat_ms,
        "max_poll_interval_ms": max_poll_interval_ms,
        "enable_auto_commit": False,
        "exclude_internal_topics": False,
        "isolation_level": _get_str(properties, "isolation.level", "read_committed").lower(),
    }
    blacklist = _get_str(properties, "topic.blacklist", "").split(",")
    rack = properties.get("client.rack")
    if not isinstance(rack, RackSource):
        rack = _get_str(properties, "client.rack", "").strip() or None
    return Configuration(
        kafka_python=kafka_python,
        strategy=_read_strategy(properties),
        rack=resolve_rack(rack, environ),
        options=_read_options(properties),
        group_id=_get_str(properties, "group.id", ""),
        instance_id=instance_id,
        auto_commit=_get_bool(properties, "enable.auto.commit", True),
        auto_commit_interval=_get_int(properties, "auto.commit.interval.ms", 5000) / 1000,
        auto_offset_store=_get_bool(properties, "enable.auto.offset.store", True),
        session_timeout=session_ms / 1000,
        max_poll_interval_ms=max_poll_interval_ms,
        ignored_topics=tuple(filter(None, (pattern.strip() for pattern in blacklist))),
        offset_reset=_get_str(properties, "auto.offset.reset", "largest"),
        on_commit=properties.get("on_commit"),
        logger=properties.get("logger"),
    )


def _read_options(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of the assignor. Numbers and booleans may be strings."""
    options = {
        name.removeprefix("rackward."): properties[name] for name in OPTIONS if name in properties
    }
    try:
        validate_refresh(options.get("refresh"))
        if "max_imbalance" in options:
            if isinstance(share := options["max_imbalance"], str):
                with suppress(ValueError):
                    options["max_imbalance"] = float(share)
            validate_imbalance(options["max_imbalance"])
        if "balance" in options:
            validate_balance(options["balance"])
    except InvalidOptionError as error:
        raise _invalid(f"rackward.{error}") from error
    weights = options.get("weights")
    if not (weights is None or callable(weights) or isinstance(weights, Mapping)):
        raise _invalid(
            f"rackward.weights is {weights!r}: give a dictionary from topics to the traffic of"
            " each partition, or a function from a topic to that"
        )
    strategy = _read_strategy(properties)
    for name, owner in (("balance", COOPERATIVE), ("co_partitioned", RANGE)):
        if name in options and strategy != owner:
            raise _invalid(f"rackward.{name} is an option of {owner}: leave it out")
    if "co_partitioned" in options:
        text = str(options["co_partitioned"]).lower()
        if text not in (*_TRUE, *_FALSE):
            raise _invalid(f"rackward.co_partitioned is {text!r}: give True or False")
        options["co_partitioned"] = text in _TRUE
    return options


def _read_strategy(properties: Mapping[str, Any]) -> str:
    text = _get_str(properties, STRATEGY_PROPERTY, "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) == 1 and names[0] in STRATEGIES:
        return names[0]
    raise _invalid(
        f"Failed to create consumer: Unsupported {STRATEGY_PROPERTY}: {text!r}:"
        f" give one of {', '.join(STRATEGIES)}, and no other with it"
    )


def _with_default_ports(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties with librdkafka's default port for servers without one."""
    changed = dict(properties)
    for name in ("bootstrap.servers", "metadata.broker.list"):
        servers = [server.strip() for server in _get_str(properties, name, "").split(",")]
        if any(servers):
            changed[name] = ",".join(
                server if server.rpartition("]")[2].count(":") else f"{server}:9092"
                for server in servers
                if server
            )
    return changed


# ---- Typed access, by librdkafka's rules.

_INTEGER = re.compile(r"\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")


def _get_str(properties: Mapping[str, Any], name: str, default: str) -> str:
    value = properties.get(name)
    return default if value is None else str(value)


def _get_int(properties: Mapping[str, Any], name: str, default: int) -> int:
    # As C's strtol, which librdkafka uses: text after the digits is ignored.
    match = _INTEGER.match(_get_str(properties, name, str(default)))
    if match is None:
        return default
    sign, hexadecimal, octal, decimal = match.groups()
    number = int(hexadecimal or octal or decimal, 16 if hexadecimal else 8 if octal else 10)
    return -number if sign == "-" else number


def _get_bool(properties: Mapping[str, Any], name: str, default: bool) -> bool:
    return _get_str(properties, name, str(default)).lower() in _TRUE


def _invalid(problem: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, problem))


# ---- The group metadata for ``Producer.send_offsets_to_transaction``.


def group_metadata(
    group_id: str, generation: int = -1, member_id: str = "", instance_id: str | None = None
) -> bytes:
    """Return the group metadata of a member, in the format that confluent's producer reads.

    confluent passes the bytes of ``rd_kafka_consumer_group_metadata_write`` to Python and parses
    them in the producer. So the same format can carry the generation and member of a group that
    librdkafka has not joined: the magic, the generation as a C int, then the strings with a NUL
    after each, the instance id after a byte that is 1 if it is missing.
    """
    instance = b"\1" if instance_id is None else b"\0" + instance_id.encode() + b"\0"
    return b"".join(
        (
            GROUP_METADATA_MAGIC,
            struct.pack("=i", generation),
            group_id.encode() + b"\0",
            member_id.encode() + b"\0",
            instance,
        )
    )
