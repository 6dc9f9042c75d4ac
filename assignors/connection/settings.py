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
from typing import NamedTuple

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

MAX_INT = 2**31 - 1


class Number(NamedTuple):
    """An integer property, given by librdkafka's name.

    limits
        librdkafka's lower and upper limit.
    keyword, minimum
        The keyword argument of kafka-python, if it has one, and the smallest value that it takes.
    java
        Java's name, if that is another. If both are given, Java's has the narrower meaning.
    """

    limits: tuple[int, int]
    keyword: str | None = None
    minimum: int = 0
    java: str | None = None


_NUMBERS = {
    "socket.timeout.ms": Number((10, 300_000), "request_timeout_ms", java="request.timeout.ms"),
    "socket.connection.setup.timeout.ms": Number((1000, MAX_INT)),
    "connections.max.idle.ms": Number((0, MAX_INT), "connections_max_idle_ms", -1),
    "reconnect.backoff.ms": Number((0, 3_600_000), "reconnect_backoff_ms"),
    "reconnect.backoff.max.ms": Number((0, 3_600_000), "reconnect_backoff_max_ms"),
    "retry.backoff.ms": Number((1, 300_000), "retry_backoff_ms"),
    "metadata.max.age.ms": Number((1, 86_400_000), "metadata_max_age_ms"),
    # Replaces the one before.
    "topic.metadata.refresh.interval.ms": Number((-1, 3_600_000), "metadata_max_age_ms", -1),
    "receive.message.max.bytes": Number((1000, MAX_INT), "receive_message_max_bytes", 1000),
    "socket.receive.buffer.bytes": Number(
        (0, 100_000_000), "receive_buffer_bytes", -1, "receive.buffer.bytes"
    ),
    "socket.send.buffer.bytes": Number(
        (0, 100_000_000), "send_buffer_bytes", -1, "send.buffer.bytes"
    ),
}
_BOOLEANS = ("socket.keepalive.enable", "socket.nagle.disable")

NETWORK_PROPERTIES = {
    "client.dns.lookup",
    *_BOOLEANS,
    *_NUMBERS,
    *(number.java for number in _NUMBERS.values() if number.java),
}

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

_DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")


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
    keywords: dict[str, object] = {
        "security_protocol": settings.protocol,
        "bootstrap_servers": list(settings.servers) or None,
        "client_id": settings.client_id,
        "ssl_context": settings.tls and tls_context(settings.tls),
    }
    if isinstance(settings.credentials, TokenCredentials):
        keywords["sasl_mechanism"] = "OAUTHBEARER"
        keywords["sasl_oauth_token_provider"] = _token_provider(settings.credentials, properties)
    elif settings.credentials is not None:
        keywords["sasl_mechanism"] = settings.credentials.mechanism
        keywords["sasl_plain_username"] = settings.credentials.username
        keywords["sasl_plain_password"] = settings.credentials.password
    return _given(keywords | _network_keywords(PropertyReader(properties)))


def _given(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}


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
    numbers: dict[str, int] = {}
    for name, number in _NUMBERS.items():
        if number.keyword is None:
            continue
        value = reader.get_int(name, number.java or name, min_value=number.minimum)
        if value is not None:
            numbers[number.keyword] = value
    for keyword in ("receive_buffer_bytes", "send_buffer_bytes"):
        # Java's -1 and librdkafka's 0 mean the operating system's default.
        if numbers.get(keyword, 1) <= 0:
            del numbers[keyword]
    # Java's -1 means never; for idle connections, so does librdkafka's 0.
    if numbers.get("metadata_max_age_ms", 0) < 0:
        numbers["metadata_max_age_ms"] = MAX_INT
    if numbers.get("connections_max_idle_ms", 1) <= 0:
        numbers["connections_max_idle_ms"] = MAX_INT
    keywords: dict[str, object] = {
        **numbers,
        "client_dns_lookup": reader.get_enum("client.dns.lookup", _DNS_LOOKUPS),
    }
    keepalive = reader.get_bool("socket.keepalive.enable")
    nagle_disabled = reader.get_bool("socket.nagle.disable")
    if keepalive is not None or nagle_disabled is not None:
        options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(nagle_disabled is not False))]
        if keepalive:
            options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
        keywords["socket_options"] = options
    return keywords


# ---- Connection settings under librdkafka's names.

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
    config: dict[str, object] = {
        "security.protocol": settings.protocol.lower(),
        "bootstrap.servers": ",".join(settings.servers) or None,
        "client.id": settings.client_id,
    }
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
    for name, number in _NUMBERS.items():
        if (value := reader.get_int(name, number.java or name, min_value=-1)) is not None:
            lower, upper = number.limits
            config[name] = min(max(value, lower), upper)
    for name in _BOOLEANS:
        if (flag := reader.get_bool(name)) is not None:
            config[name] = "true" if flag else "false"
    return _given(config | {name: reader.get_str(name) for name in _VERBATIM})


def _tls_settings(tls: TlsSettings) -> dict[str, object]:
    config: dict[str, object] = {
        "enable.ssl.certificate.verification": None if tls.verify else "false",
        "ssl.endpoint.identification.algorithm": None if tls.check_host else "none",
        "ssl.cipher.suites": tls.ciphers,
        "ssl.crl.location": tls.crl and _expand(tls.crl),
    }
    if tls.trust is not None:
        config.update(_location_or_pem(tls.trust, "ssl.ca"))
    if tls.certificate is not None and tls.certificate.pkcs12:
        config["ssl.keystore.location"] = _expand(str(tls.certificate.path))
        config["ssl.keystore.password"] = tls.certificate.password
    elif tls.certificate is not None:
        key = tls.key or tls.certificate
        config.update(_location_or_pem(tls.certificate, "ssl.certificate"))
        config.update(_location_or_pem(key, "ssl.key"))
        config["ssl.key.password"] = key.password
    return config


def _oidc_settings(oidc: OidcSettings) -> dict[str, object]:
    pairs = (f"{name}={value}" for name, value in oidc.extensions.items())
    config: dict[str, object] = {
        METHOD: "oidc",
        ENDPOINT: oidc.endpoint,
        "sasl.oauthbearer.client.id": oidc.client_id,
        "sasl.oauthbearer.client.secret": oidc.client_secret,
        "sasl.oauthbearer.scope": oidc.scope,
        "sasl.oauthbearer.extensions": ",".join(pairs) or None,
    }
    if oidc.tls is not None and oidc.tls.trust is not None:
        config.update(_location_or_pem(oidc.tls.trust, "https.ca"))
    return config


def _location_or_pem(material: KeyMaterial, name: str) -> dict[str, object]:
    if material.path is not None:
        return {f"{name}.location": _expand(material.path)}
    return {f"{name}.pem": material.text}


def _expand(path: str) -> str:
    return str(Path(path).expanduser())
