"""Java's and librdkafka's properties as settings of kafka-python's clients and of librdkafka."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from assignors.connection import (
    CONNECTION_PROPERTIES,
    ConnectionPropertyError,
    kafka_python_settings,
    librdkafka_settings,
)
from assignors.connection.settings import LIBRDKAFKA_ONLY, NETWORK_PROPERTIES

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
USER = {"sasl.username": "alice", "sasl.password": "hunter2"}


def test_java_and_librdkafka_properties_give_equal_settings() -> None:
    java = {
        "bootstrap.servers": "one:9092,two:9093",
        "client.id": "tool",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="alice" password="it\'s \\"x\\" ";',
        "request.timeout.ms": "7000",
        "receive.buffer.bytes": "-1",
        "send.buffer.bytes": "4096",
        "connections.max.idle.ms": "-1",
        "metadata.max.age.ms": "1000",
        "acks": "all",
        "group.id": "g",
    }
    rdkafka = {
        "metadata.broker.list": "one:9092, two:9093",
        "client.id": "tool",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'it\'s "x" ',
        "socket.timeout.ms": 7000,
        "socket.receive.buffer.bytes": 0,
        "socket.send.buffer.bytes": 4096,
        "connections.max.idle.ms": 0,
        "topic.metadata.refresh.interval.ms": 1000,
        "metadata.max.age.ms": 3000,
        "enable.auto.commit": False,
        "error_cb": print,
    }
    assert kafka_python_settings(java) == kafka_python_settings(rdkafka)
    assert kafka_python_settings(java) == {
        "bootstrap_servers": ["one:9092", "two:9093"],
        "client_id": "tool",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'it\'s "x" ',
        "request_timeout_ms": 7000,
        "send_buffer_bytes": 4096,
        "connections_max_idle_ms": 2**31 - 1,
        "metadata_max_age_ms": 1000,
    }


VALUES = {
    "client.dns.lookup": "use_all_dns_ips",
    "broker.address.family": "v4",
    "metadata.recovery.strategy": "none",
    "ssl.curves.list": "P-256",
    "ssl.sigalgs.list": "RSA+SHA256",
    "ssl.providers": "default",
    "receive.message.max.bytes": "100000000",
    "socket.keepalive.enable": "true",
    "socket.nagle.disable": "false",
    "log.connection.close": "false",
}
EVERY: dict[str, object] = {
    name: VALUES.get(name, "1000") for name in NETWORK_PROPERTIES | LIBRDKAFKA_ONLY
}


def test_all_clients_of_kafka_python_accept_every_keyword() -> None:
    own = {"bootstrap.servers": "one:9092", "client.id": "tool", "security.protocol": "SASL_SSL"}
    keywords = kafka_python_settings({**EVERY, **SASL, **USER, **own})
    for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer):
        assert keywords.keys() <= client.DEFAULT_CONFIG.keys()
    for keyword in ("reconnect_backoff_ms", "reconnect_backoff_max_ms", "retry_backoff_ms"):
        assert keywords[keyword] == 1000
    assert keywords["socket_options"] == [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 0),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]


def test_without_properties_the_protocol_is_plaintext() -> None:
    assert kafka_python_settings({}) == {"security_protocol": "PLAINTEXT"}
    unused = {"sasl.mechanism": "GSSAPI", "ssl.ca.location": "/absent", "client.id": None}
    assert kafka_python_settings(unused) == {"security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    "jaas",
    [
        f'{PLAIN} required username="alice" password="hunter2";',
        f"{PLAIN} REQUIRED\n\tusername=alice // me\n password = 'hunter2' ;",
        f'shaded.{PLAIN} requisite /* both */ password="hunt\\145r2" username="alice" x="";',
        f'{SCRAM} required username="alice" password=hunter2 tokenauth=false;',
    ],
)
def test_jaas_is_parsed_as_in_java(jaas: str) -> None:
    keywords = kafka_python_settings({**SASL, "sasl.jaas.config": jaas})
    assert (keywords["sasl_plain_username"], keywords["sasl_plain_password"]) == (
        "alice",
        "hunter2",
    )


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: 'TLS' is not one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: security.protocol requires it: set"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI is not supported: set it"),
        (SASL, "sasl.username: PLAIN needs a user name: set it, or sasl.jaas.config"),
        ({**SASL, "sasl.username": "alice"}, "sasl.password: PLAIN needs a password"),
        ({**SASL, "sasl.jaas.config": f'{PLAIN} required username="alice" password="hunter2"'},
         "sasl.jaas.config: it does not end with a semicolon: write it as"),
        ({**SASL, "sasl.jaas.config": f'{PLAIN} required password="hunter2;'},
         "sasl.jaas.config: a quotation mark is not closed"),
        ({**SASL, "sasl.jaas.config": f'{PLAIN} username="alice" password="hunter2";'},
         "sasl.jaas.config: it does not begin with a module and a flag"),
        ({**SASL, "sasl.jaas.config": f'{PLAIN} required username "alice" "hunter2";'},
         "sasl.jaas.config: an option is not name=value"),
        ({**SASL, "sasl.jaas.config": f"{PLAIN} required; {PLAIN} required;"},
         "sasl.jaas.config: it has more than one login module"),
        ({**SASL, "sasl.jaas.config": 'com.sun.Krb5LoginModule required a="b";'},
         "sasl.jaas.config: its login module is not supported: use PlainLoginModule"),
        ({**SASL, "sasl.jaas.config": f'{SCRAM} required username=a password=b tokenauth="true";'},
         "sasl.jaas.config: delegation tokens (tokenauth) are not supported"),
        ({**SASL, **USER, "sasl.jaas.config": f"{PLAIN} required username=bob password=hunter2;"},
         "sasl.jaas.config: it disagrees with sasl.username and sasl.password"),
        ({**SASL, "sasl.username": "alice", "sasl.password": "${env:hunter2}",
          "config.providers": "file, env"},
         "sasl.password: the value comes from the configuration provider env, which only Java"),
        ({"sasl.pasword": "hunter2"}, "sasl.pasword: unknown security property: did you mean"),
        ({"ssl.truststore.locaton": "x"}, "did you mean ssl.truststore.location?"),
        ({"bootstrap.servers": "one"}, "bootstrap.servers: 'one' is not host:port"),
        ({"metadata.broker.list": ","}, "metadata.broker.list: no server is given"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms: 'soon' is not an integer >= 0"),
        ({"retry.backoff.ms": "-1"}, "retry.backoff.ms: '-1' is not an integer >= 0"),
        ({"socket.keepalive.enable": "on"}, "socket.keepalive.enable: 'on' is neither true nor"),
        ({"client.dns.lookup": "default"}, "client.dns.lookup: 'default' is not one of use_all"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "no"},
         "enable.ssl.certificate.verification: 'no' is neither true nor false"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"},
         "ssl.endpoint.identification.algorithm: 'x' is not one of https, none"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"},
         "ssl.cipher.suites: these are Java's cipher names: write OpenSSL's"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "NONSENSE"},
         "ssl.cipher.suites: 'NONSENSE' cannot be used"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.2,SSLv3"},
         "ssl.enabled.protocols: SSLv3 is not supported: choose from TLSv1"),
    ],
)  # fmt: skip
def test_invalid_property_is_named_without_the_password(
    properties: dict[str, object], message: str
) -> None:
    with pytest.raises(ConnectionPropertyError) as caught:
        kafka_python_settings(properties)
    assert message in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert caught.value.name in str(caught.value)
    assert "hunter2" not in repr(caught.value)


def test_tls_verifies_certificate_and_host_name_by_default() -> None:
    def context(**properties: str) -> ssl.SSLContext:
        dotted = {name.replace("_", "."): value for name, value in properties.items()}
        context = kafka_python_settings({"security.protocol": "SSL", **dotted})["ssl_context"]
        assert isinstance(context, ssl.SSLContext)
        return context

    default = context()
    assert (default.verify_mode, default.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert default.minimum_version == ssl.TLSVersion.TLSv1_2
    for off in ("", "none", "NONE"):
        any_host = context(ssl_endpoint_identification_algorithm=off)
        assert (any_host.verify_mode, any_host.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert context(ssl_endpoint_identification_algorithm="https").check_hostname
    unverified = context(enable_ssl_certificate_verification="False")
    assert (unverified.verify_mode, unverified.check_hostname) == (ssl.CERT_NONE, False)
    newest = context(ssl_enabled_protocols="TLSv1.3")
    assert newest.minimum_version == newest.maximum_version == ssl.TLSVersion.TLSv1_3
    one_cipher = context(ssl_cipher_suites="ECDHE-RSA-AES256-GCM-SHA384")
    assert "ECDHE-RSA-AES128-GCM-SHA256" not in {each["name"] for each in one_cipher.get_ciphers()}


# ---- Java's and librdkafka's properties under librdkafka's names, which librdkafka accepts.

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
    for properties in (EVERY, JAVA):
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
