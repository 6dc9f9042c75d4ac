"""Odd members, topics and partitions in live groups: they settle, and the log says it once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from integration.support.clients import Place
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, delete_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE


def places(topic: str, count: int) -> set[Place]:
    return {(topic, partition) for partition in range(count)}


def said(caplog: pytest.LogCaptureFixture, part: str) -> int:
    return sum(part in record.getMessage() for record in caplog.records)


class RandomUserData(LeaderRackAwareCooperativeStickyAssignor):
    """Sends random bytes for user data, another lot at each join."""

    bytes_of = random.Random(3).randbytes

    def metadata(self, topics: Any) -> Any:
        said = super().metadata(topics)
        said.user_data = b"\xfe" + self.bytes_of(200)
        said.rack_id = None
        return said


class CutShort(LeaderRackAwareCooperativeStickyAssignor):
    """Sends a subscription that ends in its middle."""

    def metadata(self, topics: Any) -> Any:
        encoded: bytes = super().metadata(topics).encode()
        return encoded[: len(encoded) - 3]


def test_members_that_send_garbage(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = create_topic(cluster, new_name("garbage"), replicas_led_from(evenly(12)))
    with ConsumerGroup(cluster, topics=[topic]) as group:
        group.start("a1", "a")
        group.settle(places(topic, 12))
        group.start("random", strategies=[RandomUserData()])
        group.start("short", strategies=[CutShort()])
        group.settle(places(topic, 12))
        before = group.generation
        group.start("b1", "b")
        owned = group.settle(places(topic, 12), after=before)
        racks = {"a1": "a", "b1": "b", "random": None, "short": None}
        # Three each: a1 and b1 fill up with their own 4, the other 6 are off-rack.
        assert loads(owned) == [3] * 4
        assert off_rack(cluster, owned, racks) == 6
        assert said(caplog, "sent what cannot be read, so that part counts for nothing: user") == 1
        assert said(caplog, "sent what cannot be read, so that part counts for nothing: sub") == 1


def test_a_topic_that_does_not_exist_yet(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    there, absent = new_name("there"), new_name("absent")
    create_topic(cluster, there, replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, topics=[there]) as group:
        group.start("a1", "a")
        group.settle(places(there, 6))
        group.start("b1", "b", topics=[there, absent])
        group.settle(places(there, 6), hold=1.0)
        before = group.generation
        group.start("c1", "c")
        group.settle(places(there, 6), after=before)
        assert said(caplog, f"topic {absent} is subscribed to but does not exist") == 1
        create_topic(cluster, absent, replicas_led_from(evenly(3)))
        owned = group.settle(places(there, 6) | places(absent, 3))
    assert places(absent, 3) <= owned["b1"]


def test_a_member_that_subscribes_to_five_thousand_topics_that_are_not_there(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of brokers that are slow and not silent, by members that take a while to read the answer.
    monkeypatch.setattr("assignors.kafka_python.coordinator.METADATA_PATIENCE", PATIENCE)
    there, stem = new_name("there"), new_name("absent")
    absent = [f"{stem}-{number:04}" for number in range(5000)]
    create_topic(cluster, there, replicas_led_from(evenly(12)))
    with ConsumerGroup(cluster, topics=[there], metadata_max_age_ms=60_000) as group:
        group.start("a1", "a")
        group.settle(places(there, 12))
        group.start("greedy", "b", topics=[there, *absent])
        group.settle(places(there, 12))
        before = group.generation
        group.start("c1", "c")
        owned = group.settle(places(there, 12), after=before)
        assert loads(owned) == [4] * 3
        assert off_rack(cluster, owned, {"a1": "a", "greedy": "b", "c1": "c"}) == 0
        # Some are named, and all are counted.
        assert said(caplog, "is subscribed to but does not exist") == 50
        assert said(caplog, "5000 topics are subscribed to but not there") == 1


def test_a_topic_deleted_during_a_rebalance(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    stays, goes = new_name("stays"), new_name("goes")
    create_topic(cluster, stays, replicas_led_from(evenly(12)))
    create_topic(cluster, goes, replicas_led_from(evenly(12)))
    with ConsumerGroup(cluster, topics=[stays, goes]) as group:
        group.start("a1", "a")
        group.start("b1", "b")
        group.settle(places(stays, 12) | places(goes, 12))
        group.start("c1", "c")
        delete_topic(cluster, goes)
        owned = group.settle(places(stays, 12), hold=1.0)
        # Counted before they leave: whoever then comes to lead says it for itself.
        assert said(caplog, f"topic {goes} is subscribed to but does not exist") == 1
    assert loads(owned) == [4] * 3
    assert off_rack(cluster, owned, {"a1": "a", "b1": "b", "c1": "c"}) == 0
