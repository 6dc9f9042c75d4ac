"""Leaders that move while a group reads: one rebalance once they are stable, not many."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import assignors.aiokafka
import assignors.kafka_python
from assignors import RefreshPolicy
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, PartitionId
from integration.support.confluent import Confluent
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.racks import BROKERS, evenly, off_rack, replicas_led_from
from integration.support.topics import SteadyProducer, create_topic, new_name, with_admin
from placement_core import TopicPartition
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
TWELVE = {f"{rack}{n}": rack for n in range(1, 5) for rack in "abc"}
PARTITIONS = 36
POLICY = RefreshPolicy(stable_seconds=3, unstable_seconds=20, min_interval=2, check_interval=0.5)
"""The defaults divided by about forty; min_interval is shorter, so that it never matters."""

CALM = replace(POLICY, stable_seconds=15, unstable_seconds=90)
"""For restarts of brokers, which take long on a busy machine."""

METADATA_MAX_AGE_MS = 300_000
"""Milliseconds between metadata requests of the client itself: longer than these tests."""


STICKY, RANGE = "LeaderRackAwareCooperativeStickyAssignor", "LeaderRackAwareRangeAssignor"


def group_of(
    cluster: Cluster, library: str, topic: str, policy: RefreshPolicy, assignor: str = STICKY
) -> ConsumerGroup:
    """Return a group, still without members, of consumers of that library."""
    # As by default, sessions outlast the pause of heartbeats while a broker restarts.
    if library == "confluent":
        settings: dict[str, Any] = {
            "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
            "session.timeout.ms": 30_000,
            "rackward.refresh": policy,
        }
        return ConsumerGroup(cluster, topics=[topic], client=Confluent(), **settings)
    module = assignors.aiokafka if library == "aiokafka" else assignors.kafka_python
    make = AIOKafka if library == "aiokafka" else KafkaPython
    client = make(lambda rack: [getattr(module, assignor)(rack=rack, refresh=policy)])
    return ConsumerGroup(
        cluster,
        topics=[topic],
        client=client,
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        session_timeout_ms=30_000,
    )


Requests = Callable[[], list[str]]


@pytest.fixture
def requests(caplog: pytest.LogCaptureFixture) -> Iterator[Requests]:
    """Return what lists the log lines of rebalances requested because of moved leaders."""
    start = "requesting a rebalance because leaders moved"
    with caplog.at_level(logging.INFO, logger="rackward.assignors"):
        yield lambda: [line for line in caplog.messages if line.startswith(start)]


class Leaders:
    """A topic with three replicas in three racks, whose leaders can be moved."""

    def __init__(self, cluster: Cluster) -> None:
        self.racks = evenly(PARTITIONS)
        self.replicas = replicas_led_from(self.racks)
        self.topic = create_topic(cluster, new_name("leaders"), self.replicas)
        self.tps: set[PartitionId] = {(self.topic, p) for p in range(PARTITIONS)}
        self._cluster = cluster

    def move(self, swaps: int) -> None:
        """Swap that many leaders of rack a with leaders of rack b; reset all others."""
        partitions = {rack: [p for p, at in enumerate(self.racks) if at == rack] for rack in "ab"}
        brokers = {p: replicas[0] for p, replicas in enumerate(self.replicas)}
        for rack, other in ("ab", "ba"):
            for partition in partitions[rack][:swaps]:
                (brokers[partition],) = set(self.replicas[partition]) & set(BROKERS[other])
        self._cluster.move_leaders({TopicPartition(self.topic, p): b for p, b in brokers.items()})

    def are_replicated(self) -> bool:
        """Return whether all replicas are in sync."""
        (description,) = with_admin(
            self._cluster, lambda admin: admin.describe_topics([self.topic])
        )
        return all(len(each["isr_nodes"]) == 3 for each in description["partitions"])


def start_members(
    group: ConsumerGroup, racks: dict[str, str], leaders: Leaders
) -> dict[str, frozenset[PartitionId]]:
    for name, rack in racks.items():
        group.start(name, rack)
    return group.settle(leaders.tps)


@pytest.mark.parametrize(
    "library",
    [
        "kafka-python",
        pytest.param("confluent", marks=pytest.mark.slow),
        pytest.param("aiokafka", marks=pytest.mark.slow),
    ],
)
def test_a_tenth_of_the_leaders_moves(cluster: Cluster, requests: Requests, library: str) -> None:
    leaders = Leaders(cluster)
    with (
        SteadyProducer(cluster, leaders.topic, PARTITIONS) as sent,
        group_of(cluster, library, leaders.topic, POLICY) as group,
    ):
        before = start_members(group, SIX, leaders)
        assert off_rack(cluster, before, SIX) == 0
        # aiokafka stalls if a leader moves before it has read its start offset.
        wait_until(
            lambda: all(group.reads_of(tp).seen for tp in leaders.tps),
            TEST_TIMEOUT,
            "every partition is read",
        )
        generation, moving = group.generation, time.monotonic()
        leaders.move(swaps=2)
        assert off_rack(cluster, before, SIX) == 4
        wait_until(lambda: len(requests()) == 1, TEST_TIMEOUT, "a rebalance is requested")
        assert time.monotonic() - moving > POLICY.stable_seconds
        now = group.settle(leaders.tps, after=generation)
        assert off_rack(cluster, now, SIX) == 0
        assert sum(len(before[name] & now[name]) for name in SIX) == PARTITIONS - 4
        # A cooperative rebalance takes two rounds.
        assert group.generation - generation <= (1 if library == "aiokafka" else 2)
        assert "partitions=36 off_rack=4 off_rack_after=0" in requests()[0]
        generation = group.generation
        time.sleep(POLICY.stable_seconds + POLICY.min_interval)
        assert (group.generation, len(requests())) == (generation, 1)
        sent.stop()
        everything_is_read(group.reads_of, leaders.topic, sent)


@pytest.mark.parametrize(
    "library",
    [
        "kafka-python",
        pytest.param("confluent", marks=pytest.mark.slow),
        pytest.param("aiokafka", marks=pytest.mark.slow),
    ],
)
def test_a_static_leader_that_restarts_watches_again(
    cluster: Cluster, requests: Requests, library: str
) -> None:
    leaders = Leaders(cluster)
    three = {"a1": "a", "b1": "b", "c1": "c"}
    setting = "group.instance.id" if library == "confluent" else "group_instance_id"

    def start(name: str) -> None:
        settings: dict[str, Any] = {setting: name}
        group.start(name, three[name], **settings)

    with group_of(cluster, library, leaders.topic, POLICY) as group:
        for name in three:
            start(name)
        before = group.settle(leaders.tps)
        generation = group.generation
        # One of them leads.
        for name in three:
            group.stop(name)
            start(name)
            assert group.settle(leaders.tps) == before
        assert (group.generation, len(requests())) == (generation, 0)
        leaders.move(swaps=2)
        wait_until(lambda: len(requests()) == 1, TEST_TIMEOUT, "a rebalance is requested")
        now = group.settle(leaders.tps, after=generation)
        assert off_rack(cluster, now, three) == 0
        # The member that requested it leads now, and nothing else is to gain.
        generation = group.generation
        time.sleep(POLICY.stable_seconds)
        assert (group.generation, len(requests())) == (generation, 1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("reset", [True, False], ids=["leaders-reset", "leaders-stay"])
def test_a_rolling_restart_of_all_brokers(
    cluster: Cluster, requests: Requests, reset: bool
) -> None:
    leaders = Leaders(cluster)
    with group_of(cluster, "kafka-python", leaders.topic, CALM) as group:
        before = start_members(group, TWELVE, leaders)
        generation, began = group.generation, time.monotonic()
        # Not rack by rack: then the rack that is restarted last would have no leaders.
        for broker in (0, 2, 4, 1, 3, 5):
            cluster.stop_broker(broker)
            try:
                time.sleep(5)
            finally:
                cluster.start_broker(broker)
            wait_until(leaders.are_replicated, 120, f"broker {broker} is in sync again")
            time.sleep(5)
        during_restarts = (
            len(requests()),
            group.generation - generation,
            round(time.monotonic() - began),
        )
        off_rack_before = off_rack(cluster, before, TWELVE)
        if reset:
            # As the preferred leader election of brokers does, and before `unstable_seconds` end.
            leaders.move(swaps=0)
            time.sleep(2 * CALM.stable_seconds)
        else:
            wait_until(
                lambda: len(requests()) == 1, 2 * CALM.unstable_seconds, "a rebalance is requested"
            )
        now = group.settle(leaders.tps, after=generation if requests() else -1)
        time.sleep(CALM.min_interval + CALM.stable_seconds)
        print(
            f"\nsix brokers: (requests, rebalances, seconds) {during_restarts};"
            " off-rack of the plan before:"
            f" {off_rack_before}, now {off_rack(cluster, now, TWELVE)}; {requests()}"
        )
        assert len(requests()) == (0 if reset else 1)
        if not reset:
            assert f"off_rack_after={off_rack(cluster, now, TWELVE)} " in requests()[0]
        assert group.settle(leaders.tps) == now
