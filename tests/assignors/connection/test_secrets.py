"""No repr, message or log line of a connection's configuration shows a password or a key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from assignors.confluent import Consumer, config, member
from assignors.connection import (
    ConnectionPropertyError,
    kafka_python_settings,
    librdkafka_settings,
)
from assignors.connection.settings import read_settings
from tests.support.security import make_authority, trust_store, write_file
from tests.support.waiting import TEST_TIMEOUT, wait_until

CANARY = "hunter2"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
GROUP = {"group.id": "g", "partition.assignment.strategy": config.COOPERATIVE}


def read_configuration(properties: Mapping[str, object]) -> object:
    return config.read_configuration({**GROUP, **properties}, {})


def construct(properties: Mapping[str, object]) -> None:
    Consumer({**GROUP, "log_level": 0, **properties}).close()


READERS: list[Callable[[Mapping[str, object]], object]] = [
    read_settings,
    kafka_python_settings,
    librdkafka_settings,
    read_configuration,
]


@pytest.fixture(autouse=True)
def _no_canary_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in caplog.text


def assert_masked(value: object) -> None:
    assert CANARY not in repr(value)
    assert CANARY not in str(value)
    assert CANARY not in str([value])


USERNAME = {**SASL, "sasl.username": "alice", "sasl.password": CANARY}
JAAS = {**SASL, "sasl.jaas.config": f'{PLAIN} required username="alice" password="{CANARY}";'}


def tls_properties(folder: Path) -> list[dict[str, object]]:
    """Return properties with an encrypted key as text, and with PKCS#12 stores."""
    authority = make_authority()
    client = authority.sign("client")
    stores = trust_store(CANARY, authority), client.pkcs12(CANARY)
    return [
        {
            "security.protocol": "SSL",
            "ssl.certificate.pem": client.pem,
            "ssl.key.pem": client.key_pem(CANARY),
            "ssl.key.password": CANARY,
        },
        {
            "security.protocol": "SSL",
            "ssl.truststore.location": write_file(folder, "trust.p12", stores[0]),
            "ssl.truststore.password": CANARY,
            "ssl.keystore.location": write_file(folder, "client.p12", stores[1]),
            "ssl.keystore.password": CANARY,
        },
    ]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_settings_are_masked(
    tmp_path: Path, read: Callable[[Mapping[str, object]], object]
) -> None:
    examples: list[Mapping[str, object]] = [USERNAME, JAAS, *tls_properties(tmp_path)]
    for properties in examples:
        settings = read(properties)
        assert_masked(settings)
        assert "PRIVATE KEY" not in f"{settings} {settings!r}"
        # The format in which kafka-python logs its configuration.
        logging.getLogger("kafka").debug("configuration: %s %r", settings, settings)


def test_masked_settings_contain_the_password() -> None:
    assert kafka_python_settings(USERNAME)["sasl_plain_password"] == CANARY
    # Properties without Java's names reach librdkafka unchanged.
    properties = config.librdkafka_config({**GROUP, **JAAS}, print)
    assert properties["sasl.password"] == CANARY
    assert_masked(properties)


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        f"{CANARY};",
        f"{CANARY} required;",
        f"{CANARY} required a=b;",
        f'{CANARY}.{CANARY} required username="alice" password="{CANARY}";',
        f"{PLAIN} {CANARY} username=alice;",
        f"{PLAIN} required {CANARY};",
        f"{PLAIN} required password {CANARY};",
        f"{PLAIN} required {CANARY}=;",
        f'{PLAIN} required password="{CANARY};',
        f"{PLAIN} required password='{CANARY};",
        f"{PLAIN} required password={CANARY}",
        f"{PLAIN} required; {CANARY} required;",
        f"{PLAIN} required username=alice password={CANARY} tokenauth=true;",
        f"{PLAIN} required password={CANARY};",
    ],
)
@pytest.mark.parametrize("read", [kafka_python_settings, librdkafka_settings, construct])
def test_no_error_shows_any_part_of_a_jaas_text(
    read: Callable[[Mapping[str, object]], object], text: str
) -> None:
    with pytest.raises((ConnectionPropertyError, KafkaException)) as caught:
        read({**SASL, "sasl.jaas.config": text})
    assert_masked(caught.value)
    assert_masked(caught.value.args)
    assert "alice" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.username": None},
        {"sasl.mechanism": "GSSAPI"},
        {"sasl.mechanism": None},
        {"sasl.jaas.config": f"{PLAIN} required username=alice password=other;"},
        {"sasl.pasword": CANARY},
        {"sasl.password": f"${{file:{CANARY}}}", "config.providers": "file"},
        {"security.protocol": "SSL", "ssl.key.pem": CANARY},
        {"security.protocol": "SSL", "ssl.certificate.pem": CANARY},
        {"security.protocol": "SSL", "ssl.ca.pem": CANARY},
        {"security.protocol": "SSL", "ssl.keystore.key": CANARY},
        {
            "security.protocol": "SSL",
            "ssl.certificate.pem": CANARY,
            "ssl.key.pem": CANARY,
            "ssl.key.password": CANARY,
        },
        {"security.protocol": "SSL", "ssl.keystore.location": "STORE"},
        {"security.protocol": "SSL", "ssl.truststore.location": "STORE"},
        {"bootstrap.servers": f"SASL_SSL://alice:{CANARY}@kafka:9092"},
    ],
    ids=",".join,
)
@pytest.mark.parametrize("read", [kafka_python_settings, read_configuration, construct])
def test_no_error_shows_a_secret(
    tmp_path: Path,
    read: Callable[[Mapping[str, object]], object],
    wrong: dict[str, object],
) -> None:
    store = write_file(tmp_path, "store.p12", trust_store("another password", make_authority()))
    wrong = {name: store if value == "STORE" else value for name, value in wrong.items()}
    passwords = {"ssl.keystore.password": CANARY, "ssl.truststore.password": CANARY}
    with pytest.raises((ConnectionPropertyError, KafkaException)) as caught:
        read({**USERNAME, **passwords, **wrong})
    assert_masked(caught.value)
    assert_masked(caught.value.args)


def test_new_credentials_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    constructed: list[dict[str, Any]] = []

    class Manager:
        """A replacement of kafka-python's connection manager that records its settings."""

        def __init__(self, _: Any, **settings: Any) -> None:
            constructed.append(settings)
            raise ZeroDivisionError

    monkeypatch.setattr(member, "KafkaConnectionManager", Manager)
    settings = {**SASL, "bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with Consumer({**GROUP, **settings, "sasl.username": "u", "sasl.password": "p"}) as consumer:
        consumer.set_sasl_credentials("alice", CANARY)
        consumer.subscribe(["t"])
        wait_until(lambda: bool(constructed), TEST_TIMEOUT, "the member connects")
        (keywords,) = constructed
        assert keywords["sasl_plain_password"] == CANARY
        assert_masked(keywords)
        assert_masked(vars(consumer._member))
