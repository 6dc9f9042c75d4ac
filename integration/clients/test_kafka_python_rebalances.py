"""Rebalances of KafkaConsumers while records are produced: moves, pauses, losses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.clients import PartitionId, partitions_of
from integration.support.groups import ConsumerGroup, everything_is_committed, everything_is_read
from integration.support.racks import evenly, loads, off_rack, replicas_led_from, wait_for_members
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.clusters import Cluster

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
MAX_PAUSE = 3.0
"""Seconds without a record of a partition that stays. It takes 0.3 to 0.9 s on two cores, most of
it for the commit before a rebalance."""
MAX_PAUSE_BUSY = 10.0
"""The same on a busy machine."""


def retained(
    before: dict[str, frozenset[PartitionId]], now: dict[str, frozenset[PartitionId]]
) -> set[PartitionId]:
    return {tp for name in before.keys() & now.keys() for tp in before[name] & now[name]}


def test_join_and_leave_of_a_cooperative_group(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("flow"), replicas_led_from(evenly(36)))
    all_partitions = partitions_of(topic, 36)
    first = dict(list(SIX.items())[:5])
    with (
        SteadyProducer(cluster, topic, 36) as sent,
        ConsumerGroup(cluster, topics=[topic]) as group,
    ):
        for name, rack in first.items():
            group.start(name, rack)
        before = group.settle(all_partitions)
        time.sleep(1.0)

        def change(act: Callable[[], object]) -> dict[str, frozenset[PartitionId]]:
            generation, started = group.generation, time.monotonic()
            act()
            now = group.settle(all_partitions, after=generation)
            time.sleep(0.5)
            ended = time.monotonic()
            assert group.generation - generation <= 2
            assert group.assigned_again(since=started) == []
            for tp in retained(before, now):
                assert group.reads_of(tp).longest_gap(started, ended) < MAX_PAUSE_BUSY
            return now

        joined = change(lambda: group.start("c2", "c"))
        assert loads(joined) == [6] * 6
        assert off_rack(cluster, joined, SIX) == 0
        # Every member ends with six local partitions, so it keeps its local ones and no other.
        local_counts = {
            name: len(partitions) - off_rack(cluster, {name: partitions}, SIX)
            for name, partitions in before.items()
        }
        assert len(retained(before, joined)) == sum(
            min(6, local) for local in local_counts.values()
        )
        before = joined
        left = change(lambda: group.stop("b2"))
        # The member that left had six; no other partition has to move.
        assert loads(left) == [7, 7, 7, 7, 8]
        assert len(retained(before, left)) == 30
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        everything_is_committed(cluster, group.id, sent)
    everything_is_committed(cluster, group.id, sent)


@pytest.mark.slow
def test_retained_partitions_are_read_while_a_slow_member_delays_a_rebalance(
    cluster: Cluster,
) -> None:
    # The rebalance takes until the slowest member polls. The others keep reading.
    poll_interval = MAX_PAUSE + 2.0
    topic = create_topic(cluster, new_name("slow"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    with SteadyProducer(cluster, topic, 12), ConsumerGroup(cluster, topics=[topic]) as group:
        group.start("a1", "a")
        group.start("b1", "b")
        group.start("c1", "c", poll_interval=poll_interval)
        before = group.settle(all_partitions)
        generation, started = group.generation, time.monotonic()
        group.start("a2", "a")
        now = group.settle(all_partitions, after=generation)
        ended = time.monotonic()
        assert ended - started > poll_interval
        for name in ("a1", "b1"):
            for tp in before[name] & now[name]:
                assert group.reads_of(tp).longest_gap(started, ended) < MAX_PAUSE
        assert group.generation - generation <= 2
        assert group.assigned_again(since=started) == []


@pytest.mark.everywhere
def test_the_next_rebalance_uses_moved_leaders(cluster: Cluster) -> None:
    # Two leaders of rack a and two of b are swapped. Four moves, the minimum, make all
    # partitions local again.
    racks = evenly(36)
    replicas = replicas_led_from(racks)
    topic = create_topic(cluster, new_name("moved"), replicas)
    all_partitions = partitions_of(topic, 36)
    with ConsumerGroup(cluster, topics=[topic]) as group:
        for name, rack in SIX.items():
            group.start(name, rack)
        before = group.settle(all_partitions)
        leave_a = [p for p, rack in enumerate(racks) if rack == "a"][:2]
        leave_b = [p for p, rack in enumerate(racks) if rack == "b"][:2]
        swap = {(topic, p): next(n for n in replicas[p][1:] if n in (2, 3)) for p in leave_a}
        swap |= {(topic, p): next(n for n in replicas[p][1:] if n in (0, 1)) for p in leave_b}
        cluster.move_leaders(swap)  # type: ignore[arg-type]
        assert off_rack(cluster, before, SIX) == 4
        # The leader assigns by its metadata, which is up to two seconds old.
        wait_for_members(cluster, topic, group)
        generation, requested_at = group.generation, time.monotonic()
        # Only the leader: a request of another member could cause a second rebalance.
        coordinators = [member.consumer._coordinator for member in group.members.values()]
        (leader,) = [each for each in coordinators if each._is_leader]
        leader.request_rejoin()
        now = group.settle(all_partitions, after=generation)
        assert off_rack(cluster, now, SIX) == 0
        assert len(retained(before, now)) == 32
        assert group.generation - generation <= 2
        # Only since then: the first member owned all partitions at first.
        assert group.assigned_again(since=requested_at) == []


def test_static_members_restart_without_a_rebalance(cluster: Cluster) -> None:
    topic = create_topic(cluster, new_name("static"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    members = {"a1": "a", "b1": "b", "c1": "c"}
    with ConsumerGroup(cluster, topics=[topic], session_timeout_ms=60_000) as group:
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
        # partitions each, only those of the fourth move. Rack a has 4 leaders and now 6
        # partitions: 2 off-rack.
        restarted = time.monotonic()
        group.start("a2", "a")
        now = group.settle(all_partitions, after=generation)
        assert off_rack(cluster, now, {**members, "a2": "a"}) == 2
        assert len(retained(before, now)) == 9
        assert group.assigned_again(since=restarted) == []


@pytest.mark.parametrize(
    ("library_assignor", "our_assignor"),
    [
        pytest.param(RangePartitionAssignor, LeaderRackAwareRangeAssignor, marks=pytest.mark.slow),
        pytest.param(
            CooperativeStickyAssignor,
            LeaderRackAwareCooperativeStickyAssignor,
            marks=pytest.mark.slow,
        ),
        (RangePartitionAssignor, LeaderRackAwareCooperativeStickyAssignor),
    ],
    ids=["range", "cooperative-sticky", "eager-to-cooperative"],
)
def test_rolling_change_from_and_to_assignors_of_kafka_python(
    cluster: Cluster, library_assignor: Any, our_assignor: Any
) -> None:
    topic = create_topic(cluster, new_name("rolling"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    members = {"a1": "a", "b1": "b", "c1": "c"}

    with (
        SteadyProducer(cluster, topic, 12) as sent,
        ConsumerGroup(cluster, topics=[topic]) as group,
    ):
        for name, rack in members.items():
            group.start(name, rack, strategies=[library_assignor])
        group.settle(all_partitions)

        def roll(strategies: Callable[[str], Sequence[Any]]) -> dict[str, frozenset[PartitionId]]:
            for name, rack in members.items():
                generation = group.generation
                group.stop(name)
                group.start(name, rack, strategies=strategies(rack))
                owned = group.settle(all_partitions, after=generation)
            return owned

        def protocols() -> set[str]:
            return {m.consumer._coordinator._generation.protocol for m in group.members.values()}

        roll(lambda rack: [our_assignor(rack=rack), library_assignor])
        owned = roll(lambda rack: [our_assignor(rack=rack)])
        assert protocols() == {our_assignor.name}
        assert loads(owned) == [4] * 3
        assert off_rack(cluster, owned, members) == 0
        roll(lambda rack: [our_assignor(rack=rack), library_assignor])
        owned = roll(lambda _: [library_assignor])
        assert protocols() == {library_assignor.name}
        assert loads(owned) == [4] * 3
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        everything_is_committed(cluster, group.id, sent)
    everything_is_committed(cluster, group.id, sent)
