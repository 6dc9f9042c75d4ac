"""Connection settings: which properties there are, and their form for each client library.

`read_settings` reads a set of properties with Java's and librdkafka's names.
`kafka_python_settings` and `librdkafka_settings` translate it for a client.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from assignors.connection.oauth import (
    CALLBACK,
    ENDPOINT,
    METHOD,
    OIDC_PROPERTIES,
    OidcSettings,
    TokenCache,
    TokenCredentials,
    TokenEndpoint,
    TokenProvider,
)
from assignors.connection.properties import ConnectionPropertyError, PropertyReader, server_list
from assignors.connection.sasl import Credentials, read_credentials
from assignors.connection.tls import PROBE, KeyMaterial, TlsSettings, read_tls, tls_context

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVERS = ("bootstrap.servers", "metadata.broker.list")

NETWORK_PROPERTIES = {
    "client.dns.lookup",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "receive.buffer.bytes",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "topic.metadata.refresh.interval.ms",
}

_JAVA_NAMES = {
    "socket.timeout.ms": "request.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}


def _names(name: str) -> tuple[str, ...]:
    """Return the names of one setting, by librdkafka's name of it.

    That comes first: if both are given, Java's has the narrower meaning.
    """
    return (name, _JAVA_NAMES[name]) if name in _JAVA_NAMES else (name,)


LIBRDKAFKA_ONLY = {
    "broker.address.family",
    "broker.address.ttl",
    "log.connection.close",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "retry.backoff.max.ms",
    "socket.max.fails",
    "ssl.curves.list",
    "ssl.providers",
    "ssl.sigalgs.list",
}
"""Properties that librdkafka gets as written, and that have no counterpart in kafka-python."""

SECURITY_PROPERTIES = {
    "enable.ssl.certificate.verification",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
} | OIDC_PROPERTIES

CONNECTION_PROPERTIES = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "client.id"}
    | NETWORK_PROPERTIES
    | LIBRDKAFKA_ONLY
    | SECURITY_PROPERTIES
)
"""Every property that is read in this package. Others are ignored."""

# Client-specific settings, or settings of mechanisms that are refused by name: safe to ignore.
_IGNORED = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.assertion.",
    "sasl.oauthbearer.clock.skew.",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.expected.",
    "sasl.oauthbearer.grant.type",
    "sasl.oauthbearer.jwks.",
    "sasl.oauthbearer.jwt.",
    "sasl.oauthbearer.metadata.authentication.",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "security.providers",
    "ssl.ca.certificate.stores",
    "ssl.engine.",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_SECURITY_PREFIXES = ("ssl.", "sasl.", "security.", "enable.ssl.", "https.", "rackward.oauth.")


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to connect. ``servers`` is empty if none is given.

    ``tls`` and ``credentials`` are None if ``protocol`` does not use them, whatever else the
    properties contain.
    """

    servers: tuple[str, ...]
    client_id: str | None
    protocol: str
    tls: TlsSettings | None
    credentials: Credentials | TokenCredentials | None


def read_settings(properties: Mapping[str, object]) -> ConnectionSettings:
    """Return the settings that the properties give. Raise ConnectionPropertyError."""
    validate_names(properties)
    reader = PropertyReader(properties)
    protocol = reader.get_enum("security.protocol", PROTOCOLS) or "PLAINTEXT"
    name = reader.first_set(*_SERVERS)
    return ConnectionSettings(
        servers=() if name is None else server_list(reader.get_str(name) or "", name),
        client_id=reader.get_str("client.id"),
        protocol=protocol,
        tls=read_tls(reader) if protocol.endswith("SSL") else None,
        credentials=read_credentials(reader) if protocol.startswith("SASL_") else None,
    )


def validate_names(names: Iterable[str]) -> None:
    """Raise ConnectionPropertyError for an unknown name that begins like a security property.

    Elsewhere a misspelt name costs a default. Here it would be a password that is not used, or a
    certificate that is not checked.
    """
    for name in sorted(names):
        if not name.startswith(_SECURITY_PREFIXES) or name in CONNECTION_PROPERTIES:
            continue
        if name.startswith(_IGNORED):
            continue
        similar = get_close_matches(name, sorted(SECURITY_PROPERTIES), n=1)
        hint = f"did you mean {similar[0]}?" if similar else "remove it, or correct the name"
        raise ConnectionPropertyError(name, f"unknown security property: {hint}")


# ---- Connection settings as keyword arguments of kafka-python's clients.

NEVER_MS = 2**31 - 1
_DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

