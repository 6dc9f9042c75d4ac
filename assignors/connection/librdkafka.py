"""The settings in the words of librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assignors.connection.kafka_python import read_settings
from assignors.connection.properties import LIBRDKAFKA_ONLY, Reading
from assignors.connection.tls import PROBE, Source, Tls

# librdkafka's name, the names it is read from, and what librdkafka takes, at least and at most.
_NUMBERS = (
    ("socket.timeout.ms", ("socket.timeout.ms", "request.timeout.ms"), 10, 300_000),
    ("socket.connection.setup.timeout.ms", (), 1000, 2**31 - 1),
    ("connections.max.idle.ms", (), 0, 2**31 - 1),
    ("reconnect.backoff.ms", (), 0, 3_600_000),
    ("reconnect.backoff.max.ms", (), 0, 3_600_000),
    ("retry.backoff.ms", (), 1, 300_000),
    ("metadata.max.age.ms", (), 1, 86_400_000),
    ("topic.metadata.refresh.interval.ms", (), -1, 3_600_000),
    ("receive.message.max.bytes", (), 1000, 2**31 - 1),
    (
        "socket.receive.buffer.bytes",
        ("socket.receive.buffer.bytes", "receive.buffer.bytes"),
        0,
        100_000_000,
    ),
    ("socket.send.buffer.bytes", ("socket.send.buffer.bytes", "send.buffer.bytes"), 0, 100_000_000),
)
_TRUTHS = ("socket.keepalive.enable", "socket.nagle.disable")
_VERBATIM = ("client.dns.lookup", *sorted(LIBRDKAFKA_ONLY))


def librdkafka_settings(properties: Mapping[str, object]) -> dict[str, object]:
    """The connection settings of ``properties`` under librdkafka's names.

    Takes Java's and librdkafka's names, and leaves out what is not a connection setting.
    Numbers that Java allows and librdkafka does not come as near as it lets them. Of a
    certificate chain given as text, librdkafka may send the first certificate only: name a
    file where the chain matters.

    Raises ConnectionPropertyError, which names the property.
    """
    settings = read_settings(properties)
    found: dict[str, object] = {"security.protocol": settings.protocol.lower()}
    if settings.servers:
        found["bootstrap.servers"] = ",".join(settings.servers)
    if settings.client_id is not None:
        found["client.id"] = settings.client_id
    if settings.tls is not None:
        found.update(_tls(settings.tls))
    if settings.credentials is not None:
        found["sasl.mechanism"] = settings.credentials.mechanism
        found["sasl.username"] = settings.credentials.username
        found["sasl.password"] = settings.credentials.password
    reading = Reading(properties)
    if reading.text("ssl.ca.location") == PROBE and settings.tls is not None:
        found["ssl.ca.location"] = PROBE
    return {**found, **_tuning(reading)}


def _tls(tls: Tls) -> dict[str, object]:
    found: dict[str, object] = {}
    if not tls.verify:
        found["enable.ssl.certificate.verification"] = "false"
    if not tls.check_host:
        found["ssl.endpoint.identification.algorithm"] = "none"
    if tls.ciphers is not None:
        found["ssl.cipher.suites"] = tls.ciphers
    if tls.crl is not None:
        found["ssl.crl.location"] = _path(tls.crl)
    if tls.trust is not None:
        found.update(_said(tls.trust, "ssl.ca"))
    if tls.certificate is not None and tls.certificate.pkcs12:
        found["ssl.keystore.location"] = _path(str(tls.certificate.path))
        if tls.certificate.password is not None:
            found["ssl.keystore.password"] = tls.certificate.password
    elif tls.certificate is not None:
        key = tls.key or tls.certificate
        found.update(_said(tls.certificate, "ssl.certificate"))
        found.update(_said(key, "ssl.key"))
        if key.password is not None:
            found["ssl.key.password"] = key.password
    return found


def _said(source: Source, name: str) -> dict[str, object]:
    if source.path is not None:
        return {f"{name}.location": _path(source.path)}
    return {f"{name}.pem": source.text}


def _path(path: str) -> str:
    return str(Path(path).expanduser())


def _tuning(reading: Reading) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, names, least, most in _NUMBERS:
        if (value := reading.number(*(names or (name,)), least=-1)) is not None:
            found[name] = min(max(value, least), most)
    for name in _TRUTHS:
        if (truth := reading.truth(name)) is not None:
            found[name] = "true" if truth else "false"
    for name in _VERBATIM:
        if (text := reading.text(name)) is not None:
            found[name] = text
    return found
