"""Brokers that cannot be reached, and brokers that require TLS and SASL."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from integration.support.confluent import (
    RACKWARD,
    Consumers,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.secured import PASSWORD, Secured
from integration.support.topics import create_topic, fill, new_name
from tests.support.waiting import TEST_TIMEOUT

WRONG_PASSWORD = "looking-glass-1871"


@pytest.fixture(scope="module")
def nine_records(secured: Secured) -> str:
    """A topic with nine records."""
    topic = create_topic(secured.cluster, new_name("secured"), [[0]] * 3)
    fill(secured.cluster, topic, 3, 3)
    return topic


def settings_of(secured: Secured, **more: Any) -> dict[str, Any]:
    return {**secured.properties("plain"), "reconnect.backoff.ms": 300, **more}


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
    nine_records: str,
    wrong: dict[str, Any],
    expected: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    errors: list[Any] = []
    settings = settings_of(secured, **wrong, error_cb=errors.append)
    consumers = Consumers(RACKWARD, secured.cluster.bootstrap("plain"))
    consumer = consumers({k: v for k, v in settings.items() if v is not None})
    consumer.subscribe([nine_records])
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


def test_new_sasl_credentials(secured: Secured, nine_records: str) -> None:
    errors: list[Any] = []
    consumers = Consumers(RACKWARD, secured.cluster.bootstrap("plain"))
    wrong = {
        "sasl.password": WRONG_PASSWORD,
        "error_cb": errors.append,
        "enable.auto.commit": False,
    }
    consumer = consumers(settings_of(secured, **wrong))
    consumer.subscribe([nine_records])
    poll_until(consumer, until=lambda _: errors, what="an error for the wrong password")
    assert consumer.set_sasl_credentials("alice", PASSWORD) is None
    assert len(read_records(consumer, 9)) == 9
    assert consumer.commit(asynchronous=False)
    consumer.close()