_MILLISECONDS = {
    "request_timeout_ms": "socket.timeout.ms",
    "reconnect_backoff_ms": "reconnect.backoff.ms",
    "reconnect_backoff_max_ms": "reconnect.backoff.max.ms",
    "retry_backoff_ms": "retry.backoff.ms",
}
_BUFFERS = {
    "receive_buffer_bytes": "socket.receive.buffer.bytes",
    "send_buffer_bytes": "socket.send.buffer.bytes",
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
    return {**keywords, **_network_keywords(PropertyReader(properties))}


def _token_provider(credentials: TokenCredentials, properties: Mapping[str, object]) -> object:
    # Not before OAUTHBEARER is used: this is the only need for kafka-python.
    from kafka.net.sasl.oauth import AbstractTokenProvider

    AbstractTokenProvider.register(TokenProvider)
    if credentials.oidc is not None:
        return TokenProvider(TokenCache(TokenEndpoint(credentials.oidc).request).get)
    if not isinstance(provider := properties[CALLBACK], TokenProvider):
        raise ConnectionPropertyError(
            CALLBACK, "only assignors.confluent accepts a callback: set the OIDC properties"
        )
    return provider


def _network_keywords(reader: PropertyReader) -> dict[str, object]:
    keywords: dict[str, object] = {}
    for keyword, name in _MILLISECONDS.items():
        if (value := reader.get_int(*_names(name))) is not None:
            keywords[keyword] = value
    for keyword, name in _BUFFERS.items():
        # Java's -1 and librdkafka's 0 mean the operating system's default, as None does here.
        value = reader.get_int(*_names(name), min_value=-1)
        if value is not None and value > 0:
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


# ---- Connection settings under librdkafka's names.

_LIMITS = {
    "socket.timeout.ms": (10, 300_000),
    "socket.connection.setup.timeout.ms": (1000, 2**31 - 1),
    "connections.max.idle.ms": (0, 2**31 - 1),
    "reconnect.backoff.ms": (0, 3_600_000),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "retry.backoff.ms": (1, 300_000),
    "metadata.max.age.ms": (1, 86_400_000),
    "topic.metadata.refresh.interval.ms": (-1, 3_600_000),
    "receive.message.max.bytes": (1000, 2**31 - 1),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
}
"""librdkafka's integers, with its lower and upper limit of each."""

_BOOLEANS = ("socket.keepalive.enable", "socket.nagle.disable")
_VERBATIM = ("client.dns.lookup", *sorted(LIBRDKAFKA_ONLY))


def librdkafka_settings(properties: Mapping[str, object]) -> dict[str, object]:
    """Return the connection settings in ``properties`` under librdkafka's names.

    ``properties`` may have Java's and librdkafka's names. Properties that do not concern the
    connection are left out. Numbers outside librdkafka's limits become the nearest limit. Of a
    certificate chain given as text librdkafka may send the first certificate only: give a file if
    the chain matters.

    Raise ConnectionPropertyError, which names the property.
    """
    settings = read_settings(properties)
    config: dict[str, object] = {"security.protocol": settings.protocol.lower()}
    if settings.servers:
        config["bootstrap.servers"] = ",".join(settings.servers)
    if settings.client_id is not None:
        config["client.id"] = settings.client_id
    if settings.tls is not None:
        config.update(_tls_settings(settings.tls))
    if isinstance(settings.credentials, TokenCredentials):
        config["sasl.mechanism"] = "OAUTHBEARER"
        if settings.credentials.oidc is not None:
            config.update(_oidc_settings(settings.credentials.oidc))
    elif settings.credentials is not None:
        config["sasl.mechanism"] = settings.credentials.mechanism
        config["sasl.username"] = settings.credentials.username
        config["sasl.password"] = settings.credentials.password
    reader = PropertyReader(properties)
    if reader.get_str("ssl.ca.location") == PROBE and settings.tls is not None:
        config["ssl.ca.location"] = PROBE
    return {**config, **_network_properties(reader)}


def _tls_settings(tls: TlsSettings) -> dict[str, object]:
    config: dict[str, object] = {}
    if not tls.verify:
        config["enable.ssl.certificate.verification"] = "false"
    if not tls.check_host:
        config["ssl.endpoint.identification.algorithm"] = "none"
    if tls.ciphers is not None:
        config["ssl.cipher.suites"] = tls.ciphers
    if tls.crl is not None:
        config["ssl.crl.location"] = _expand(tls.crl)
    if tls.trust is not None:
        config.update(_location_or_pem(tls.trust, "ssl.ca"))
    if tls.certificate is not None and tls.certificate.pkcs12:
        config["ssl.keystore.location"] = _expand(str(tls.certificate.path))
        if tls.certificate.password is not None:
            config["ssl.keystore.password"] = tls.certificate.password
    elif tls.certificate is not None:
        key = tls.key or tls.certificate
        config.update(_location_or_pem(tls.certificate, "ssl.certificate"))
        config.update(_location_or_pem(key, "ssl.key"))
        if key.password is not None:
            config["ssl.key.password"] = key.password
    return config


def _oidc_settings(oidc: OidcSettings) -> dict[str, object]:
    config: dict[str, object] = {
        METHOD: "oidc",
        ENDPOINT: oidc.endpoint,
        "sasl.oauthbearer.client.id": oidc.client_id,
        "sasl.oauthbearer.client.secret": oidc.client_secret,
    }
    if oidc.scope is not None:
        config["sasl.oauthbearer.scope"] = oidc.scope
    if oidc.extensions:
        pairs = (f"{name}={value}" for name, value in oidc.extensions.items())
        config["sasl.oauthbearer.extensions"] = ",".join(pairs)
    if oidc.tls is not None and oidc.tls.trust is not None:
        config.update(_location_or_pem(oidc.tls.trust, "https.ca"))
    return config


def _location_or_pem(material: KeyMaterial, name: str) -> dict[str, object]:
    if material.path is not None:
        return {f"{name}.location": _expand(material.path)}
    return {f"{name}.pem": material.text}


def _expand(path: str) -> str:
    return str(Path(path).expanduser())


def _network_properties(reader: PropertyReader) -> dict[str, object]:
    config: dict[str, object] = {}
    for name, (lower, upper) in _LIMITS.items():
        if (value := reader.get_int(*_names(name), min_value=-1)) is not None:
            config[name] = min(max(value, lower), upper)
    for name in _BOOLEANS:
        if (flag := reader.get_bool(name)) is not None:
            config[name] = "true" if flag else "false"
    for name in _VERBATIM:
        if (text := reader.get_str(name)) is not None:
            config[name] = text
    return config
