"""Reads from leaders on brokers that redirect clients to the nearest replica (KIP-392)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition

from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as AioSticky
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, partitions_of
from integration.support.confluent import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import off_rack
from integration.support.topics import create_topic, fill, new_name
from rackward.testing import Cluster, LocalCluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

FOLLOWER_DELAY = 3.0
"""Seconds until a follower shows a record after the last one: its high watermark is then sent."""

RACKS = {"a1": "a", "b1": "b"}
LED_BY = (0, 0, 0, 1)
LED_BY_LATER = (1, 1, 1, 0)

# Of each member only the rack of its client is set, not that of its assignor.
CLIENTS = {
    "kafka-python": (KafkaPython(lambda _: [Sticky()]), "client_rack"),
    "aiokafka": (AIOKafka(lambda _: [AioSticky()]), "client_rack"),
    "confluent": (Confluent(), "client.rack"),
}


@pytest.fixture(scope="module")
def redirecting() -> Iterator[Cluster]:
    """Brokers 0 and 1 in racks a and b, whose followers are read by clients that send a rack."""
    properties = {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "replica.fetch.wait.max.ms": str(int(FOLLOWER_DELAY * 1000)),
    }
    with LocalCluster(("a", "b"), server_properties=properties) as cluster:
        yield cluster


@pytest.mark.parametrize(("client", "option"), CLIENTS.values(), ids=CLIENTS)
def test_members_with_a_client_rack_read_leaders_only(
    redirecting: Cluster, client: MakeClient, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    topic = create_topic(redirecting, new_name("led"), [[led, 1 - led] for led in LED_BY])
    tps = partitions_of(topic, len(LED_BY))
    with ConsumerGroup(redirecting, topics=[topic], client=client) as group:
        for name, rack in RACKS.items():
            settings: dict[str, Any] = {option: rack}
            group.start(name, rack, **settings)
        # Two each: a1 reads two of the three that are led in a, b1 the other and its local one.
        assert off_rack(redirecting, group.settle(tps), RACKS) == 1
        assert share_of_broker_0(redirecting, group, topic, 50) == pytest.approx(3 / 4, abs=0.03)
        acknowledged_is_visible(redirecting, group, topic)

        moves = {TopicPartition(topic, p): led for p, led in enumerate(LED_BY_LATER)}
        redirecting.move_leaders(moves)
        fill_and_read(redirecting, group, topic, 55)
        assert share_of_broker_0(redirecting, group, topic, 105) == pytest.approx(1 / 4, abs=0.03)


def fill_and_read(cluster: Cluster, group: ConsumerGroup, topic: str, end: int) -> None:
    """Write to all partitions, and wait until they are read up to offset ``end``."""
    reads = [group.reads_of(tp) for tp in partitions_of(topic, len(LED_BY))]
    fill(cluster, topic, len(LED_BY), end - max(len(each.offsets()) for each in reads))
    wait_until(
        lambda: all(len(each.offsets()) == end for each in reads), TEST_TIMEOUT, f"{end} are read"
    )


def share_of_broker_0(cluster: Cluster, group: ConsumerGroup, topic: str, end: int) -> float:
    """Return the share of the bytes that broker 0 sends while the group reads more records."""
    before = cluster.bytes_out()
    fill_and_read(cluster, group, topic, end)
    sent: Counter[int] = Counter()
    for (rack, broker), count in cluster.bytes_out().items():
        sent[broker] += count - before[rack, broker]
    return sent[0] / sent.total()


def acknowledged_is_visible(cluster: Cluster, group: ConsumerGroup, topic: str) -> None:
    """Write one record at a time, and wait until it is read, for half of FOLLOWER_DELAY at most."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers.split(","), acks="all")
    try:
        for partition in range(len(LED_BY)):
            sent = producer.send(topic, b"x", partition=partition).get(TEST_TIMEOUT)
            acknowledged, reads = time.monotonic(), group.reads_of((topic, partition))
            while sent.offset not in reads.offsets():
                assert time.monotonic() - acknowledged < FOLLOWER_DELAY / 2, (
                    f"{sent} is not visible"
                )
                time.sleep(0.01)
    finally:
        producer.close()
