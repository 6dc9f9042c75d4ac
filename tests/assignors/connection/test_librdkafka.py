"""Java's and librdkafka's properties under librdkafka's names, which librdkafka accepts."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient

from assignors.connection import CONNECTION_PROPERTIES, librdkafka_settings
from assignors.connection.settings import LIBRDKAFKA_ONLY, NETWORK_PROPERTIES

JAVA: dict[str, object] = {
    "bootstrap.servers": "127.0.0.1:1",
    "client.id": "tool",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'x.PlainLoginModule required username="alice" password="hunter2";',
    "request.timeout.ms": "900000",
    "default.api.timeout.ms": "1",
    "connections.max.idle.ms": "-1",
    "receive.buffer.bytes": "-1",
    "send.buffer.bytes": "131072",
    "retry.backoff.ms": "0",
    "socket.connection.setup.timeout.ms": "10",
    "client.dns.lookup": "use_all_dns_ips",
    "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
}
LIBRDKAFKA = {
    "bootstrap.servers": "127.0.0.1:1",
    "client.id": "tool",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
    "socket.timeout.ms": 300_000,
    "connections.max.idle.ms": 0,
    "socket.receive.buffer.bytes": 0,
    "socket.send.buffer.bytes": 131072,
    "retry.backoff.ms": 1,
    "socket.connection.setup.timeout.ms": 1000,
    "client.dns.lookup": "use_all_dns_ips",
}


def test_java_properties_are_renamed_and_limited() -> None:
    assert librdkafka_settings(JAVA) == LIBRDKAFKA


def test_librdkafka_properties_are_unchanged() -> None:
    assert librdkafka_settings(LIBRDKAFKA) == LIBRDKAFKA
    own = {
        "security.protocol": "plaintext",
        "broker.address.family": "v4",
        "broker.address.ttl": "1000",
        "metadata.recovery.strategy": "none",
        "topic.metadata.refresh.interval.ms": -1,
        "metadata.max.age.ms": 5000,
        "socket.keepalive.enable": "true",
        "socket.nagle.disable": "true",
        "log.connection.close": "false",
        "socket.max.fails": "1",
    }
    assert librdkafka_settings(own) == own
    assert own.keys() <= CONNECTION_PROPERTIES


def test_librdkafka_accepts_every_property() -> None:
    # No broker is needed: librdkafka raises for an unknown property.
    values = {
        "client.dns.lookup": "use_all_dns_ips",
        "broker.address.family": "v4",
        "metadata.recovery.strategy": "none",
        "ssl.curves.list": "P-256",
        "ssl.sigalgs.list": "RSA+SHA256",
        "ssl.providers": "default",
        "receive.message.max.bytes": "100000000",
        "socket.keepalive.enable": "true",
        "socket.nagle.disable": "true",
        "log.connection.close": "false",
    }
    every: dict[str, object] = {
        name: values.get(name, "1000") for name in NETWORK_PROPERTIES | LIBRDKAFKA_ONLY
    }
    for properties in (every, JAVA):
        settings: dict[str, Any] = librdkafka_settings(properties)
        AdminClient({**settings, "log_level": 0})


def test_disabled_tls_checks_are_passed_on() -> None:
    lax = {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        "enable.ssl.certificate.verification": False,
        "ssl.ca.location": "probe",
        "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384",
    }
    assert librdkafka_settings(lax) == {
        "security.protocol": "ssl",
        "ssl.endpoint.identification.algorithm": "none",
        "enable.ssl.certificate.verification": "false",
        "ssl.ca.location": "probe",
        "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384",
    }
