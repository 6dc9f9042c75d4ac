"""Java's and librdkafka's words in, kafka-python's keywords out."""

from __future__ import annotations

import socket
import ssl

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from assignors.connection import ConnectionPropertyError, kafka_python_settings
from assignors.connection.properties import server_list

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_java_and_librdkafka_say_the_same() -> None:
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


def test_every_keyword_is_one_that_every_client_of_kafka_python_knows() -> None:
    given = kafka_python_settings(
        {
            "bootstrap.servers": "one:9092",
            "client.id": "tool",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
            "socket.keepalive.enable": "true",
            "socket.nagle.disable": "false",
            "client.dns.lookup": "use_all_dns_ips",
            "receive.message.max.bytes": "1000000",
            "reconnect.backoff.ms": "1",
            "reconnect.backoff.max.ms": "2",
            "retry.backoff.ms": "3",
            "connections.max.idle.ms": "4",
            "topic.metadata.refresh.interval.ms": "-1",
            "socket.connection.setup.timeout.ms": "5",
            "request.timeout.ms": "6",
            "receive.buffer.bytes": "7",
            "send.buffer.bytes": "8",
        }
    )
    for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer):
        assert given.keys() <= client.DEFAULT_CONFIG.keys()
    assert given["socket_options"] == [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 0),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]


def test_nothing_said_is_plain_text() -> None:
    assert kafka_python_settings({}) == {"security_protocol": "PLAINTEXT"}
    unused = {"sasl.mechanism": "GSSAPI", "ssl.ca.location": "/absent", "client.id": None}
    assert kafka_python_settings(unused) == {"security_protocol": "PLAINTEXT"}


def test_a_password_does_not_show_where_settings_are_logged() -> None:
    found = kafka_python_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "hunter2",
        }
    )
    assert found["sasl_plain_password"] == "hunter2"
    assert "hunter2" not in f"{found} {found!r}"


@pytest.mark.parametrize(
    "jaas",
    [
        f'{PLAIN} required username="alice" password="hunter2";',
        f"{PLAIN} REQUIRED\n\tusername=alice // me\n password = 'hunter2' ;",
        f'shaded.{PLAIN} requisite /* both */ password="hunt\\145r2" username="alice" x="";',
        f'{SCRAM} required username="alice" password=hunter2 tokenauth=false;',
    ],
)
def test_jaas_as_java_reads_it(jaas: str) -> None:
    found = kafka_python_settings(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    )
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("alice", "hunter2")


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
USER = {"sasl.username": "alice", "sasl.password": "hunter2"}


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism: security.protocol asks for it: set"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism: GSSAPI is not supported: set it"),
        (SASL, "sasl.username: PLAIN needs a user: set it, or sasl.jaas.config"),
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
         "sasl.jaas.config: the login module Krb5LoginModule is not supported: PlainLoginModule"),
        ({**SASL, "sasl.jaas.config": f'{SCRAM} required username=a password=b tokenauth="true";'},
         "sasl.jaas.config: delegation tokens (tokenauth) are not supported"),
        ({**SASL, **USER, "sasl.jaas.config": f"{PLAIN} required username=bob password=hunter2;"},
         "sasl.jaas.config: it disagrees with sasl.username and sasl.password"),
        ({**SASL, "sasl.username": "alice", "sasl.password": "${env:hunter2}",
          "config.providers": "file, env"},
         "sasl.password: it takes its value from the configuration provider env, which only Java"),
        ({"sasl.pasword": "hunter2"}, "sasl.pasword: no client has such a property: did you mean"),
        ({"ssl.truststore.locaton": "x"}, "did you mean ssl.truststore.location?"),
        ({"bootstrap.servers": "one"}, "bootstrap.servers: 'one' is not of the form host:port"),
        ({"metadata.broker.list": ","}, "metadata.broker.list: it names no server"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms: 'soon' is not a whole number from 0"),
        ({"retry.backoff.ms": "-1"}, "retry.backoff.ms: '-1' is not a whole number from 0 on"),
        ({"socket.keepalive.enable": "on"}, "socket.keepalive.enable: 'on' is neither true nor"),
        ({"client.dns.lookup": "default"}, "client.dns.lookup: 'default' is none of use_all"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "no"},
         "enable.ssl.certificate.verification: 'no' is neither true nor false"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"},
         "ssl.endpoint.identification.algorithm: 'x' is none of https, none"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"},
         "ssl.cipher.suites: these are Java's names: write OpenSSL's"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "NONSENSE"},
         "ssl.cipher.suites: 'NONSENSE' cannot be used"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.2,SSLv3"},
         "ssl.enabled.protocols: SSLv3: choose from TLSv1"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "BKS"},
         "ssl.truststore.type: 'BKS' is none of JKS, PKCS12, PEM"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_and_secrets_are_not(
    properties: dict[str, object], told: str
) -> None:
    with pytest.raises(ConnectionPropertyError) as error:
        kafka_python_settings(properties)
    assert told in str(error.value)
    assert str(error.value).count("\n") == 0
    assert error.value.name in str(error.value)
    assert "hunter2" not in repr(error.value)


def test_tls_checks_everything_unless_told_otherwise() -> None:
    def context(**properties: str) -> ssl.SSLContext:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        found = kafka_python_settings({"security.protocol": "SSL", **given})["ssl_context"]
        assert isinstance(found, ssl.SSLContext)
        return found

    strict = context()
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert strict.minimum_version == ssl.TLSVersion.TLSv1_2
    for off in ("", "none", "NONE"):
        anybody = context(ssl_endpoint_identification_algorithm=off)
        assert (anybody.verify_mode, anybody.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert context(ssl_endpoint_identification_algorithm="https").check_hostname
    blind = context(enable_ssl_certificate_verification="False")
    assert (blind.verify_mode, blind.check_hostname) == (ssl.CERT_NONE, False)
    newest = context(ssl_enabled_protocols="TLSv1.3")
    assert newest.minimum_version == newest.maximum_version == ssl.TLSVersion.TLSv1_3
    weak = context(ssl_cipher_suites="ECDHE-RSA-AES256-GCM-SHA384")
    assert "ECDHE-RSA-AES128-GCM-SHA256" not in {each["name"] for each in weak.get_ciphers()}


def test_servers() -> None:
    assert server_list("SASL_SSL://a.example:9092 , [::1]:9093,10.0.0.1:65535") == (
        "a.example:9092",
        "[::1]:9093",
        "10.0.0.1:65535",
    )
    for wrong in ("a:0", "a:65536", "a:b", ":9092", "::1:9092", "a b:9092", "http://a:1/path"):
        with pytest.raises(ConnectionPropertyError, match=r"--bootstrap-server: .*host:port"):
            server_list(wrong, "--bootstrap-server")
