"""Configuration files of librdkafka and of Java clients, for the consumer of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from assignors.connection import ConnectionPropertyError
from rack_traffic.consumer_properties import java_consumer_properties

PEM = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max.poll.records": "7"}, {"max.poll.records": "7"}),
        ({"sasl.login.class": "u"}, {"sasl.login.class": "u"}),
        ({"metadata.broker.list": "b:9092"}, {"bootstrap.servers": "b:9092"}),
        ({"socket.timeout.ms": 5}, {"request.timeout.ms": "5"}),
        ({"client.id": None}, {}),
        (
            {"ssl.endpoint.identification.algorithm": "none"},
            {"ssl.endpoint.identification.algorithm": ""},
        ),
        ({"enable.ssl.certificate.verification": "true"}, {}),
        (
            {"sasl.mechanisms": "plain", "sasl.username": "me", "sasl.password": 'a"b\\c'},
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": rf'{PLAIN} required username="me" password="a\"b\\c";',
            },
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": "pw"},
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM} required username="me" password="pw";',
            },
        ),
        (
            {
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": 'a"b\\c',
                "sasl.oauthbearer.scope": "kafka",
                "sasl.oauthbearer.extensions": "tenant=t",
                "https.ca.pem": PEM,
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
                "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
                "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required "
                r'clientId="me" clientSecret="a\"b\\c" scope="kafka" extension_tenant="t" '
                r'ssl.truststore.type="PEM" ssl.truststore.certificates="'
                r'-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";',
            },
        ),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.example.H"},
            {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "com.example.H"},
        ),
        ({"ssl.ca.pem": PEM}, {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": PEM}),
        (
            {"ssl.certificate.pem": PEM, "ssl.key.pem": KEY, "ssl.key.password": "pw"},
            {
                "ssl.key.password": "pw",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": PEM,
                "ssl.keystore.key": KEY,
            },
        ),
    ],
)  # fmt: skip
def test_names_and_values(given: dict[str, object], expected: dict[str, str]) -> None:
    assert java_consumer_properties(given) == expected


def test_certificate_files_are_read(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text(PEM)
    key.write_text(KEY)
    properties = java_consumer_properties(
        {
            "ssl.ca.location": str(certificate),
            "ssl.certificate.location": str(certificate),
            "ssl.key.location": str(key),
        }
    )
    assert properties == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": PEM,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": PEM,
        "ssl.keystore.key": KEY,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bootstrap.server": "b"}, "no such property: did you mean bootstrap.servers?"),
        ({"ssl.crl.location": "x"}, "ssl.crl.location: Spark's consumer has no such property"),
        ({"key.deserializer": "x"}, "key.deserializer: Spark's consumer has no such property"),
        ({"enable.ssl.certificate.verification": "false"}, "always verifies certificates"),
        (
            {"metadata.broker.list": "a", "bootstrap.servers": "b"},
            "bootstrap.servers: it disagrees with metadata.broker.list",
        ),
        ({"sasl.username": "me", "sasl.mechanism": "PLAIN"}, "sasl.password: it is missing"),
        ({"sasl.password": "hunter2", "sasl.mechanism": "PLAIN"}, "sasl.username: it is missing"),
        ({"sasl.username": "me", "sasl.password": "hunter2"}, "need one of PLAIN, SCRAM-SHA-256"),
        (
            {"sasl.username": "me", "sasl.password": "hunter2", "sasl.jaas.config": "x hunter2;"},
            "sasl.jaas.config: it contains the user name",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.client.id": "me",
                "sasl.oauthbearer.client.secret": "hunter2",
            },
            "sasl.oauthbearer.token.endpoint.url: OAUTHBEARER needs it",
        ),
        ({"ssl.ca.location": "/absent"}, "ssl.ca.location: cannot read /absent"),
        ({"ssl.ca.pem": PEM, "ssl.truststore.location": "x"}, "disagrees with ssl.truststore"),
        ({"ssl.certificate.pem": PEM}, "ssl.key.location: it is missing"),
    ],
)
def test_errors_name_the_property_and_no_secret(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConnectionPropertyError) as caught:
        java_consumer_properties(given)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_pem_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    path.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConnectionPropertyError, match="is not a PEM file"):
        java_consumer_properties({"ssl.ca.location": str(path)})
