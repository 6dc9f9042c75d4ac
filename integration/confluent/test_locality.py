"""Groups of Consumers: the assignment, and that each record is read exactly once.

The expected numbers are derived in the comments, not by the code under test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from assignors.confluent.events import PartitionKey
from integration.support.confluent import Confluent
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import SteadyProducer, committed, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

SIX_MEMBERS = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
RANGE = "leader-rack-aware-range"
COOPERATIVE = "leader-rack-aware-cooperative-sticky"


def assign(
    cluster: Cluster, racks: Sequence[str], members: Mapping[str, str], strategy: str = COOPERATIVE
) -> dict[str, frozenset[PartitionKey]]:
    """Return the partitions of each member, for a topic with leaders in these racks.

    Before, wait until every acknowledged record is read, and its offset committed: Kafka refuses a
    last commit of a member that leaves while others have left and assignments are awaited.
    """
    topic = create_topic(cluster, new_name("led"), replicas_led_from(racks))
    all_partitions = {(topic, partition) for partition in range(len(racks))}
    with (
        SteadyProducer(cluster, topic, len(racks)) as producer,
        ConsumerGroup(cluster, topics=[topic], client=Confluent(strategy)) as group,
    ):
        for name, rack in members.items():
            group.start(name, rack)
        owned = group.settle(all_partitions, within=90, hold=1.0)
        wait_until(
            lambda: all(producer.acknowledged.values()), TEST_TIMEOUT, "each partition has a record"
        )
        producer.stop()
        wait_until(
            lambda: all(
                offsets <= group.reads_of((topic, partition)).offsets()
                for partition, offsets in producer.acknowledged.items()
            ),
            within=TEST_TIMEOUT,
            what="every acknowledged record is read",
        )
        ends = {(topic, p): max(offsets) + 1 for p, offsets in producer.acknowledged.items()}
        wait_until(lambda: committed(cluster, group.id) == ends, TEST_TIMEOUT, "all is committed")
    for partition, offsets in producer.acknowledged.items():
        read = [offset for _, offset, _ in group.reads_of((topic, partition)).seen]
        # No member died, so each one committed before its partitions were revoked.
        assert read == sorted(offsets)
    assert committed(cluster, group.id) == ends
    return owned


@pytest.mark.everywhere
@pytest.mark.parametrize("strategy", [RANGE, COOPERATIVE])
def test_even_leaders_are_all_local(cluster: Cluster, strategy: str) -> None:
    owned = assign(cluster, evenly(36), SIX_MEMBERS, strategy)
    assert loads(owned) == [6] * 6
    assert off_rack(cluster, owned, SIX_MEMBERS) == 0


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        # Partition i of both topics goes to one member, and their leaders are in different racks.
        (RANGE, {}, ([2, 2], 2)),
        (RANGE, {"rackward.co_partitioned": False}, ([2, 2], 0)),
        # All leaders are in a: a1 gets two of four, or three.
        (COOPERATIVE, {}, ([2, 2], 2)),
        (COOPERATIVE, {"rackward.max_imbalance": "0.5"}, ([1, 3], 1)),
    ],
)
def test_options_of_the_assignors(
    cluster: Cluster, strategy: str, options: dict[str, Any], expected: tuple[list[int], int]
) -> None:
    leaders = [["a", "b"], ["b", "a"]] if strategy == RANGE else [["a"] * 4]
    topics = [create_topic(cluster, new_name("led"), replicas_led_from(row)) for row in leaders]
    members = {"a1": "a", "b1": "b"}
    with ConsumerGroup(cluster, topics=topics, client=Confluent(strategy)) as group:
        for name, rack in members.items():
            group.start(name, rack, **options)
        everything = {
            (topic, p) for topic, row in zip(topics, leaders, strict=True) for p in range(len(row))
        }
        owned = group.settle(everything, within=TEST_TIMEOUT)
    assert (sorted(loads(owned)), off_rack(cluster, owned, members)) == expected


@pytest.mark.parametrize("cluster", ["local"], indirect=True)
def test_weights_decide_what_is_read_locally(cluster: Cluster) -> None:
    # One of three partitions led in a has to be read from b: the one with the least traffic.
    topic = create_topic(cluster, new_name("led"), replicas_led_from(["a", "a", "a", "b"]))
    options: dict[str, Any] = {"rackward.weights": {topic: [5.0, 1.0, 5.0, 5.0]}}
    with ConsumerGroup(cluster, topics=[topic], client=Confluent()) as group:
        for rack in ("a", "b"):
            group.start(rack, rack, **options)
        owned = group.settle({(topic, p) for p in range(4)}, within=TEST_TIMEOUT)
    assert owned["a"] == {(topic, 0), (topic, 2)}
