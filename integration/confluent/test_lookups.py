"""Lookups: offsets for times, watermarks, metadata, member id, group metadata and statistics."""

from __future__ import annotations

import json
import logging
import threading

import pytest
from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin._metadata import ClusterMetadata

import placement_core
from integration.support.confluent import (
    RACKWARD,
    Consumers,
    new_group,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.topics import committed, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def test_offsets_for_times(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    requested = [
        TopicPartition(filled, 0, 1000),
        TopicPartition(filled, 1, 5001),
        TopicPartition(filled, 2, 99_999),
        TopicPartition(filled, 7, 1),
    ]
    partitions = consumer.offsets_for_times(requested, timeout=60)
    assert [(p.topic, p.partition, p.offset) for p in partitions[:3]] == [
        (filled, 0, 0),
        (filled, 1, 5),
        (filled, 2, OFFSET_END),
    ]
    assert [p.error and p.error.code() for p in partitions] == [
        None,
        None,
        None,
        KafkaError._UNKNOWN_PARTITION,
    ]
    assert raised_code(consumer.offsets_for_times, []) == KafkaError._INVALID_ARG
    with pytest.raises(TypeError):
        consumer.offsets_for_times(1)
    timed_out = raised_code(
        consumer.offsets_for_times, [TopicPartition(filled, 0, 1)], timeout=0.00001
    )
    assert timed_out == KafkaError._TIMED_OUT


def test_watermarks(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    partition = TopicPartition(filled, 0)
    assert consumer.get_watermark_offsets(partition, timeout=60) == (0, 10)
    unknown_offsets = (OFFSET_INVALID, OFFSET_INVALID)
    assert consumer.get_watermark_offsets(partition, cached=True) == unknown_offsets
    consumer.assign([TopicPartition(filled, 0, 9)])
    read_records(consumer, 1)
    assert consumer.get_watermark_offsets(partition, cached=True)[1] == 10
    unknown = raised_code(consumer.get_watermark_offsets, TopicPartition(filled, 7), timeout=60)
    assert unknown == KafkaError._UNKNOWN_PARTITION
    timed_out = raised_code(consumer.get_watermark_offsets, partition, timeout=0.00001)
    assert timed_out == KafkaError._TIMED_OUT
    with pytest.raises(TypeError):
        consumer.get_watermark_offsets(1)


def test_metadata(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    consumer = consumers()
    leaders = {0: 0, 1: 2, 2: 4}
    # A broker that was fenced since then has lost its leaders.
    cluster.move_leaders(
        {placement_core.TopicPartition(filled, p): broker for p, broker in leaders.items()}
    )
    metadata = consumer.list_topics(timeout=60)
    assert type(metadata) is ClusterMetadata
    assert filled in metadata.topics
    assert set(metadata.brokers) == set(range(6))
    one = consumer.list_topics(filled, timeout=60)
    assert set(one.topics) == {filled}
    assert {p: m.leader for p, m in one.topics[filled].partitions.items()} == leaders
    missing = new_name("missing")
    error = consumer.list_topics(topic=missing, timeout=60).topics[missing].error
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert consumer.cluster_id(timeout=60) == metadata.cluster_id
    assert consumer.set_sasl_credentials("user", "password") is None


def test_member_id_and_group_metadata(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    # The commit of the transaction is the only one of the group.
    dynamic = consumers({"client.id": "me", "enable.auto.commit": False}, group=group)
    outside = dynamic.consumer_group_metadata()
    assert dynamic.memberid() is None
    dynamic.subscribe([filled])
    poll_until(dynamic, until=lambda _: dynamic.assignment(), what="an assignment")
    assert dynamic.memberid().startswith("me-")
    inside = dynamic.consumer_group_metadata()
    assert type(inside) is type(outside)
    assert inside != outside

    output = create_topic(cluster, new_name("output"), [[0, 2, 4]])
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": output}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(output, b"x", partition=0)
    producer.send_offsets_to_transaction([TopicPartition(filled, 0, 4)], inside, 60)
    producer.commit_transaction(60)
    # The marker of a committed transaction reaches __consumer_offsets a moment later.
    wait_until(lambda: committed(cluster, group) == {(filled, 0): 4}, within=60, what="offset 4")

    static = consumers({"group.instance.id": "instance-1"})
    static.subscribe([filled])
    poll_until(static, until=lambda _: static.assignment(), what="an assignment")
    assert static.memberid().startswith("instance-1-")


def test_statistics_and_log_callbacks(consumers: Consumers, filled: str) -> None:
    called: list[tuple[str, int]] = []

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            called.append(("log" if record.msg else "empty", threading.get_ident()))

    log = logging.Logger("test")
    log.addHandler(Recorder())
    consumer = consumers(
        {
            "stats_cb": lambda text: called.append(
                (json.loads(text)["type"], threading.get_ident())
            ),
            "statistics.interval.ms": 100,
            "debug": "cgrp",
            "log_level": 7,
            "logger": log,
        }
    )
    consumer.subscribe([filled])
    here = threading.get_ident()
    poll_until(
        consumer,
        until=lambda _: {("consumer", here), ("log", here)} <= set(called),
        what="statistics and a log line",
    )
    consumer.close()
    assert {thread for _, thread in called} == {here}


def test_lines_of_the_membership_go_to_the_logger(
    cluster: Cluster, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[tuple[str, int]] = []

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((record.getMessage(), threading.get_ident()))

    log = logging.Logger("test")
    log.addHandler(Recorder())
    with caplog.at_level(logging.INFO, "kafka"):
        for settings in ({"logger": log}, {}):
            consumers = Consumers(RACKWARD, cluster.bootstrap_servers)
            consumer = consumers({"client.id": "billing", **settings})
            consumer.subscribe([filled])
            read_records(consumer, 30)
            poll_until(consumer, until=lambda _: len(lines) > 5, what="log lines")
            consumers.close()
    joined = [line for line, _ in lines if "Successfully joined group" in line]
    # A leader that waits for metadata repeats its join.
    assert joined
    assert joined[0].startswith("kafka.coordinator [billing] ")
    assert {thread for _, thread in lines} == {threading.get_ident()}
    # Neither consumer wrote any of them to kafka-python's loggers.
    of_kafka = [each for each in caplog.records if each.name.startswith("kafka")]
    assert [each for each in of_kafka if each.levelno < logging.WARNING] == []
