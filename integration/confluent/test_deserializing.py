"""The DeserializingConsumer: deserializers, builders and errors.

confluent's own tests with Avro, JSON Schema and Protobuf run in `upstream_tests.py`.
"""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from confluent_kafka.serialization import SerializationContext, StringDeserializer

from assignors.confluent import DeserializingConsumer
from integration.support.confluent import RACKWARD, Callbacks, new_group, poll_until
from integration.support.topics import committed
from rackward.testing import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def make(cluster: Cluster, deserializers: dict[str, Any]) -> DeserializingConsumer[Any, Any]:
    return DeserializingConsumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": new_group(),
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": RACKWARD.cooperative,
            "auto.commit.interval.ms": 200,
            "client.rack": "a",
            "log_level": 0,
            **deserializers,
        }
    )


class Plus:
    """Deserialises numbers plus ``number``, and fails for the number 5 if told to."""

    def __init__(self, number: int, *, fail: bool = False) -> None:
        self.number = number
        self.fail = fail
        self.contexts: list[tuple[str | None, str]] = []
        self.closed = 0

    def __call__(self, value: bytes | None, context: SerializationContext) -> int:
        self.contexts.append((context.topic, str(context.field)))
        number = int(value or b"")
        if self.fail and number == 5:
            raise LookupError("planned")
        return number + self.number

    def close(self) -> None:
        self.closed += 1


class PlusBuilder:
    """Builds a deserializer from a property of its own."""

    def __init__(self) -> None:
        self.built: list[Plus] = []

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Plus, dict[str, Any]]:
        assert not is_key
        self.built.append(Plus(conf.pop("plus.number")))
        return self.built[-1], conf


def test_keys_and_values(filled: str, cluster: Cluster) -> None:
    group, values, callbacks = new_group(), Plus(100), Callbacks()
    settings = {"key.deserializer": StringDeserializer(), "value.deserializer": values}
    consumer = make(cluster, {**settings, "group.id": group})
    consumer.subscribe([filled], **callbacks.all)
    messages = poll_until(consumer, until=lambda messages: len(messages) == 30, what="30 records")
    assert sorted(message.value() for message in messages) == sorted([*range(100, 110)] * 3)
    assert {message.key() for message in messages} == {"k"}
    assert set(values.contexts) == {(filled, "value")}
    assert {consumer for consumer, *_ in callbacks.details} == {consumer}
    with pytest.raises(NotImplementedError):
        consumer.consume(1, 0.1)
    # The same consumer in all else: automatic commits, and the callback at the close.
    ten = {(filled, partition): 10 for partition in range(3)}
    wait_until(lambda: committed(cluster, group) == ten, 60, "an automatic commit")
    consumer.close()
    assert [kind for kind, _ in callbacks.calls] == ["assign", "revoke"]
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)


def test_errors_have_the_message(cluster: Cluster, filled: str) -> None:
    settings = {"value.deserializer": Plus(0, fail=True), "enable.partition.eof": True}
    consumer = make(cluster, settings)
    consumer.assign([TopicPartition(filled, 0)])
    errors: list[Any] = []

    def read() -> list[Any]:
        values: list[Any] = []
        while True:
            try:
                message = consumer.poll(0.5)
            except ValueDeserializationError as error:
                errors.append(error)
            except ConsumeError as error:
                errors.append(error)
                return values
            else:
                if message is not None:
                    values.append(message.value())

    assert read() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    failed, end = errors
    assert isinstance(failed.exception, LookupError)
    assert (failed.kafka_message.partition(), failed.kafka_message.offset()) == (0, 5)
    assert end.code == KafkaError._PARTITION_EOF
    assert end.kafka_message.offset() == 10

    keys = make(cluster, {"key.deserializer": Plus(0)})
    keys.subscribe([filled])
    with pytest.raises(KeyDeserializationError):
        poll_until(keys, until=lambda _: False, what="an error")
    keys.close()
    consumer.close()


def test_builders(cluster: Cluster, filled: str) -> None:
    builder = PlusBuilder()
    settings = {"value.deserializer.builder": builder, "plus.number": 7}
    with make(cluster, settings) as consumer:
        consumer.subscribe([filled])
        (message, *_) = poll_until(consumer, until=bool, what="a record")
        assert message.value() == message.offset() + 7
        (built,) = builder.built
        assert built.closed == 0
    assert built.closed == 1
    consumer.close()
    assert built.closed == 1


def test_a_builder_is_closed_if_the_settings_are_refused(cluster: Cluster) -> None:
    builder = PlusBuilder()
    refused = {"plus.number": 1, "partition.assignment.strategy": "no-such-strategy"}
    with pytest.raises(confluent_kafka.KafkaException):
        make(cluster, {"value.deserializer.builder": builder, **refused})
    assert [built.closed for built in builder.built] == [1]
    with pytest.raises(ValueError, match="builder"):
        make(cluster, {"value.deserializer.builder": builder, "value.deserializer": Plus(1)})
