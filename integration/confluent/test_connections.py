"""Brokers that cannot be reached, and brokers that require TLS and SASL."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from integration.support.confluent import (
    RACKWARD,
    Consumers,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.secured import Listener, secured_properties
from rackward.testing import LocalCluster
from tests.support.security import make_authority, write_file
from tests.support.waiting import TEST_TIMEOUT

PASSWORD = "wonderland-1865"
WRONG_PASSWORD = "looking-glass-1871"


@dataclass(frozen=True)
class Secured:
    """A broker with a listener for SASL_SSL, and a topic of nine records."""

    bootstrap: str
    authority: str
    topic: str

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            "ssl.ca.location": self.authority,
            "reconnect.backoff.ms": 300,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = make_authority()
    properties = {
        **secured_properties(authority, [Listener("SASL_SSL", ["PLAIN"])], {"alice": PASSWORD}),
        "auto.create.topics.enable": "true",
        "num.partitions": "3",
    }
    path = write_file(tmp_path_factory.mktemp("tls"), "authority.pem", authority.pem)
    with LocalCluster(("a",), server_properties=properties) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for _ in range(9):
            producer.produce("t", b"x")
        assert producer.flush(TEST_TIMEOUT) == 0
        yield Secured(cluster.bootstrap("a"), path, "t")


def lookup_errors(consumer: Any) -> list[int]:
    """Return the error codes of lookups that no broker answers."""
    partition = TopicPartition("t", 0)
    return [
        raised_code(consumer.list_topics, timeout=0.3),
        raised_code(consumer.committed, [partition], timeout=0.3),
        raised_code(consumer.get_watermark_offsets, partition, timeout=0.3),
        raised_code(consumer.offsets_for_times, [TopicPartition("t", 0, 1)], timeout=0.3),
        raised_code(consumer.cluster_id, timeout=0.3),
    ]


LOOKUP_ERRORS = [
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
]


def test_no_broker_can_be_reached() -> None:
    errors: list[tuple[int, int]] = []
    consumers = Consumers(RACKWARD, "127.0.0.1:1")
    consumer = consumers(
        {
            "error_cb": lambda error: errors.append((error.code(), threading.get_ident())),
            "reconnect.backoff.ms": 300,
        }
    )
    assert consumer.subscribe(["t"]) is None
    both = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
    messages = poll_until(
        consumer, until=lambda _: {code for code, _ in errors} == both, what="errors"
    )
    assert messages == []
    assert {thread for _, thread in errors} == {threading.get_ident()}
    assert consumer.assignment() == []
    assert consumer.memberid() is None
    assert consumer.commit() is None
    assert raised_code(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    assert lookup_errors(consumer) == LOOKUP_ERRORS
    started = time.monotonic()
    consumer.close()
    assert time.monotonic() - started < TEST_TIMEOUT


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"sasl.password": WRONG_PASSWORD}, KafkaError._AUTHENTICATION),
        ({"ssl.ca.location": None}, KafkaError._SSL),
        ({"security.protocol": "PLAINTEXT"}, KafkaError._ALL_BROKERS_DOWN),
    ],
    ids=["password", "authority", "protocol"],
)
def test_refused_connections(
    secured: Secured,
    wrong: dict[str, Any],
    expected: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    errors: list[Any] = []
    settings = {**secured.settings, **wrong, "error_cb": errors.append}
    consumers = Consumers(RACKWARD, secured.bootstrap)
    consumer = consumers({k: v for k, v in settings.items() if v is not None})
    consumer.subscribe([secured.topic])
    codes = {expected, KafkaError._ALL_BROKERS_DOWN}
    messages = poll_until(
        consumer, until=lambda _: codes <= {error.code() for error in errors}, what="errors"
    )
    assert messages == []
    assert consumer.assignment() == []
    assert lookup_errors(consumer)[:2] == LOOKUP_ERRORS[:2]
    consumer.close()
    output = caplog.text + "".join(error.str() for error in errors)
    assert WRONG_PASSWORD not in output
    assert PASSWORD not in output


def test_new_sasl_credentials(secured: Secured) -> None:
    errors: list[Any] = []
    consumers = Consumers(RACKWARD, secured.bootstrap)
    wrong = {
        "sasl.password": WRONG_PASSWORD,
        "error_cb": errors.append,
        "enable.auto.commit": False,
    }
    consumer = consumers({**secured.settings, **wrong})
    consumer.subscribe([secured.topic])
    poll_until(consumer, until=lambda _: errors, what="an error for the wrong password")
    assert consumer.set_sasl_credentials("alice", PASSWORD) is None
    assert len(read_records(consumer, 9)) == 9
    assert consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("inline", [False, True], ids=["file", "inline"])
def test_java_property_names(secured: Secured, inline: bool) -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    trust = (
        {"ssl.truststore.certificates": Path(secured.authority).read_text()}
        if inline
        else {"ssl.truststore.location": secured.authority}
    )
    consumers = Consumers(RACKWARD, secured.bootstrap)
    consumer = consumers(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{login} required username="alice" password="{PASSWORD}";',
            "ssl.truststore.type": "PEM",
            **trust,
        }
    )
    consumer.subscribe([secured.topic])
    assert len(read_records(consumer, 9)) == 9
    assert consumer.memberid()
    consumer.close()
