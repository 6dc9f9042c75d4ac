"""What is tested here runs on confluent_kafka's own Consumer and on ours."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from integration.support.confluent import CONFLUENT, RACKWARD, Consumers, Variant
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE

RECORDS = 10
"""In each of the three partitions of `filled`."""


@pytest.fixture(params=[CONFLUENT, RACKWARD], ids=str)
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    return found


@pytest.fixture
def consumers(variant: Variant, cluster: Cluster) -> Iterator[Consumers]:
    made = Consumers(variant, cluster.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture(scope="session")
def filled(cluster: Cluster) -> str:
    """A topic of three partitions with ten records each, that no test writes to.

    Record i of a partition has the value b"i", the key b"k", the headers [("n", b"i"),
    ("none", None)] and the timestamp 1000 * (i + 1).
    """
    # The records are from 1970.
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
    assert producer.flush(PATIENCE) == 0
    _coordinators(cluster, topic)
    return topic


def _coordinators(cluster: Cluster, topic: str) -> None:
    """Wait until every group has a coordinator; till then a consumer may be told that it has none.

    The names are of consecutive hashes, so the coordinators are those of all partitions of the
    offsets' topic.
    """
    for number in range(10):
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": f"first-{number}"}
        consumer = Consumer(settings)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
                break
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        consumer.close()
