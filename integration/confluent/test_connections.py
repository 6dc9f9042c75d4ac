"""Brokers that cannot be reached, and brokers that want to know who is there."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as At

from integration.support.confluent import (
    RACKWARD,
    Consumers,
    Variant,
    certificates,
    read,
    read_records,
)
from rackward.clusters import LocalCluster
from tests.support.waiting import PATIENCE

SECRET = "wonderland-1865"
WRONG = "looking-glass-1871"


@dataclass(frozen=True)
class Secured:
    """A broker whose clients come in with TLS and a password, and a topic of nine records."""

    bootstrap: str
    authority: Path
    topic: str

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": SECRET,
            "ssl.ca.location": str(self.authority),
            "reconnect.backoff.ms": 300,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    signed = certificates(datetime.datetime.now(datetime.UTC))
    door = "listener.name.rack_0."
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    protocols = "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,RACK_0:SASL_SSL"
    properties = {
        "listener.security.protocol.map": protocols,
        f"{door}sasl.enabled.mechanisms": "PLAIN",
        f"{door}plain.sasl.jaas.config": f'{login} required user_alice="{SECRET}";',
        f"{door}ssl.keystore.type": "PEM",
        f"{door}ssl.keystore.certificate.chain": signed.chain,
        f"{door}ssl.keystore.key": signed.key,
        "auto.create.topics.enable": "true",
        "num.partitions": "3",
    }
    authority = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.write_text(signed.authority)
    with LocalCluster(("a",), server_properties=properties) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for _ in range(9):
            producer.produce("t", b"x")
        assert producer.flush(PATIENCE) == 0
        yield Secured(cluster.bootstrap("a"), authority, "t")


def code_of(act: Any, *arguments: Any, **named: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        act(*arguments, **named)
    return int(caught.value.args[0].code())


def asked_in_vain(consumer: Any) -> list[int]:
    """The codes of what is raised by questions that no broker answers."""
    partition = At("t", 0)
    return [
        code_of(consumer.list_topics, timeout=0.3),
        code_of(consumer.committed, [partition], timeout=0.3),
        code_of(consumer.get_watermark_offsets, partition, timeout=0.3),
        code_of(consumer.offsets_for_times, [At("t", 0, 1)], timeout=0.3),
        code_of(consumer.cluster_id, timeout=0.3),
    ]


IN_VAIN = [
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
]


def test_nobody_is_there(variant: Variant) -> None:
    errors: list[tuple[int, int]] = []
    consumers = Consumers(variant, "127.0.0.1:1")
    consumer = consumers(
        {
            "error_cb": lambda error: errors.append((error.code(), threading.get_ident())),
            "reconnect.backoff.ms": 300,
        }
    )
    assert consumer.subscribe(["t"]) is None
    both = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
    found = read(consumer, until=lambda _: {code for code, _ in errors} == both, what="errors")
    assert found == []
    assert {thread for _, thread in errors} == {threading.get_ident()}
    assert consumer.assignment() == []
    assert consumer.memberid() is None
    assert consumer.commit() is None
    assert code_of(consumer.commit, asynchronous=False) == KafkaError._NO_OFFSET
    assert asked_in_vain(consumer) == IN_VAIN
    started = time.monotonic()
    consumer.close()
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"sasl.password": WRONG}, KafkaError._AUTHENTICATION),
        ({"ssl.ca.location": None}, KafkaError._SSL),
        ({"security.protocol": "PLAINTEXT"}, KafkaError._ALL_BROKERS_DOWN),
    ],
    ids=["password", "authority", "protocol"],
)
def test_turned_away(
    variant: Variant,
    secured: Secured,
    wrong: dict[str, Any],
    expected: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    errors: list[Any] = []
    settings = {**secured.settings, **wrong, "error_cb": errors.append}
    consumers = Consumers(variant, secured.bootstrap)
    consumer = consumers({k: v for k, v in settings.items() if v is not None})
    consumer.subscribe([secured.topic])
    codes = {expected, KafkaError._ALL_BROKERS_DOWN}
    found = read(
        consumer, until=lambda _: codes <= {error.code() for error in errors}, what="errors"
    )
    assert found == []
    assert consumer.assignment() == []
    assert asked_in_vain(consumer)[:2] == IN_VAIN[:2]
    consumer.close()
    said = caplog.text + "".join(error.str() for error in errors)
    assert WRONG not in said
    assert SECRET not in said


def test_let_in(variant: Variant, secured: Secured) -> None:
    consumers = Consumers(variant, secured.bootstrap)
    consumer = consumers({**secured.settings, "enable.auto.commit": False})
    consumer.subscribe([secured.topic])
    assert len(read_records(consumer, 9)) == 9
    committed = consumer.commit(asynchronous=False)
    assert sum(each.offset for each in committed if each.offset > 0) == 9
    consumer.close()


def test_let_in_with_other_credentials(variant: Variant, secured: Secured) -> None:
    errors: list[Any] = []
    consumers = Consumers(variant, secured.bootstrap)
    wrong = {"sasl.password": WRONG, "error_cb": errors.append, "enable.auto.commit": False}
    consumer = consumers({**secured.settings, **wrong})
    consumer.subscribe([secured.topic])
    read(consumer, until=lambda _: errors, what="that the password is wrong")
    assert consumer.set_sasl_credentials("alice", SECRET) is None
    assert len(read_records(consumer, 9)) == 9
    assert consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("inline", [False, True], ids=["file", "inline"])
def test_let_in_by_the_names_of_java(secured: Secured, inline: bool) -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule"
    trust = (
        {"ssl.truststore.certificates": secured.authority.read_text()}
        if inline
        else {"ssl.truststore.location": str(secured.authority)}
    )
    consumers = Consumers(RACKWARD, secured.bootstrap)
    consumer = consumers(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{login} required username="alice" password="{SECRET}";',
            "ssl.truststore.type": "PEM",
            **trust,
        }
    )
    consumer.subscribe([secured.topic])
    assert len(read_records(consumer, 9)) == 9
    assert consumer.memberid()
    consumer.close()
