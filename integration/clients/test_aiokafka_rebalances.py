"""Rebalances of AIOKafkaConsumers while records are produced: moves, order, losses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from assignors import LeaderRackAwareCooperativeSticky, Plan
from assignors import Member as PureMember
from assignors.aiokafka import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from assignors.group_leader import log
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import PartitionId, partitions_of
from integration.support.groups import (
    ConsumerGroup,
    everything_is_committed,
    everything_is_read,
    read_again,
)
from integration.support.racks import evenly, loads, off_rack, replicas_led_from
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
Owned = dict[str, frozenset[PartitionId]]


def tps_of(topics: Mapping[str, Sequence[int]]) -> frozenset[PartitionId]:
    return frozenset((topic, p) for topic, ps in topics.items() for p in ps)


def client_with(strategy: Any) -> AIOKafka:
    return AIOKafka(lambda rack: [strategy(rack=rack)])


def retained(before: Owned, now: Owned) -> int:
    return sum(len(before[name] & now[name]) for name in before.keys() & now.keys())


def check_reads(
    group: ConsumerGroup, topic: str, sent: SteadyProducer, caplog: pytest.LogCaptureFixture
) -> None:
    """Assert that all acknowledged records are read in order, and once if commits succeeded."""
    sent.stop()
    everything_is_read(group.reads_of, topic, sent)
    again = sum(read_again(group.reads_of((topic, p))) for p in sent.acknowledged)
    assert not again or "OffsetCommit failed" in caplog.text


def best_plan(cluster: Cluster, topic: str, before: Owned, members: Mapping[str, str]) -> Plan:
    """Return the plan for members that own ``before``; it is optimal."""
    view = cluster.view([topic])
    broker_racks = {broker.id: broker.rack for broker in view.brokers}
    leaders = {tp[1]: broker_racks[broker] for tp, broker in view.known_leaders.items()}
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
    return plan


def test_join_and_leave_while_records_flow(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, log.name)
    topic = create_topic(cluster, new_name("flow"), replicas_led_from(evenly(36)))
    all_partitions = partitions_of(topic, 36)
    five = dict(list(SIX.items())[:5])
    with (
        SteadyProducer(cluster, topic, 36) as sent,
        ConsumerGroup(
            cluster, topics=[topic], client=client_with(LeaderRackAwareCooperativeStickyAssignor)
        ) as group,
    ):
        for name, rack in five.items():
            group.start(name, rack)
        before = group.settle(all_partitions)

        def change(act: Callable[[], object], members: Mapping[str, str]) -> Owned:
            generation = group.generation
            act()
            now = group.settle(all_partitions, after=generation)
            best = best_plan(cluster, topic, before, members)
            across, moved = best.off_rack, best.moved
            assert off_rack(cluster, now, members) == across
            stayed = sum(len(before[name]) for name in before.keys() & members.keys())
            assert stayed - retained(before, now) == moved
            # Eager members own nothing during a rebalance, so one round is enough.
            assert group.generation == generation + 1
            (*_, line) = (r.getMessage() for r in caplog.records if r.name == log.name)
            assert f"off_rack={across} optimum={across} moved={moved} withheld=0" in line
            return now

        before = change(lambda: group.start("c2", "c"), SIX)
        assert loads(before) == [6] * 6
        assert off_rack(cluster, before, SIX) == 0
        left = {name: rack for name, rack in SIX.items() if name != "b2"}
        now = change(lambda: group.stop("b2"), left)
        # The member that left had six; no other partition has to move.
        assert loads(now) == [7, 7, 7, 7, 8]
        assert retained(before, now) == 30
        check_reads(group, topic, sent, caplog)
        everything_is_committed(cluster, group.id, sent)
    everything_is_committed(cluster, group.id, sent)


def test_partitions_stay_when_subscriptions_change(cluster: Cluster) -> None:
    # aiokafka drops its assignment when it subscribes anew. Members that joined one after the
    # other own other partitions than a new plan would assign; none of them may move.
    topic = create_topic(cluster, new_name("one"), replicas_led_from(evenly(12)))
    members = {"c1": "c", "b1": "b", "a1": "a", "a2": "a"}
    with ConsumerGroup(
        cluster, topics=[topic], client=client_with(LeaderRackAwareCooperativeStickyAssignor)
    ) as group:
        for name, rack in members.items():
            group.start(name, rack)
            before = group.settle(partitions_of(topic, 12))
        new_plan = best_plan(cluster, topic, {}, members).partitions
        assert {name: tps_of(topics) for name, topics in new_plan.items()} != before
        generation = group.generation
        for member in group.members.values():
            member.resubscribe(topics=[topic, new_name("absent")])
        wait_until(
            lambda: group.generation > generation, within=TEST_TIMEOUT, what="all have rejoined"
        )
        assert group.settle(partitions_of(topic, 12), after=generation, hold=1.5) == before


def test_static_members_restart_without_a_rebalance(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("static"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    members = {"a1": "a", "b1": "b", "c1": "c"}
    with ConsumerGroup(
        cluster,
        topics=[topic],
        client=client_with(LeaderRackAwareCooperativeStickyAssignor),
        # Longer than a restart takes on a busy machine.
        session_timeout_ms=60_000,
    ) as group:
        for name, rack in members.items():
            group.start(name, rack, group_instance_id=name)
        before = group.settle(all_partitions)
        generation = group.generation
        for name, rack in members.items():
            group.stop(name)
            group.start(name, rack, group_instance_id=name)
            assert group.settle(all_partitions) == before
        assert group.generation == generation
        assert off_rack(cluster, before, members) == 0
        # Restarted members claim what they are assigned again: of four members with three
        # each, only those of the fourth move. a has 4 leaders and now 6 partitions: 2 off-rack.
        group.start("a2", "a")
        now = group.settle(all_partitions, after=generation)
        assert off_rack(cluster, now, {**members, "a2": "a"}) == 2
        assert retained(before, now) == 9
        # Stopped before the others: a consumer that closes completes a join in progress, which
        # would wait for closed static members until their sessions expire.
        generation = group.generation
        group.stop("a2")
        assert group.settle(all_partitions, after=generation) == before


@pytest.mark.parametrize(
    ("library_assignor", "our_assignor"),
    [
        (RangePartitionAssignor, LeaderRackAwareRangeAssignor),
        (StickyPartitionAssignor, LeaderRackAwareCooperativeStickyAssignor),
    ],
    ids=["range", "sticky"],
)
def test_rolling_change_from_assignors_of_aiokafka(
    cluster: Cluster, library_assignor: Any, our_assignor: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(cluster, new_name("rolling"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    members = {"a1": "a", "b1": "b", "c1": "c"}

    with (
        SteadyProducer(cluster, topic, 12) as sent,
        ConsumerGroup(cluster, topics=[topic]) as group,
    ):
        for name, rack in members.items():
            group.start(name, rack, client=AIOKafka(lambda _: [library_assignor]))
        group.settle(all_partitions)

        def roll(strategies: Callable[[str | None], Sequence[Any]]) -> Owned:
            for name, rack in members.items():
                generation = group.generation
                group.stop(name)
                group.start(name, rack, client=AIOKafka(strategies))
                owned = group.settle(all_partitions, after=generation)
            return owned

        roll(lambda rack: [our_assignor(rack=rack), library_assignor])
        owned = roll(lambda rack: [our_assignor(rack=rack)])
        assert loads(owned) == [4] * 3
        assert off_rack(cluster, owned, members) == 0
        check_reads(group, topic, sent, caplog)
        everything_is_committed(cluster, group.id, sent)
    everything_is_committed(cluster, group.id, sent)
