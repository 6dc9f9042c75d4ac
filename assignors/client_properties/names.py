"""The properties that say how to connect."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from assignors.client_properties.errors import ConnectionPropertyError

TIMINGS = {
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
"""What librdkafka is told as it was written, and kafka-python has nothing for."""

SECURITY = {
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
}

CONNECTION_PROPERTIES = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "client.id"}
    | TIMINGS
    | LIBRDKAFKA_ONLY
    | SECURITY
)
"""Every property that is read here; all others are left alone."""

# Settings of a client's making, or for mechanisms that are refused by name: nothing is lost
# by not knowing them.
_ELSEWHERE = (
    "sasl.client.callback.handler.class",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "security.providers",
    "ssl.ca.certificate.stores",
    "ssl.engine.",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
_PREFIXES = ("ssl.", "sasl.", "security.", "enable.ssl.")


def check_names(names: Iterable[str]) -> None:
    """Raise ConnectionPropertyError for a name that looks like security and is nobody's.

    A slip of the pen elsewhere costs a default; here it would be a secret that is not used,
    or a check that is not made.
    """
    for name in sorted(names):
        if not name.startswith(_PREFIXES) or name in CONNECTION_PROPERTIES:
            continue
        if name.startswith(_ELSEWHERE):
            continue
        near = get_close_matches(name, sorted(SECURITY), n=1)
        hint = f"did you mean {near[0]}?" if near else "take it out, or correct it"
        raise ConnectionPropertyError(name, f"no client has such a property: {hint}")
