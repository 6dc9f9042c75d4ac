"""Rebalances of real AIOKafkaConsumers while records flow: what moves, what is read, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from assignors import LeaderRackAwareCooperativeSticky
from assignors import Member as PureMember
from assignors.aiokafka import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.aiokafka_client import AIOKafka
from integration.groups import ConsumerGroup, Place
from integration.racks import evenly, loads, off_rack, replicas_led_from
from integration.reading import read_again
from integration.topics import Trickle, committed, create_topic, new_name, wait_until
from rackward.clusters import Cluster

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
Owned = dict[str, frozenset[Place]]


def places(topic: str, count: int) -> set[Place]:
    return {(topic, partition) for partition in range(count)}


def of(strategy: Any) -> AIOKafka:
    return AIOKafka(lambda rack: [strategy(rack=rack)])


def kept(before: Owned, now: Owned) -> int:
    return sum(len(before[name] & now[name]) for name in before.keys() & now.keys())


def everything_was_read(group: ConsumerGroup, topic: str, sent: Trickle) -> None:
    """Every acknowledged record is read, once and in order."""
    sent.stop()
    wait_until(
        lambda: all(
            offsets <= group.reads_of((topic, partition)).offsets()
            for partition, offsets in sent.acknowledged.items()
        ),
        within=20,
        what="every acknowledged record is read",
    )
    assert [read_again(group.reads_of((topic, p))) for p in sent.acknowledged] == [0] * len(
        sent.acknowledged
    )


def everything_is_committed(cluster: Cluster, group: ConsumerGroup, sent: Trickle) -> None:
    """After the members have gone: the next record is the one after the last."""
    offsets = {partition: at for (_, partition), at in committed(cluster, group.id).items()}
    assert offsets == {p: max(sent_to) + 1 for p, sent_to in sent.acknowledged.items()}


def fewest_moves(
    cluster: Cluster, topic: str, before: Owned, members: Mapping[str, str]
) -> tuple[int, int]:
    """What the pure solver proves of the step: the fewest off-rack, and then the fewest moved."""
    view = cluster.view([topic])
    standing = {broker.id: broker.rack for broker in view.brokers}
    leaders = {place[1]: standing[broker] for place, broker in view.leaders.items()}
    plan = LeaderRackAwareCooperativeSticky().assign(
        [
            PureMember(
                id=name,
                topics=frozenset({topic}),
                rack=rack,
                owned={topic: sorted(p for _, p in before.get(name, ()))},
                generation=1,
            )
            for name, rack in members.items()
        ],
        {topic: [leaders[p] for p in range(len(leaders))]},
    )
    assert plan.off_rack == plan.optimum
    return plan.off_rack, plan.moved


def test_join_and_leave_while_records_flow(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    topic = create_topic(cluster, new_name("flow"), replicas_led_from(evenly(36)))
    all_of_it = places(topic, 36)
    five = dict(list(SIX.items())[:5])
    with (
        Trickle(cluster, topic, 36) as sent,
        ConsumerGroup(
            cluster, topics=[topic], client=of(LeaderRackAwareCooperativeStickyAssignor)
        ) as group,
    ):
        for name, rack in five.items():
            group.start(name, rack)
        before = group.settle(all_of_it)

        def change(act: Callable[[], object], members: Mapping[str, str]) -> Owned:
            generation = group.generation
            act()
            now = group.settle(all_of_it, after=generation)
            across, moved = fewest_moves(cluster, topic, before, members)
            assert off_rack(cluster, now, members) == across
            stayed = sum(len(before[name]) for name in before.keys() & members.keys())
            assert stayed - kept(before, now) == moved
            # Nobody owns anything through an eager rebalance, so one round is enough.
            assert group.generation == generation + 1
            assert "withheld 0" in caplog.messages[-1]
            assert f"off-rack {across} of at best {across}, moved {moved}" in caplog.messages[-1]
            return now

        before = change(lambda: group.start("c2", "c"), SIX)
        assert loads(before) == [6] * 6
        assert off_rack(cluster, before, SIX) == 0
        left = {name: rack for name, rack in SIX.items() if name != "b2"}
        now = change(lambda: group.stop("b2"), left)
        # The one that left had six; nobody else has to give up anything.
        assert loads(now) == [7, 7, 7, 7, 8]
        assert kept(before, now) == 30
        everything_was_read(group, topic, sent)
    everything_is_committed(cluster, group, sent)


def test_what_a_member_had_survives_a_change_of_topics(cluster: Cluster) -> None:
    # aiokafka forgets its assignment as it subscribes anew. b1 has the 4 that are led in b, a1
    # and a2 have the others; with one more of each rack nobody has to give up anything.
    one, more = new_name("one"), new_name("more")
    create_topic(cluster, one, replicas_led_from(evenly(12)))
    create_topic(cluster, more, replicas_led_from(["a", "b", "c"]))
    members = {"a1": "a", "a2": "a", "b1": "b"}
    with ConsumerGroup(
        cluster, topics=[one], client=of(LeaderRackAwareCooperativeStickyAssignor)
    ) as group:
        for name, rack in members.items():
            group.start(name, rack)
        before = group.settle(places(one, 12))
        for member in group.members.values():
            member.resubscribe(topics=[one, more])
        now = group.settle(places(one, 12) | places(more, 3))
        assert kept(before, now) == 12
        assert loads(now) == [5] * 3


def test_static_members_restart_without_a_rebalance(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("static"), replicas_led_from(evenly(12)))
    all_of_it = places(topic, 12)
    members = {"a1": "a", "b1": "b", "c1": "c"}
    with ConsumerGroup(
        cluster,
        topics=[topic],
        client=of(LeaderRackAwareCooperativeStickyAssignor),
        session_timeout_ms=20_000,
    ) as group:
        for name, rack in members.items():
            group.start(name, rack, group_instance_id=name)
        before = group.settle(all_of_it)
        generation = group.generation
        for name, rack in members.items():
            group.stop(name)
            group.start(name, rack, group_instance_id=name)
            assert group.settle(all_of_it) == before
        assert group.generation == generation
        assert off_rack(cluster, before, members) == 0
        # What a restarted member is given again it also claims: of four members with three
        # each, the fourth's are all that move. a has 4 leaders and now 6 places: 2 off-rack.
        group.start("a2", "a")
        now = group.settle(all_of_it, after=generation)
        assert off_rack(cluster, now, {**members, "a2": "a"}) == 2
        assert kept(before, now) == 9


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (RangePartitionAssignor, LeaderRackAwareRangeAssignor),
        (StickyPartitionAssignor, LeaderRackAwareCooperativeStickyAssignor),
    ],
    ids=["range", "sticky"],
)
def test_rolling_change_from_aiokafkas_own(cluster: Cluster, theirs: Any, ours: Any) -> None:
    topic = create_topic(cluster, new_name("rolling"), replicas_led_from(evenly(12)))
    all_of_it = places(topic, 12)
    members = {"a1": "a", "b1": "b", "c1": "c"}

    with Trickle(cluster, topic, 12) as sent, ConsumerGroup(cluster, topics=[topic]) as group:
        for name, rack in members.items():
            group.start(name, rack, client=AIOKafka(lambda _: [theirs]))
        group.settle(all_of_it)

        def roll(strategies: Callable[[str | None], Sequence[Any]]) -> Owned:
            for name, rack in members.items():
                generation = group.generation
                group.stop(name)
                group.start(name, rack, client=AIOKafka(strategies))
                owned = group.settle(all_of_it, after=generation)
            return owned

        roll(lambda rack: [ours(rack=rack), theirs])
        owned = roll(lambda rack: [ours(rack=rack)])
        assert loads(owned) == [4] * 3
        assert off_rack(cluster, owned, members) == 0
        everything_was_read(group, topic, sent)
    everything_is_committed(cluster, group, sent)
