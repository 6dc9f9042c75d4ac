"""Connection settings under librdkafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assignors.connection.oidc import ENDPOINT, METHOD, OidcSettings, TokenCredentials
from assignors.connection.properties import PropertyReader
from assignors.connection.settings import LIBRDKAFKA_ONLY, read_settings
from assignors.connection.tls import PROBE, KeyMaterial, TlsSettings

# librdkafka's name: the names to read it from, and librdkafka's lower and upper limit.
_INTEGERS: dict[str, tuple[tuple[str, ...], int, int]] = {
    "socket.timeout.ms": (("socket.timeout.ms", "request.timeout.ms"), 10, 300_000),
    "socket.connection.setup.timeout.ms": ((), 1000, 2**31 - 1),
    "connections.max.idle.ms": ((), 0, 2**31 - 1),
    "reconnect.backoff.ms": ((), 0, 3_600_000),
    "reconnect.backoff.max.ms": ((), 0, 3_600_000),
    "retry.backoff.ms": ((), 1, 300_000),
    "metadata.max.age.ms": ((), 1, 86_400_000),
    "topic.metadata.refresh.interval.ms": ((), -1, 3_600_000),
    "receive.message.max.bytes": ((), 1000, 2**31 - 1),
    "socket.receive.buffer.bytes": (
        ("socket.receive.buffer.bytes", "receive.buffer.bytes"),
        0,
        100_000_000,
    ),
    "socket.send.buffer.bytes": (
        ("socket.send.buffer.bytes", "send.buffer.bytes"),
        0,
        100_000_000,
    ),
}
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
    return {**config, **_network_settings(reader)}


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


def _network_settings(reader: PropertyReader) -> dict[str, object]:
    config: dict[str, object] = {}
    for name, (names, lower, upper) in _INTEGERS.items():
        if (value := reader.get_int(*(names or (name,)), min_value=-1)) is not None:
            config[name] = min(max(value, lower), upper)
    for name in _BOOLEANS:
        if (flag := reader.get_bool(name)) is not None:
            config[name] = "true" if flag else "false"
    for name in _VERBATIM:
        if (text := reader.get_str(name)) is not None:
            config[name] = text
    return config
