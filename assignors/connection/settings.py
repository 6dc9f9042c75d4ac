"""Which connection properties there are, and what a set of them means for any client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from assignors.connection.oidc import OIDC_PROPERTIES, TokenCredentials
from assignors.connection.properties import ConnectionPropertyError, PropertyReader, server_list
from assignors.connection.sasl import Credentials, read_credentials
from assignors.connection.tls import TlsSettings, read_tls

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
