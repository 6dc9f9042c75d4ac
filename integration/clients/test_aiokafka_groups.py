"""Assignments of groups of AIOKafkaConsumers for various layouts of racks and topics.

The expected figures are derived by hand in the comments, not by the code under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from assignors.aiokafka import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import partitions_of
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
TWELVE = {f"{rack}{number}": rack for number in range(4) for rack in "abc"}
NONE_IN_C = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
BOTH = pytest.mark.parametrize(
    "strategy",
    [LeaderRackAwareRangeAssignor, LeaderRackAwareCooperativeStickyAssignor],
    ids=["range", "sticky"],
)


def client_with(strategy: Any) -> AIOKafka:
    return AIOKafka(lambda rack: [strategy(rack=rack)])


@pytest.mark.parametrize(
    ("leaders", "members", "each", "across"),
    [
        # As many leaders in each rack as members can take.
        pytest.param(evenly(36), SIX, 6, 0, marks=pytest.mark.everywhere),
        (evenly(36), TWELVE, 3, 0),
        # Two each: the members in a hold 4 of the 10 led there, those in b and c the one led
        # in their rack and 3 more. 12 - 4 - 1 - 1 = 6.
        (["a", "a", "b", *"aaaaa", "c", *"aaa"], SIX, 2, 6),
        # Nine each: a and b read all 12 that are led there, the 12 led in c are read across.
        (evenly(36), NONE_IN_C, 9, 12),
        # Six each: a and b read 12 of the 18 led there, and c the 6 and 6 that are left.
        (["a", "b"] * 18, SIX, 6, 12),
    ],
    ids=["even", "even-twelve", "ten-in-one-rack", "no-member-in-c", "no-leader-in-c"],
)
@BOTH
def test_the_assignment_is_optimal(
    cluster: Cluster,
    strategy: Any,
    leaders: list[str],
    members: Mapping[str, str],
    each: int,
    across: int,
) -> None:
    topic = create_topic(cluster, new_name("optimum"), replicas_led_from(leaders))
    with ConsumerGroup(cluster, topics=[topic], client=client_with(strategy)) as group:
        for name, rack in members.items():
            group.start(name, rack)
        owned = group.settle(partitions_of(topic, len(leaders)))
    assert loads(owned) == [each] * len(members)
    assert off_rack(cluster, owned, members) == across


def test_a_class_with_the_rack_of_the_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKWARD_RACK", "a")
    topic = create_topic(cluster, new_name("class"), replicas_led_from(["a", "b"] * 6))
    client = AIOKafka(lambda _: (LeaderRackAwareCooperativeStickyAssignor,))
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        group.start("a1")
        group.start(
            "elsewhere", client=client_with(LeaderRackAwareCooperativeStickyAssignor), rack="b"
        )
        owned = group.settle(partitions_of(topic, 12))
    assert off_rack(cluster, owned, {"a1": "a", "elsewhere": "b"}) == 0


@BOTH
def test_topics_that_the_leader_does_not_subscribe_to(
    cluster: Cluster, strategy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers may respond late on a busy machine.
    monkeypatch.setattr("assignors.aiokafka.coordinator.METADATA_TIMEOUT", TEST_TIMEOUT)
    leader_topic, other_topic = new_name("leader"), new_name("other")
    create_topic(cluster, leader_topic, replicas_led_from(evenly(6)))
    create_topic(cluster, other_topic, replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, client=client_with(strategy)) as group:
        leader = group.start("a1", "a", topics=[leader_topic])
        group.settle(partitions_of(leader_topic, 6))
        generation = group.generation
        group.start("b1", "b", topics=[other_topic])
        owned = group.settle(
            partitions_of(leader_topic, 6) | partitions_of(other_topic, 6), hold=1.5
        )
        # It is the leader, since it has the topics of the whole group. One rebalance, and no
        # other when the metadata of the second topic arrives.
        assert leader.consumer._coordinator._group_subscription == {leader_topic, other_topic}
        assert group.generation == generation + 1
    assert owned == {"a1": partitions_of(leader_topic, 6), "b1": partitions_of(other_topic, 6)}


@pytest.mark.parametrize(
    ("strategy", "each", "across"),
    [
        # Range halves the shared topic, and each half is local.
        (LeaderRackAwareRangeAssignor, [3, 6], 0),
        # Nine partitions in all: the balanced 4 and 5 give a1 one more than is led in a.
        (LeaderRackAwareCooperativeStickyAssignor, [4, 5], 1),
    ],
    ids=["range", "sticky"],
)
def test_members_of_different_subscriptions(
    cluster: Cluster, strategy: Any, each: list[int], across: int
) -> None:
    shared, own = new_name("shared"), new_name("own")
    create_topic(cluster, shared, replicas_led_from(["a", "b"] * 3))
    create_topic(cluster, own, replicas_led_from(["b"] * 3))
    with ConsumerGroup(cluster, client=client_with(strategy)) as group:
        group.start("a1", "a", topics=[shared])
        group.start("b1", "b", topics=[shared, own])
        owned = group.settle(partitions_of(shared, 6) | partitions_of(own, 3))
    assert partitions_of(own, 3) <= owned["b1"]
    assert loads(owned) == each
    assert off_rack(cluster, owned, {"a1": "a", "b1": "b"}) == across


@BOTH
def test_a_pattern_of_a_member_that_does_not_lead(cluster: Cluster, strategy: Any) -> None:
    leader_topic, stem = new_name("leader"), new_name("stem")
    create_topic(cluster, leader_topic, replicas_led_from(evenly(3)))
    create_topic(cluster, f"{stem}-1", replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, client=client_with(strategy)) as group:
        group.start("a1", "a", topics=[leader_topic])
        group.settle(partitions_of(leader_topic, 3))
        group.start("b1", "b", pattern=f"{stem}-.*")
        group.settle(partitions_of(leader_topic, 3) | partitions_of(f"{stem}-1", 6))
        create_topic(cluster, f"{stem}-2", replicas_led_from(evenly(6, seed=8)))
        owned = group.settle(
            partitions_of(leader_topic, 3)
            | partitions_of(f"{stem}-1", 6)
            | partitions_of(f"{stem}-2", 6),
            hold=1.0,
        )
    assert owned["a1"] == partitions_of(leader_topic, 3)
