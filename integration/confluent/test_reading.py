"""Messages, poll, consume, seek, pause and start offsets, with a manual assignment."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from integration.support.confluent import (
    Consumers,
    partition_offsets,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.topics import create_topic, new_name
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def test_a_message_has_the_fields_that_were_sent(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    consumer.assign([TopicPartition(filled, 1, 3)])
    message = consumer.poll(60)
    assert type(message) is Message
    assert message.error() is None
    assert (message.topic(), message.partition(), message.offset()) == (filled, 1, 3)
    assert (message.key(), message.value(), len(message)) == (b"k", b"3", 1)
    assert message.headers() == [("n", b"3"), ("none", None)]
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 4000)
    assert message.leader_epoch() == 0
    assert message.latency() is None


def test_timeouts_of_poll_and_consume(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    started = time.monotonic()
    assert consumer.poll(0) is None
    assert consumer.poll(timeout=0.01) is None
    assert consumer.consume(timeout=0.01) == []
    assert consumer.consume(0, 0.01) == []
    assert time.monotonic() - started < 10
    started = time.monotonic()
    assert consumer.poll(0.3) is None
    assert consumer.consume(num_messages=5, timeout=0.3) == []
    assert 0.55 <= time.monotonic() - started < 10

    for wrong in (None, "1", [1]):
        with pytest.raises(TypeError):
            consumer.poll(wrong)
        with pytest.raises(TypeError):
            consumer.consume(1, wrong)
    with pytest.raises(TypeError):
        consumer.consume("1")
    for count in (1_000_001, -1):
        with pytest.raises(ValueError, match="num_messages must be between 0 and 1000000"):
            consumer.consume(count, 0)

    consumer.assign([TopicPartition(filled, 0, 0)])
    assert consumer.poll().offset() == 0
    assert [m.offset() for m in consumer.consume()] == [1]
    assert [m.offset() for m in consumer.consume(num_messages=3)] == [2, 3, 4]
    # With fewer records than num_messages, consume returns them after the timeout.
    started = time.monotonic()
    assert [m.offset() for m in consumer.consume(100, 0.5)] == [5, 6, 7, 8, 9]
    assert time.monotonic() - started >= 0.45


def test_start_offsets(consumers: Consumers, filled: str) -> None:
    consumer = consumers({"enable.auto.commit": False})
    consumer.assign([TopicPartition(filled, 0, 8), TopicPartition(filled, 2, OFFSET_BEGINNING)])
    assert partition_offsets(read_records(consumer, 12)) == [
        *((0, n) for n in (8, 9)),
        *((2, n) for n in range(10)),
    ]
    consumer.assign([TopicPartition(filled, 0, OFFSET_END), TopicPartition(filled, 1, 9)])
    assert partition_offsets(read_records(consumer, 1)) == [(1, 9)]
    assert consumer.poll(0.5) is None
    # Without a committed offset, and for one out of range, auto.offset.reset applies.
    consumer.assign([TopicPartition(filled, 0, OFFSET_STORED), TopicPartition(filled, 1, 99)])
    assert partition_offsets(read_records(consumer, 20)) == [
        (p, n) for p in (0, 1) for n in range(10)
    ]
    consumer.commit(offsets=[TopicPartition(filled, 0, 7)], asynchronous=False)
    consumer.assign([TopicPartition(filled, 0)])
    assert partition_offsets(read_records(consumer, 3)) == [(0, 7), (0, 8), (0, 9)]


def test_auto_offset_reset(consumers: Consumers, filled: str) -> None:
    consumer = consumers({"auto.offset.reset": "latest"})
    consumer.assign([TopicPartition(filled, 0), TopicPartition(filled, 1, 9)])
    assert partition_offsets(read_records(consumer, 1)) == [(1, 9)]
    assert consumer.poll(0.5) is None

    consumer = consumers({"auto.offset.reset": "error"})
    consumer.assign([TopicPartition(filled, 0), TopicPartition(filled, 1, 99)])
    messages = poll_until(
        consumer, until=lambda messages: len(errors_of(messages)) == 2, what="two errors"
    )
    assert errors_of(messages) == {
        (0, KafkaError._AUTO_OFFSET_RESET, None),
        (1, KafkaError._AUTO_OFFSET_RESET, 99),
    }


def errors_of(messages: list[Any]) -> set[tuple[int, int, int | None]]:
    return {(m.partition(), m.error().code(), m.offset()) for m in messages}


def test_end_of_partition(consumers: Consumers, filled: str) -> None:
    consumer = consumers({"enable.partition.eof": True})
    consumer.assign([TopicPartition(filled, p, 9) for p in range(3)])
    messages = poll_until(
        consumer, until=lambda messages: len(messages) == 6, what="three records, three ends"
    )
    ends = [m for m in messages if m.error() is not None]
    assert errors_of(ends) == {(p, KafkaError._PARTITION_EOF, 10) for p in range(3)}
    assert all(m.topic() == filled and m.value() for m in ends)
    assert consumer.poll(0.5) is None


def test_seek_and_position(consumers: Consumers, filled: str) -> None:
    def position() -> int:
        (messages,) = consumer.position([TopicPartition(filled, 0)])
        assert messages.error is None
        return int(messages.offset)

    consumer = consumers()
    assert position() == OFFSET_INVALID
    with pytest.raises(KafkaException) as caught:
        consumer.seek(TopicPartition(filled, 0, 1))
    assert caught.value.args[0].code() == KafkaError._STATE

    consumer.assign([TopicPartition(filled, 0, 2)])
    assert position() == OFFSET_INVALID
    assert consumer.poll(60).offset() == 2
    assert position() == 3
    consumer.seek(TopicPartition(filled, 0, 7))
    # Unknown until a record has been read from there.
    assert position() == OFFSET_INVALID
    assert consumer.poll(60).offset() == 7
    assert position() == 8
    consumer.seek(TopicPartition(filled, 0, OFFSET_END))
    assert consumer.poll(0.5) is None
    consumer.seek(TopicPartition(filled, 0, OFFSET_BEGINNING))
    assert consumer.poll(60).offset() == 0

    with pytest.raises(KafkaException) as caught:
        consumer.seek(TopicPartition(filled, 0, OFFSET_STORED))
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG
    with pytest.raises(KafkaException) as caught:
        consumer.seek(TopicPartition(filled, 9, 1))
    assert caught.value.args[0].code() == KafkaError._STATE
    with pytest.raises(TypeError):
        consumer.seek(3)
    with pytest.raises(TypeError):
        consumer.position(3)
    assert consumer.position([]) == []
    (unknown,) = consumer.position([TopicPartition(new_name("none"), 3)])
    assert (unknown.offset, unknown.error) == (OFFSET_INVALID, None)


def test_pause_and_resume(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    both = [TopicPartition(filled, 0), TopicPartition(filled, 1)]
    assert consumer.pause([TopicPartition(new_name("none"), 0)]) is None
    consumer.assign([TopicPartition(filled, 0, 0), TopicPartition(filled, 1, 0)])
    assert consumer.poll(60) is not None
    assert consumer.pause(both) is None
    assert consumer.consume(20, 0.7) == []
    (position,) = consumer.position(both[:1])
    # No record is skipped or read twice.
    assert consumer.resume(both[:1]) is None
    after = max(position.offset, 0)
    assert partition_offsets(read_records(consumer, 10 - after)) == [
        (0, n) for n in range(after, 10)
    ]
    assert consumer.poll(0.3) is None
    assert consumer.resume(both) is None
    rest = partition_offsets(read_records(consumer, 1))
    assert rest[0][0] == 1
    for method in (consumer.pause, consumer.resume):
        with pytest.raises(TypeError):
            method(1)


def test_isolation_levels(consumers: Consumers, cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("log"), [[0, 2, 4]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
        end(60)
    # The log: an aborted record, its marker, a committed record, its marker.
    committed, uncommitted = (
        consumers({"isolation.level": level}) for level in ("read_committed", "read_uncommitted")
    )
    for consumer, expected in ((committed, [2]), (uncommitted, [0, 2])):
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [m.offset() for m in read_records(consumer, len(expected))] == expected
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 4)


def test_a_seek_before_partitions_are_assigned(consumers: Consumers, filled: str) -> None:
    consumer, codes = consumers(), []

    def seek(*_: object) -> None:
        codes.append(raised_code(consumer.seek, TopicPartition(filled, 0, 5)))

    seek()
    consumer.subscribe([filled], on_assign=seek)
    seek()
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    assert codes == [KafkaError._UNKNOWN_PARTITION] * 3
