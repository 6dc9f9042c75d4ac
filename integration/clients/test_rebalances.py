"""Rebalances of KafkaConsumers and AIOKafkaConsumers while records are produced.

Partitions that move, pauses, the order of reads, and losses. KafkaConsumers rebalance
cooperatively; AIOKafkaConsumers revoke everything before each rebalance.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AIORange
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as AIOSticky,
)
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

import assignors.aiokafka
from assignors import LeaderRackAwareCooperativeSticky, Plan
from assignors import Member as PureMember
from assignors.group_leader import log
from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import (
    KafkaPython,
    MakeClient,
    PartitionId,
    Strategies,
    partitions_of,
)
from integration.support.groups import (
    ConsumerGroup,
    everything_is_committed,
    everything_is_read,
    read_again,
)
from integration.support.racks import evenly, loads, off_rack, replicas_led_from, wait_for_members
from integration.support.topics import SteadyProducer, create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
THREE = {"a1": "a", "b1": "b", "c1": "c"}
MAX_PAUSE = 3.0
"""Seconds without a record of a partition that stays. It takes 0.3 to 0.9 s on two cores, most of
it for the commit before a rebalance."""
MAX_PAUSE_BUSY = 10.0
"""The same on a busy machine."""

CLIENTS: dict[str, MakeClient] = {"kafka-python": KafkaPython(), "aiokafka": AIOKafka()}
"""Both with the cooperative sticky assignor."""

Owned = dict[str, frozenset[PartitionId]]


def retained(before: Owned, now: Owned) -> set[PartitionId]:
    return {tp for name in before.keys() & now.keys() for tp in before[name] & now[name]}


def tps_of(topics: Mapping[str, Sequence[int]]) -> frozenset[PartitionId]:
    return frozenset((topic, p) for topic, ps in topics.items() for p in ps)


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


@pytest.mark.parametrize("library", CLIENTS)
def test_joins_and_leaves_move_the_fewest_partitions(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, library: str
) -> None:
    caplog.set_level(logging.INFO, log.name)
    topic = create_topic(cluster, new_name("flow"), replicas_led_from(evenly(36)))
    all_partitions = partitions_of(topic, 36)
    with (
        SteadyProducer(cluster, topic, 36) as sent,
        ConsumerGroup(cluster, topics=[topic], client=CLIENTS[library]) as group,
    ):
        for name, rack in list(SIX.items())[:5]:
            group.start(name, rack)
        before = group.settle(all_partitions)
        time.sleep(1.0)

        def change(act: Callable[[], object], members: Mapping[str, str]) -> Owned:
            generation, started = group.generation, time.monotonic()
            act()
            now = group.settle(all_partitions, after=generation)
            best = best_plan(cluster, topic, before, members)
            assert off_rack(cluster, now, members) == best.off_rack
            stayed = sum(len(before[name]) for name in before.keys() & members.keys())
            assert stayed - len(retained(before, now)) == best.moved
            if library == "aiokafka":
                # Eager members own nothing during a rebalance, so one round is enough.
                assert group.generation == generation + 1
                (*_, line) = (r.getMessage() for r in caplog.records if r.name == log.name)
                across = best.off_rack
                assert f"off_rack={across} optimum={across} moved={best.moved} withheld=0" in line
                return now
            time.sleep(0.5)
            ended = time.monotonic()
            assert group.generation - generation <= 2
            assert group.assigned_again(since=started) == []
            for tp in retained(before, now):
                assert group.reads_of(tp).longest_gap(started, ended) < MAX_PAUSE_BUSY
            return now

        before = change(lambda: group.start("c2", "c"), SIX)
        assert loads(before) == [6] * 6
        assert off_rack(cluster, before, SIX) == 0
        left = {name: rack for name, rack in SIX.items() if name != "b2"}
        now = change(lambda: group.stop("b2"), left)
        # The member that left had six; no other partition has to move.
        assert loads(now) == [7, 7, 7, 7, 8]
        assert len(retained(before, now)) == 30
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        # Once, if commits succeeded.
        again = sum(read_again(group.reads_of((topic, p))) for p in sent.acknowledged)
        failures = ("OffsetCommit failed", "revoked partitions were not committed")
        assert not again or any(failure in caplog.text for failure in failures)
        everything_is_committed(cluster, group.id, sent)
    everything_is_committed(cluster, group.id, sent)


@pytest.mark.slow
def test_kept_partitions_are_read_while_a_slow_member_delays(
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


def test_partitions_stay_when_subscriptions_change(cluster: Cluster) -> None:
    # aiokafka drops its assignment when it subscribes anew. Members that joined one after the
    # other own other partitions than a new plan would assign; none of them may move.
    topic = create_topic(cluster, new_name("one"), replicas_led_from(evenly(12)))
    members = {"c1": "c", "b1": "b", "a1": "a", "a2": "a"}
    with ConsumerGroup(cluster, topics=[topic], client=CLIENTS["aiokafka"]) as group:
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


@pytest.mark.parametrize("library", CLIENTS)
def test_static_members_restart_without_a_rebalance(cluster: Cluster, library: str) -> None:
    topic = create_topic(cluster, new_name("static"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    with ConsumerGroup(
        cluster,
        topics=[topic],
        client=CLIENTS[library],
        # Longer than a restart takes on a busy machine.
        session_timeout_ms=60_000,
    ) as group:
        for name, rack in THREE.items():
            group.start(name, rack, group_instance_id=name)
        before = group.settle(all_partitions)
        generation = group.generation
        for name, rack in THREE.items():
            group.stop(name)
            group.start(name, rack, group_instance_id=name)
            assert group.settle(all_partitions) == before
        assert group.generation == generation
        assert off_rack(cluster, before, THREE) == 0
        # Restarted members claim what they are assigned again: of four members with three
        # partitions each, only those of the fourth move. Rack a has 4 leaders and now 6
        # partitions: 2 off-rack.
        restarted = time.monotonic()
        group.start("a2", "a")
        now = group.settle(all_partitions, after=generation)
        assert off_rack(cluster, now, {**THREE, "a2": "a"}) == 2
        assert len(retained(before, now)) == 9
        if library == "kafka-python":
            assert group.assigned_again(since=restarted) == []
        # Stopped before the others: a consumer that closes completes a join in progress, which
        # would wait for closed static members until their sessions expire.
        generation = group.generation
        group.stop("a2")
        assert group.settle(all_partitions, after=generation) == before


def roll(group: ConsumerGroup, client: MakeClient, partitions: Collection[PartitionId]) -> Owned:
    """Restart each member of THREE as such a client; return what each owns at the end."""
    for name, rack in THREE.items():
        generation = group.generation
        group.stop(name)
        group.start(name, rack, client=client)
        owned = group.settle(partitions, after=generation)
    return owned


@pytest.mark.parametrize(
    ("make", "library_assignor", "our_assignor"),
    [
        pytest.param(
            KafkaPython,
            RangePartitionAssignor,
            LeaderRackAwareRangeAssignor,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            KafkaPython,
            CooperativeStickyAssignor,
            LeaderRackAwareCooperativeStickyAssignor,
            marks=pytest.mark.slow,
        ),
        (KafkaPython, RangePartitionAssignor, LeaderRackAwareCooperativeStickyAssignor),
        (AIOKafka, AIORange, assignors.aiokafka.LeaderRackAwareRangeAssignor),
        (AIOKafka, AIOSticky, assignors.aiokafka.LeaderRackAwareCooperativeStickyAssignor),
    ],
    ids=[
        "range",
        "cooperative-sticky",
        "eager-to-cooperative",
        "aiokafka-range",
        "aiokafka-sticky",
    ],
)
def test_rolling_change_from_and_to_assignors_of_the_library(
    cluster: Cluster,
    make: Callable[[Strategies], MakeClient],
    library_assignor: Any,
    our_assignor: Any,
) -> None:
    theirs = make(lambda _: [library_assignor])
    both = make(lambda rack: [our_assignor(rack=rack), library_assignor])
    rack_aware = make(lambda rack: [our_assignor(rack=rack)])
    topic = create_topic(cluster, new_name("rolling"), replicas_led_from(evenly(12)))
    all_partitions = partitions_of(topic, 12)
    with (
        SteadyProducer(cluster, topic, 12) as sent,
        ConsumerGroup(cluster, topics=[topic]) as group,
    ):
        for name, rack in THREE.items():
            group.start(name, rack, client=theirs)
        group.settle(all_partitions)
        roll(group, both, all_partitions)
        owned = roll(group, rack_aware, all_partitions)
        assert loads(owned) == [4] * 3
        assert off_rack(cluster, owned, THREE) == 0
        if make is KafkaPython:
            roll(group, both, all_partitions)
            owned = roll(group, theirs, all_partitions)
            assert loads(owned) == [4] * 3
        sent.stop()
        everything_is_read(group.reads_of, topic, sent)
        everything_is_committed(cluster, group.id, sent)
    everything_is_committed(cluster, group.id, sent)
