"""Questions that a consumer answers: times, watermarks, topics, its member id and its group."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin._metadata import ClusterMetadata

from integration.support.confluent import Consumers, new_group, read, read_records
from integration.support.topics import committed, create_topic, new_name
from placement_core import TopicPartition
from rackward.clusters import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def code_of(act: Any, *arguments: Any, **named: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        act(*arguments, **named)
    return int(caught.value.args[0].code())


def test_offsets_for_times(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    asked = [At(filled, 0, 1000), At(filled, 1, 5001), At(filled, 2, 99_999), At(filled, 7, 1)]
    found = consumer.offsets_for_times(asked, timeout=60)
    assert [(p.topic, p.partition, p.offset) for p in found[:3]] == [
        (filled, 0, 0),
        (filled, 1, 5),
        (filled, 2, OFFSET_END),
    ]
    assert [p.error and p.error.code() for p in found] == [
        None,
        None,
        None,
        KafkaError._UNKNOWN_PARTITION,
    ]
    assert code_of(consumer.offsets_for_times, []) == KafkaError._INVALID_ARG
    with pytest.raises(TypeError):
        consumer.offsets_for_times(1)
    timed_out = code_of(consumer.offsets_for_times, [At(filled, 0, 1)], timeout=0.00001)
    assert timed_out == KafkaError._TIMED_OUT


def test_watermarks(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    at = At(filled, 0)
    assert consumer.get_watermark_offsets(at, timeout=60) == (0, 10)
    nothing_yet = (OFFSET_INVALID, OFFSET_INVALID)
    assert consumer.get_watermark_offsets(at, cached=True) == nothing_yet
    consumer.assign([At(filled, 0, 9)])
    read_records(consumer, 1)
    assert consumer.get_watermark_offsets(at, cached=True)[1] == 10
    unknown = code_of(consumer.get_watermark_offsets, At(filled, 7), timeout=60)
    assert unknown == KafkaError._UNKNOWN_PARTITION
    timed_out = code_of(consumer.get_watermark_offsets, at, timeout=0.00001)
    assert timed_out == KafkaError._TIMED_OUT
    with pytest.raises(TypeError):
        consumer.get_watermark_offsets(1)


def test_metadata(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    consumer = consumers()
    leaders = {0: 0, 1: 2, 2: 4}
    # A broker that was taken for dead meanwhile leads nothing when it is back.
    cluster.move_leaders({TopicPartition(filled, p): broker for p, broker in leaders.items()})
    everything = consumer.list_topics(timeout=60)
    assert type(everything) is ClusterMetadata
    assert filled in everything.topics
    assert set(everything.brokers) == set(range(6))
    one = consumer.list_topics(filled, timeout=60)
    assert set(one.topics) == {filled}
    assert {p: m.leader for p, m in one.topics[filled].partitions.items()} == leaders
    missing = new_name("missing")
    error = consumer.list_topics(topic=missing, timeout=60).topics[missing].error
    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert consumer.cluster_id(timeout=60) == everything.cluster_id
    assert consumer.set_sasl_credentials("user", "password") is None


def test_who_it_is_in_the_group(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group = new_group()
    # What it reads it must not commit: the transaction's is the group's only commit.
    dynamic = consumers({"client.id": "me", "enable.auto.commit": False}, group=group)
    outside = dynamic.consumer_group_metadata()
    assert dynamic.memberid() is None
    dynamic.subscribe([filled])
    read(dynamic, until=lambda _: dynamic.assignment(), what="an assignment")
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
    producer.send_offsets_to_transaction([At(filled, 0, 4)], inside, 60)
    producer.commit_transaction(60)
    # The transaction is decided; its marker is on its way to the offsets.
    wait_until(lambda: committed(cluster, group) == {(filled, 0): 4}, within=60, what="offset 4")

    static = consumers({"group.instance.id": "seat-1"})
    static.subscribe([filled])
    read(static, until=lambda _: static.assignment(), what="an assignment")
    assert static.memberid().startswith("seat-1-")


def test_the_callbacks_of_the_library(consumers: Consumers, filled: str) -> None:
    called: list[tuple[str, int]] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            called.append(("log" if record.msg else "empty", threading.get_ident()))

    log = logging.Logger("of this test")
    log.addHandler(Noting())
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
    read(
        consumer,
        until=lambda _: {("consumer", here), ("log", here)} <= set(called),
        what="statistics and a log line",
    )
    consumer.close()
    assert {thread for _, thread in called} == {here}
