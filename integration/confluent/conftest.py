"""Fixtures: consumers that are closed after the test, and a topic with records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

# Imported by the fixtures: a missing extra must skip tests, not break the collection.
if TYPE_CHECKING:
    from integration.support.confluent import Consumers

RECORDS = 10
"""Per partition of `filled`."""


@pytest.fixture
def consumers(cluster: Cluster) -> Iterator[Consumers]:
    from integration.support.confluent import RACKWARD, Consumers

    consumers = Consumers(RACKWARD, cluster.bootstrap_servers)
    yield consumers
    consumers.close()


@pytest.fixture(scope="session")
def filled(cluster: Cluster) -> str:
    """A topic of three partitions with ten records each. No test writes to it.

    Record i of a partition has the value b"i", the key b"k", the headers [("n", b"i"),
    ("none", None)] and the timestamp 1000 * (i + 1).
    """
    from confluent_kafka import Producer

    from integration.support.topics import create_topic, new_name

    # Retention would delete the records: their timestamps are of 1970.
    replicas = [[0, 2, 4], [2, 4, 0], [4, 0, 2]]
    topic = create_topic(cluster, new_name("filled"), replicas, retention_ms="-1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for index in range(RECORDS):
        for partition in range(3):
            producer.produce(
                topic,
                value=str(index).encode(),
                key=b"k",
                partition=partition,
                headers=[("n", str(index).encode()), ("none", None)],
                timestamp=1000 * (index + 1),
            )
    assert producer.flush(TEST_TIMEOUT) == 0
    _await_coordinators(cluster, topic)
    return topic


def _await_coordinators(cluster: Cluster, topic: str) -> None:
    """Wait until every group has a coordinator: before that, commits fail with _NO_COORDINATOR.

    The hashes of the group names are consecutive, so the groups belong to all partitions of
    __consumer_offsets.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    for number in range(10):
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"first-{number}"}
        consumer = Consumer(settings)
        deadline = time.monotonic() + TEST_TIMEOUT
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
                break
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        consumer.close()
