"""Clusters that take long to prepare, shared by the groups of all clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, create_topics, new_name, with_admin
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

CLIENTS: tuple[MakeClient, ...] = (KafkaPython(), AIOKafka())
MEMBERS = {"a1": "a", "b1": "b", "c1": "c"}


@pytest.fixture
def without_broker_five(cluster: Cluster) -> Iterator[None]:
    """Start broker 5, in rack c, again after the test."""
    yield
    cluster.start_broker(5)


@pytest.mark.usefixtures("without_broker_five")
def test_partitions_without_a_leader(cluster: Cluster) -> None:
    # Twelve partitions of one replica each, four in each rack. Those of broker 5 have no leader
    # after its death. They are local to no member, but are still assigned.
    topic = create_topic(cluster, new_name("dead"), [[(0, 2, 5)[p % 3]] for p in range(12)])
    cluster.kill_broker(5)
    wait_until(
        lambda: len(cluster.view([topic]).known_leaders) == 8,
        within=TEST_TIMEOUT,
        what="partitions of broker 5 have no leader",
    )
    for client in CLIENTS:
        with ConsumerGroup(cluster, topics=[topic], client=client) as group:
            for name, rack in MEMBERS.items():
                group.start(name, rack)
            owned = group.settle({(topic, partition) for partition in range(12)})
            assert loads(owned) == [4] * 3
            assert off_rack(cluster, owned, MEMBERS) == 0


@pytest.mark.slow
def test_two_thousand_topics(cluster: Cluster) -> None:
    stem = new_name("many")
    racks = evenly(2000)
    names = [f"{stem}-{index:04d}" for index in range(2000)]
    for start in range(0, 2000, 500):
        create_topics(
            cluster,
            {
                name: [replicas[:1]]
                for name, replicas in zip(
                    names[start : start + 500],
                    replicas_led_from(racks[start : start + 500]),
                    strict=True,
                )
            },
        )
    try:
        for client in CLIENTS:
            with ConsumerGroup(
                cluster,
                topics=names,
                client=client,
                metadata_max_age_ms=60_000,
                session_timeout_ms=20_000,
            ) as group:
                for name, rack in MEMBERS.items():
                    group.start(name, rack)
                owned = group.settle({(name, 0) for name in names})
            # 667 leaders in a and b, 666 in c; 667, 667 and 666 partitions each.
            assert loads(owned) == [666, 667, 667]
            assert off_rack(cluster, owned, MEMBERS) == 0
    finally:
        with_admin(cluster, lambda admin: admin.delete_topics(names))
