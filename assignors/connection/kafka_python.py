"""The settings in the words of kafka-python."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

from assignors.connection.properties import Reading, check_names, server_list
from assignors.connection.sasl import Credentials, read_credentials
from assignors.connection.tls import Tls, read_tls, tls_context

# ---- Everything that the properties say of a connection, in one value.

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVERS = ("bootstrap.servers", "metadata.broker.list")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """``servers`` is empty where none is given; ``tls`` and ``credentials`` are None where
    ``protocol`` does not ask for them, whatever else the properties say."""

    servers: tuple[str, ...]
    client_id: str | None
    protocol: str
    tls: Tls | None
    credentials: Credentials | None


def read_settings(properties: Mapping[str, object]) -> ConnectionSettings:
    """The settings. Raises ConnectionPropertyError."""
    check_names(properties)
    reading = Reading(properties)
    protocol = reading.choice("security.protocol", PROTOCOLS) or "PLAINTEXT"
    name = reading.name(*_SERVERS)
    return ConnectionSettings(
        servers=() if name is None else server_list(reading.text(name) or "", name),
        client_id=reading.text("client.id"),
        protocol=protocol,
        tls=read_tls(reading) if protocol.endswith("SSL") else None,
        credentials=read_credentials(reading) if protocol.startswith("SASL_") else None,
    )


NEVER_MS = 2**31 - 1
_DNS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

# Of several names the first that is given counts: librdkafka's own, where Java's means less.
_MILLISECONDS = {
    "request_timeout_ms": ("socket.timeout.ms", "request.timeout.ms"),
    "reconnect_backoff_ms": ("reconnect.backoff.ms",),
    "reconnect_backoff_max_ms": ("reconnect.backoff.max.ms",),
    "retry_backoff_ms": ("retry.backoff.ms",),
}
_BUFFERS = {
    "receive_buffer_bytes": ("socket.receive.buffer.bytes", "receive.buffer.bytes"),
    "send_buffer_bytes": ("socket.send.buffer.bytes", "send.buffer.bytes"),
}


def kafka_python_settings(properties: Mapping[str, object]) -> dict[str, object]:
    """The connection settings of ``properties`` as keywords of kafka-python's clients.

    Takes Java's and librdkafka's names; every keyword is known to KafkaConsumer, KafkaProducer
    and KafkaAdminClient of kafka-python 3. What is not a connection setting is left out; with
    TLS an ``ssl_context`` is made. Secrets are `str` that hide from ``repr``.

    Raises ConnectionPropertyError, which names the property.
    """
    settings = read_settings(properties)
    found: dict[str, object] = {"security_protocol": settings.protocol}
    if settings.servers:
        found["bootstrap_servers"] = list(settings.servers)
    if settings.client_id is not None:
        found["client_id"] = settings.client_id
    if settings.tls is not None:
        found["ssl_context"] = tls_context(settings.tls)
    if settings.credentials is not None:
        found["sasl_mechanism"] = settings.credentials.mechanism
        found["sasl_plain_username"] = settings.credentials.username
        found["sasl_plain_password"] = settings.credentials.password
    return {**found, **_tuning(Reading(properties))}


def _tuning(reading: Reading) -> dict[str, object]:
    found: dict[str, object] = {}
    for keyword, names in _MILLISECONDS.items():
        if (value := reading.number(*names)) is not None:
            found[keyword] = value
    for keyword, names in _BUFFERS.items():
        # Java's -1 and librdkafka's 0 leave it to the system, as None does.
        if (value := reading.number(*names, least=-1)) is not None and value > 0:
            found[keyword] = value
    refresh = reading.number("topic.metadata.refresh.interval.ms", least=-1)
    age = refresh if refresh is not None else reading.number("metadata.max.age.ms")
    if age is not None:
        found["metadata_max_age_ms"] = NEVER_MS if age < 0 else age
    if (idle := reading.number("connections.max.idle.ms", least=-1)) is not None:
        # Java's -1 and librdkafka's 0: never.
        found["connections_max_idle_ms"] = idle if idle > 0 else NEVER_MS
    if (largest := reading.number("receive.message.max.bytes", least=1000)) is not None:
        found["receive_message_max_bytes"] = largest
    if (lookup := reading.choice("client.dns.lookup", _DNS)) is not None:
        found["client_dns_lookup"] = lookup
    keepalive, nagle_off = (
        reading.truth("socket.keepalive.enable"),
        reading.truth("socket.nagle.disable"),
    )
    if keepalive is not None or nagle_off is not None:
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nagle_off is not False))]
        if keepalive:
            options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
        found["socket_options"] = options
    return found
