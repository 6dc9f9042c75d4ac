"""Racks of leaders on the shared cluster, and off-rack partitions, counted without rackward."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kafka import TopicPartition

from assignors import LeaderRackAwareCooperativeSticky, Member
from integration.support.clients import PartitionId
from integration.support.groups import ConsumerGroup
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

BROKERS = {"a": (0, 1), "b": (2, 3), "c": (4, 5)}
"""The brokers of the shared cluster, by rack."""

OTHERS = {"a": ("b", "c"), "b": ("c", "a"), "c": ("a", "b")}


def replicas_led_from(racks: Iterable[str]) -> list[list[int]]:
    """Return replica lists with one replica per rack; ``racks`` are the racks of the leaders."""
    rng = random.Random(7)
    return [
        [rng.choice(BROKERS[rack]), *(rng.choice(BROKERS[other]) for other in OTHERS[rack])]
        for rack in racks
    ]


def evenly(count: int, seed: int = 7) -> list[str]:
    """Return ``count`` racks in random order, with every rack equally often."""
    racks = [("a", "b", "c")[index % 3] for index in range(count)]
    random.Random(seed).shuffle(racks)
    return racks


def off_rack(
    cluster: Cluster, owned: Mapping[str, Iterable[PartitionId]], racks: Mapping[str, str | None]
) -> int:
    """Return the number of partitions whose leader and owner are in different racks."""
    view = cluster.view(sorted({topic for tps in owned.values() for topic, _ in tps}))
    broker_racks = view.racks()
    leaders = {tuple(tp): broker_racks[broker] for tp, broker in view.known_leaders.items()}
    return sum(
        leaders.get(tp) is not None and leaders[tp] != racks[member]
        for member, tps in owned.items()
        for tp in tps
    )


def shortfall(
    owned: Mapping[str, Iterable[PartitionId]],
    racks: Mapping[str, str | None],
    leader_racks: Mapping[str, Sequence[str | None]],
) -> str:
    """Return what is not the best about an assignment of all topics of ``leader_racks``, or "".

    The best loads, and then the fewest off-rack partitions, are those that the solver proves.
    """
    best = LeaderRackAwareCooperativeSticky().assign(
        [Member(name, frozenset(leader_racks), rack) for name, rack in racks.items()], leader_racks
    )
    off = sum(
        leader_racks[topic][partition] not in (None, racks[member])
        for member, tps in owned.items()
        for topic, partition in tps
    )
    found = {name: list(tps) for name, tps in owned.items()}
    if (loads(found), off) == (sorted(best.loads.values()), best.optimum):
        return ""
    return (
        f"loads {loads(found)} with {off} partitions off-rack,"
        f" instead of {sorted(best.loads.values())} with {best.optimum}"
    )


def wait_for_leaders(cluster: Cluster, topic: str, racks: Mapping[str, int]) -> None:
    """Wait until the number of the topic's leaders per rack is ``racks``, on every broker."""
    wait_until(
        lambda: Counter(cluster.view([topic]).leader_racks().get(topic)) == racks,
        TEST_TIMEOUT,
        f"the leaders of {topic} per rack are {racks}",
    )
    cluster.await_metadata()


def wait_for_members(cluster: Cluster, topic: str, group: ConsumerGroup) -> None:
    """Wait until every member has the topic's current leaders. Members are KafkaConsumers."""
    leaders = cluster.view([topic]).known_leaders
    wait_until(
        lambda: all(
            member.consumer._cluster.leader_for_partition(TopicPartition(*tp)) == broker
            for member in group.members.values()
            for tp, broker in leaders.items()
        ),
        TEST_TIMEOUT,
        f"{sorted(group.members)} have the leaders of {topic}",
    )


def loads(owned: Mapping[str, Iterable[PartitionId]]) -> list[int]:
    """Return the number of partitions of each member, sorted."""
    return sorted(len(list(tps)) for tps in owned.values())
