"""Connection settings as keyword arguments of kafka-python's clients."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from assignors.connection.oidc import CALLBACK, TokenCredentials
from assignors.connection.properties import ConnectionPropertyError, PropertyReader
from assignors.connection.settings import read_settings
from assignors.connection.tls import tls_context

NEVER_MS = 2**31 - 1
_DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

# librdkafka's own names come first: if both are given, Java's has the narrower meaning.
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
    """Return the connection settings in ``properties`` as keyword arguments of kafka-python.

    ``properties`` may have Java's and librdkafka's names. KafkaConsumer, KafkaProducer and
    KafkaAdminClient of kafka-python 3 accept every keyword. Properties that do not concern the
    connection are left out. With TLS the result has an ``ssl_context``. Passwords are strings
    whose ``repr`` is masked. With OAUTHBEARER the result has a ``sasl_oauth_token_provider``, which
    requests tokens when kafka-python needs them.

    Raise ConnectionPropertyError, which names the property.
    """
    settings = read_settings(properties)
    keywords: dict[str, object] = {"security_protocol": settings.protocol}
    if settings.servers:
        keywords["bootstrap_servers"] = list(settings.servers)
    if settings.client_id is not None:
        keywords["client_id"] = settings.client_id
    if settings.tls is not None:
        keywords["ssl_context"] = tls_context(settings.tls)
    if isinstance(settings.credentials, TokenCredentials):
        keywords["sasl_mechanism"] = "OAUTHBEARER"
        keywords["sasl_oauth_token_provider"] = _token_provider(settings.credentials, properties)
    elif settings.credentials is not None:
        keywords["sasl_mechanism"] = settings.credentials.mechanism
        keywords["sasl_plain_username"] = settings.credentials.username
        keywords["sasl_plain_password"] = settings.credentials.password
    return {**keywords, **_network_settings(PropertyReader(properties))}


def _token_provider(credentials: TokenCredentials, properties: Mapping[str, object]) -> object:
    # Not before OAUTHBEARER is used: they import kafka-python, and urllib with much of HTTP.
    from assignors.connection.access_token import TokenCache
    from assignors.connection.token_endpoint import TokenEndpoint
    from assignors.kafka_python.token_provider import TokenProvider

    if credentials.oidc is not None:
        return TokenProvider(TokenCache(TokenEndpoint(credentials.oidc).request).get)
    if not isinstance(provider := properties[CALLBACK], TokenProvider):
        raise ConnectionPropertyError(
            CALLBACK, "only assignors.confluent accepts a callback: set the OIDC properties"
        )
    return provider


def _network_settings(reader: PropertyReader) -> dict[str, object]:
    keywords: dict[str, object] = {}
    for keyword, names in _MILLISECONDS.items():
        if (value := reader.get_int(*names)) is not None:
            keywords[keyword] = value
    for keyword, names in _BUFFERS.items():
        # Java's -1 and librdkafka's 0 mean the operating system's default, as None does here.
        if (value := reader.get_int(*names, min_value=-1)) is not None and value > 0:
            keywords[keyword] = value
    refresh = reader.get_int("topic.metadata.refresh.interval.ms", min_value=-1)
    max_age = refresh if refresh is not None else reader.get_int("metadata.max.age.ms")
    if max_age is not None:
        keywords["metadata_max_age_ms"] = NEVER_MS if max_age < 0 else max_age
    if (max_idle := reader.get_int("connections.max.idle.ms", min_value=-1)) is not None:
        # Java's -1 and librdkafka's 0 mean never.
        keywords["connections_max_idle_ms"] = max_idle if max_idle > 0 else NEVER_MS
    if (max_bytes := reader.get_int("receive.message.max.bytes", min_value=1000)) is not None:
        keywords["receive_message_max_bytes"] = max_bytes
    if (lookup := reader.get_enum("client.dns.lookup", _DNS_LOOKUPS)) is not None:
        keywords["client_dns_lookup"] = lookup
    keepalive = reader.get_bool("socket.keepalive.enable")
    nagle_disabled = reader.get_bool("socket.nagle.disable")
    if keepalive is not None or nagle_disabled is not None:
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nagle_disabled is not False))]
        if keepalive:
            options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
        keywords["socket_options"] = options
    return keywords
