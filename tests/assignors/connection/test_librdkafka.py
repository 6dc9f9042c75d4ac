"""Java's and librdkafka's words in, librdkafka's out: librdkafka itself takes them."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AdminClient

from assignors.connection import CONNECTION_PROPERTIES, librdkafka_settings
from assignors.connection.properties import LIBRDKAFKA_ONLY, TIMINGS

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
SAID = {
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


def test_java_names_and_limits() -> None:
    assert librdkafka_settings(JAVA) == SAID


def test_its_own_names_come_out_as_they_went_in() -> None:
    assert librdkafka_settings(SAID) == SAID
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


def test_librdkafka_takes_every_name() -> None:
    # The broker is away; a property that librdkafka did not know would raise.
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
        name: values.get(name, "1000") for name in TIMINGS | LIBRDKAFKA_ONLY
    }
    for properties in (every, JAVA):
        settings: dict[str, Any] = librdkafka_settings(properties)
        AdminClient({**settings, "log_level": 0})


def test_tls_that_checks_less_says_so() -> None:
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
