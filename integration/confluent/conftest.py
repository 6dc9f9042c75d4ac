"""What is tested here runs on confluent_kafka's own Consumer and on ours."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from integration.confluent.variants import CONFLUENT, RACKWARD, Consumers, Variant
from integration.topics import new_name
from rackward.clusters import Cluster

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
    topic = new_name("filled")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    made = admin.create_topics(
        [
            NewTopic(
                topic,
                num_partitions=3,
                replica_assignment=[[0, 2, 4], [2, 4, 0], [4, 0, 2]],
                # The records are from 1970.
                config={"retention.ms": "-1"},
            )
        ]
    )
    made[topic].result(60)
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
    assert producer.flush(60) == 0
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
        deadline = time.monotonic() + 60
        while True:
            try:
                consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
                break
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
        consumer.close()
