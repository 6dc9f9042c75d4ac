"""Where leaders are, and what that makes of an assignment, counted apart from the code."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

from kafka import TopicPartition

from integration.support.clients import Place
from integration.support.groups import ConsumerGroup
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until

BROKERS = {"a": (0, 1), "b": (2, 3), "c": (4, 5)}
"""The brokers of the shared cluster, by rack."""

OTHERS = {"a": ("b", "c"), "b": ("c", "a"), "c": ("a", "b")}


def replicas_led_from(racks: Iterable[str], seed: int = 7) -> list[list[int]]:
    """Three replicas in three racks for each partition, the leader in the rack it names."""
    rng = random.Random(seed)
    return [
        [rng.choice(BROKERS[rack]), *(rng.choice(BROKERS[other]) for other in OTHERS[rack])]
        for rack in racks
    ]


def evenly(count: int, seed: int = 7) -> list[str]:
    """As many leaders in each rack, in an order that follows no pattern."""
    racks = [("a", "b", "c")[index % 3] for index in range(count)]
    random.Random(seed).shuffle(racks)
    return racks


def off_rack(
    cluster: Cluster, owned: Mapping[str, Iterable[Place]], racks: Mapping[str, str | None]
) -> int:
    """How many partitions their owners read from another rack, as the metadata is now."""
    view = cluster.view(sorted({topic for places in owned.values() for topic, _ in places}))
    standing = {broker.id: broker.rack for broker in view.brokers}
    leaders = {tuple(place): standing[broker] for place, broker in view.leaders.items()}
    return sum(
        leaders.get(place) is not None and leaders[place] != racks[member]
        for member, places in owned.items()
        for place in places
    )


def wait_for_leaders(cluster: Cluster, topic: str, racks: Mapping[str, int]) -> None:
    """Wait until every broker knows that so many of the topic's leaders are in each rack."""
    wait_until(
        lambda: Counter(cluster.view([topic]).leader_racks().get(topic)) == racks,
        PATIENCE,
        f"of {topic} the racks lead {racks}",
    )
    cluster.await_metadata()


def wait_for_members(cluster: Cluster, topic: str, group: ConsumerGroup) -> None:
    """Wait until every member, a KafkaConsumer, knows the topic's leaders as the cluster does."""
    leaders = cluster.view([topic]).leaders
    wait_until(
        lambda: all(
            member.consumer._cluster.leader_for_partition(TopicPartition(*place)) == broker
            for member in group.members.values()
            for place, broker in leaders.items()
        ),
        PATIENCE,
        f"all of {sorted(group.members)} know the leaders of {topic}",
    )


def loads(owned: Mapping[str, Iterable[Place]]) -> list[int]:
    """How many partitions each member has, sorted."""
    return sorted(len(list(places)) for places in owned.values())
