"""Assignments of groups for various layouts of racks and topics, by client library and assignor.

The expected figures are derived by hand in the comments, not by the code under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest

import assignors.aiokafka
import assignors.kafka_python
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, MakeClient, Strategies, partitions_of
from integration.support.groups import ConsumerGroup
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}

LIBRARIES: dict[str, tuple[Callable[[Strategies], MakeClient], ModuleType]] = {
    "kafka-python": (KafkaPython, assignors.kafka_python),
    "aiokafka": (AIOKafka, assignors.aiokafka),
}
ASSIGNORS = {
    "range": "LeaderRackAwareRangeAssignor",
    "sticky": "LeaderRackAwareCooperativeStickyAssignor",
}
EACH_LIBRARY = pytest.mark.parametrize("library", LIBRARIES)
EACH_ASSIGNOR = pytest.mark.parametrize("assignor", ASSIGNORS)


def client_with(library: str, assignor: str) -> MakeClient:
    """Return what constructs members of the library with the assignor."""
    client, module = LIBRARIES[library]
    strategy: Any = getattr(module, ASSIGNORS[assignor])
    return client(lambda rack: [strategy(rack=rack)])


@pytest.mark.parametrize(
    ("leaders", "members", "each", "across"),
    [
        # As many leaders in each rack as members can take.
        pytest.param(evenly(36), SIX, 6, 0, marks=pytest.mark.everywhere),
        # Two each: the members in a hold 4 of the 10 led there, those in b and c the one led
        # in their rack and 3 more. 12 - 4 - 1 - 1 = 6.
        (["a", "a", "b", *"aaaaa", "c", *"aaa"], SIX, 2, 6),
        # Six each: nothing is local to the member without a rack, all others read local ones only.
        (evenly(36), {**SIX, "c2": None}, 6, 6),
    ],
    ids=["even", "ten-in-one-rack", "a-member-without-a-rack"],
)
@EACH_ASSIGNOR
@EACH_LIBRARY
def test_the_assignment_is_optimal(
    cluster: Cluster,
    library: str,
    assignor: str,
    leaders: list[str],
    members: Mapping[str, str | None],
    each: int,
    across: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RACKWARD_RACK", raising=False)
    topic = create_topic(cluster, new_name("optimum"), replicas_led_from(leaders))
    client = client_with(library, assignor)
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        for name, rack in members.items():
            group.start(name, rack)
        owned = group.settle(partitions_of(topic, len(leaders)))
    assert loads(owned) == [each] * len(members)
    assert off_rack(cluster, owned, members) == across


@pytest.mark.slow
def test_a_broker_without_a_rack(cluster: Cluster) -> None:
    # Four each: a and b have their own 4; the 4 of the broker without a rack cost nothing.
    members = {"a1": "a", "b1": "b", "b2": "b"}
    with type(cluster)(("a", "b", None)) as smaller:  # type: ignore[call-arg]
        topic = create_topic(smaller, "t", [[p % 3] for p in range(12)])
        for assignor in ASSIGNORS:
            client = client_with("kafka-python", assignor)
            with ConsumerGroup(smaller, topics=[topic], client=client) as group:
                for name, rack in members.items():
                    group.start(name, rack)
                owned = group.settle(partitions_of(topic, 12))
            assert loads(owned) == [4] * 3
            assert off_rack(smaller, owned, members) == 0


def test_a_class_of_aiokafka_with_the_rack_of_the_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKWARD_RACK", "a")
    topic = create_topic(cluster, new_name("class"), replicas_led_from(["a", "b"] * 6))
    client = AIOKafka(lambda _: (assignors.aiokafka.LeaderRackAwareCooperativeStickyAssignor,))
    with ConsumerGroup(cluster, topics=[topic], client=client) as group:
        group.start("a1")
        group.start("elsewhere", client=client_with("aiokafka", "sticky"), rack="b")
        owned = group.settle(partitions_of(topic, 12))
    assert off_rack(cluster, owned, {"a1": "a", "elsewhere": "b"}) == 0


@EACH_ASSIGNOR
@EACH_LIBRARY
def test_topics_that_the_leader_does_not_subscribe_to(
    cluster: Cluster, library: str, assignor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers may respond late on a busy machine.
    monkeypatch.setattr("assignors.group_leader.rebalance.METADATA_TIMEOUT", TEST_TIMEOUT)
    leader_topic, other_topic = new_name("leader"), new_name("other")
    create_topic(cluster, leader_topic, replicas_led_from(evenly(6)))
    create_topic(cluster, other_topic, replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, client=client_with(library, assignor)) as group:
        leader = group.start("a1", "a", topics=[leader_topic])
        group.settle(partitions_of(leader_topic, 6))
        generation = group.generation
        group.start("b1", "b", topics=[other_topic])
        owned = group.settle(
            partitions_of(leader_topic, 6) | partitions_of(other_topic, 6), hold=1.5
        )
        coordinator = leader.consumer._coordinator
        if library == "kafka-python":
            assert coordinator._is_leader
        else:
            # It is the leader, since it has the topics of the whole group.
            assert coordinator._group_subscription == {leader_topic, other_topic}
        # One rebalance, and no other when the metadata of the second topic arrives.
        assert group.generation == generation + 1
    assert owned == {"a1": partitions_of(leader_topic, 6), "b1": partitions_of(other_topic, 6)}


def test_new_leader_keeps_topics_without_metadata_assigned(cluster: Cluster) -> None:
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


@pytest.mark.parametrize(
    ("assignor", "each", "across"),
    [
        # Range halves the shared topic, and each half is local.
        ("range", [3, 6], 0),
        # Nine partitions in all: the balanced 4 and 5 give a1 one more than is led in a.
        ("sticky", [4, 5], 1),
    ],
    ids=["range", "sticky"],
)
@EACH_LIBRARY
def test_members_of_different_subscriptions(
    cluster: Cluster, library: str, assignor: str, each: list[int], across: int
) -> None:
    shared, own = new_name("shared"), new_name("own")
    create_topic(cluster, shared, replicas_led_from(["a", "b"] * 3))
    create_topic(cluster, own, replicas_led_from(["b"] * 3))
    with ConsumerGroup(cluster, client=client_with(library, assignor)) as group:
        group.start("a1", "a", topics=[shared])
        group.start("b1", "b", topics=[shared, own])
        owned = group.settle(partitions_of(shared, 6) | partitions_of(own, 3))
    assert partitions_of(own, 3) <= owned["b1"]
    assert loads(owned) == each
    assert off_rack(cluster, owned, {"a1": "a", "b1": "b"}) == across


@EACH_ASSIGNOR
@EACH_LIBRARY
def test_a_pattern_of_a_member_that_does_not_lead(
    cluster: Cluster, library: str, assignor: str
) -> None:
    leader_topic, stem = new_name("leader"), new_name("stem")
    create_topic(cluster, leader_topic, replicas_led_from(evenly(3)))
    create_topic(cluster, f"{stem}-1", replicas_led_from(evenly(6)))
    with ConsumerGroup(cluster, client=client_with(library, assignor)) as group:
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
