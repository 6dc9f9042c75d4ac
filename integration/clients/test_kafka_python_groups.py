"""Assignments of groups of KafkaConsumers for various layouts of racks and topics.

The expected figures are derived by hand in the comments, not by the code under test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.clients import partitions_of
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
BOTH = pytest.mark.parametrize(
    "strategy", [LeaderRackAwareRangeAssignor, LeaderRackAwareCooperativeStickyAssignor]
)


@contextmanager
def group_of(
    cluster: Cluster, strategy: Any, topic: str, racks: Mapping[str, str | None]
) -> Iterator[ConsumerGroup]:
    with ConsumerGroup(
        cluster, topics=[topic], strategies=lambda rack: [strategy(rack=rack)]
    ) as group:
        for name, rack in racks.items():
            group.start(name, rack)
        yield group


@pytest.mark.everywhere
@BOTH
def test_evenly_distributed_leaders_are_all_local(cluster: Cluster, strategy: Any) -> None:
    topic = create_topic(cluster, new_name("even"), replicas_led_from(evenly(36)))
    with group_of(cluster, strategy, topic, SIX) as group:
        owned = group.settle(partitions_of(topic, 36))
    assert loads(owned) == [6] * 6
    assert off_rack(cluster, owned, SIX) == 0


@BOTH
def test_ten_of_twelve_leaders_in_one_rack(cluster: Cluster, strategy: Any) -> None:
    # Two each: the members in a hold 4 of the 10 led there, those in b and c the one led in
    # their rack and 3 more. 12 - 4 - 1 - 1 = 6 are off-rack.
    racks = ["a", "a", "b", *"aaaaa", "c", *"aaa"]
    topic = create_topic(cluster, new_name("skewed"), replicas_led_from(racks))
    with group_of(cluster, strategy, topic, SIX) as group:
        owned = group.settle(partitions_of(topic, 12))
    assert loads(owned) == [2] * 6
    assert off_rack(cluster, owned, SIX) == 6


@BOTH
def test_a_rack_without_members(cluster: Cluster, strategy: Any) -> None:
    # Nine each: a and b read all 12 that are led there, the 12 led in c are read across.
    members = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    topic = create_topic(cluster, new_name("no-c"), replicas_led_from(evenly(36)))
    with group_of(cluster, strategy, topic, members) as group:
        owned = group.settle(partitions_of(topic, 36))
    assert loads(owned) == [9] * 4
    assert off_rack(cluster, owned, members) == 12


@BOTH
def test_a_member_without_a_rack(
    cluster: Cluster, strategy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Six each: nothing is local to the member without a rack, all others read local ones only.
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    members: dict[str, str | None] = {**SIX, "c2": None}
    topic = create_topic(cluster, new_name("no-rack"), replicas_led_from(evenly(36)))
    with group_of(cluster, strategy, topic, members) as group:
        owned = group.settle(partitions_of(topic, 36))
    assert loads(owned) == [6] * 6
    assert off_rack(cluster, owned, members) == 6


@pytest.mark.slow
def test_a_broker_without_a_rack(cluster: Cluster) -> None:
    # Four each: a and b have their own 4; the 4 of the broker without a rack cost nothing.
    members = {"a1": "a", "b1": "b", "b2": "b"}
    with type(cluster)(("a", "b", None)) as smaller:  # type: ignore[call-arg]
        topic = create_topic(smaller, "t", [[p % 3] for p in range(12)])
        for strategy in (LeaderRackAwareRangeAssignor, LeaderRackAwareCooperativeStickyAssignor):
            with group_of(smaller, strategy, topic, members) as group:
                owned = group.settle(partitions_of(topic, 12))
            assert loads(owned) == [4] * 3
            assert off_rack(smaller, owned, members) == 0


@BOTH
def test_topics_that_the_leader_does_not_subscribe_to(
    cluster: Cluster, strategy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers may respond late on a busy machine.
    monkeypatch.setattr("assignors.kafka_python.leading.METADATA_TIMEOUT", TEST_TIMEOUT)
    leader_topic, other_topic = new_name("leader"), new_name("other")
    create_topic(cluster, leader_topic, replicas_led_from(evenly(6)))
    create_topic(cluster, other_topic, replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, strategies=lambda rack: [strategy(rack=rack)]) as group:
        leader = group.start("a1", "a", topics=[leader_topic])
        group.settle(partitions_of(leader_topic, 6))
        generation = group.generation
        group.start("b1", "b", topics=[other_topic])
        owned = group.settle(
            partitions_of(leader_topic, 6) | partitions_of(other_topic, 6), hold=1.5
        )
        assert leader.consumer._coordinator._is_leader
        # One rebalance, and no other when the metadata of the second topic arrives.
        assert group.generation == generation + 1
    assert owned == {"a1": partitions_of(leader_topic, 6), "b1": partitions_of(other_topic, 6)}


def test_a_new_leader_keeps_assignments_of_topics_without_metadata(cluster: Cluster) -> None:
    one, other = new_name("one"), new_name("other")
    create_topic(cluster, one, replicas_led_from(evenly(6)))
    create_topic(cluster, other, replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster) as group:
        group.start("a1", "a", topics=[one])
        group.settle(partitions_of(one, 6))
        group.start("b1", "b", topics=[one])
        group.start("c1", "c", topics=[other])
        group.settle(partitions_of(one, 6) | partitions_of(other, 6))
        before = group.generation
        since = group.history[-1].when
        group.stop("a1")
        owned = group.settle(
            partitions_of(one, 6) | partitions_of(other, 6), after=before, hold=1.0
        )
        revoked = [c for c in group.history if c.kind != "assigned" and c.when > since]
        assert {change.member for change in revoked} == {"a1"}
    assert owned == {"b1": partitions_of(one, 6), "c1": partitions_of(other, 6)}


@BOTH
def test_a_pattern_of_a_member_that_does_not_lead(cluster: Cluster, strategy: Any) -> None:
    leader_topic, stem = new_name("leader"), new_name("stem")
    create_topic(cluster, leader_topic, replicas_led_from(evenly(3)))
    create_topic(cluster, f"{stem}-1", replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, strategies=lambda rack: [strategy(rack=rack)]) as group:
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
