"""Leaders that move under a group: one rebalance when they have settled, and no storm."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import assignors.aiokafka
import assignors.kafka_python
from assignors import RefreshPolicy
from integration.support.aiokafka_clients import AIOKafka
from integration.support.clients import KafkaPython, Place
from integration.support.confluent_clients import Confluent
from integration.support.groups import ConsumerGroup, everything_is_read
from integration.support.racks import BROKERS, evenly, off_rack, replicas_led_from
from integration.support.topics import Trickle, create_topic, new_name, with_admin
from placement_core import TopicPartition
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until

SIX = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
TWELVE = {f"{rack}{n}": rack for n in range(1, 5) for rack in "abc"}
PARTITIONS = 36
POLICY = RefreshPolicy(settling=3, patience=20, cool_down=2, check_interval=0.5)
"""The defaults, about forty times as fast; the cool-down more so, lest it be what holds."""

CALM = replace(POLICY, settling=15, patience=90)
"""Where brokers are restarted or leaders flap, which takes a busy machine its time."""

SELDOM = 300_000
"""Milliseconds between a client's own questions for metadata: none in these tests."""


STICKY, RANGE = "LeaderRackAwareCooperativeStickyAssignor", "LeaderRackAwareRangeAssignor"


def group_of(
    cluster: Cluster, library: str, topic: str, policy: RefreshPolicy, assignor: str = STICKY
) -> ConsumerGroup:
    """A group of that library's consumers, to which members are still to be added."""
    # Sessions outlast what restarts of brokers do to heartbeats, as they do by default.
    if library == "confluent":
        seldom: dict[str, Any] = {
            "topic.metadata.refresh.interval.ms": SELDOM,
            "session.timeout.ms": 30_000,
            "rackward.refresh": policy,
        }
        return ConsumerGroup(cluster, topics=[topic], client=Confluent(), **seldom)
    module = assignors.aiokafka if library == "aiokafka" else assignors.kafka_python
    make = AIOKafka if library == "aiokafka" else KafkaPython
    client = make(lambda rack: [getattr(module, assignor)(rack=rack, refresh=policy)])
    return ConsumerGroup(
        cluster,
        topics=[topic],
        client=client,
        metadata_max_age_ms=SELDOM,
        session_timeout_ms=30_000,
    )


class Asked:
    """The rebalances that members of this process have asked for."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def lines(self) -> list[str]:
        """What the log says of them."""
        return [line for line in self._caplog.messages if "which is asked for" in line]

    def __len__(self) -> int:
        return len(self.lines)


@pytest.fixture
def asked(caplog: pytest.LogCaptureFixture) -> Iterator[Asked]:
    with caplog.at_level(logging.INFO, logger="rackward.assignors"):
        yield Asked(caplog)


class Leaders:
    """Where the leaders of a topic with three replicas in three racks are, and may be."""

    def __init__(self, cluster: Cluster) -> None:
        self.racks = evenly(PARTITIONS)
        self.replicas = replicas_led_from(self.racks)
        self.topic = create_topic(cluster, new_name("leaders"), self.replicas)
        self.places: set[Place] = {(self.topic, p) for p in range(PARTITIONS)}
        self._cluster = cluster

    def go(self, swaps: int) -> None:
        """As many leaders of rack a as of rack b change places; the others are at home."""
        of = {rack: [p for p, at in enumerate(self.racks) if at == rack] for rack in "ab"}
        there = {p: replicas[0] for p, replicas in enumerate(self.replicas)}
        for rack, other in ("ab", "ba"):
            for partition in of[rack][:swaps]:
                (there[partition],) = set(self.replicas[partition]) & set(BROKERS[other])
        self._cluster.move_leaders({TopicPartition(self.topic, p): b for p, b in there.items()})

    def are_followed(self) -> bool:
        """Whether all replicas are in sync."""
        (found,) = with_admin(self._cluster, lambda admin: admin.describe_topics([self.topic]))
        return all(len(each["isr_nodes"]) == 3 for each in found["partitions"])


def settled(
    group: ConsumerGroup, racks: dict[str, str], leaders: Leaders
) -> dict[str, frozenset[Place]]:
    for name, rack in racks.items():
        group.start(name, rack)
    return group.settle(leaders.places)


@pytest.mark.parametrize(
    "library",
    [
        "kafka-python",
        pytest.param("confluent", marks=pytest.mark.slow),
        pytest.param("aiokafka", marks=pytest.mark.slow),
    ],
)
def test_a_tenth_of_the_leaders_moves(cluster: Cluster, asked: Asked, library: str) -> None:
    leaders = Leaders(cluster)
    with (
        Trickle(cluster, leaders.topic, PARTITIONS) as sent,
        group_of(cluster, library, leaders.topic, POLICY) as group,
    ):
        before = settled(group, SIX, leaders)
        assert off_rack(cluster, before, SIX) == 0
        # aiokafka stalls where a leader moves before it has found out where to begin.
        wait_until(
            lambda: all(group.reads_of(place).seen for place in leaders.places),
            PATIENCE,
            "every partition is read",
        )
        generation, moving = group.generation, time.monotonic()
        leaders.go(swaps=2)
        assert off_rack(cluster, before, SIX) == 4
        wait_until(lambda: len(asked) == 1, PATIENCE, "a rebalance is asked for")
        assert time.monotonic() - moving > POLICY.settling
        now = group.settle(leaders.places, after=generation)
        assert off_rack(cluster, now, SIX) == 0
        assert sum(len(before[name] & now[name]) for name in SIX) == PARTITIONS - 4
        # A cooperative rebalance takes two rounds.
        assert group.generation - generation <= (1 if library == "aiokafka" else 2)
        assert "4 of 36 partitions are off-rack, 0 would be" in asked.lines[0]
        generation = group.generation
        time.sleep(POLICY.settling + POLICY.cool_down)
        assert (group.generation, len(asked)) == (generation, 1)
        sent.stop()
        everything_is_read(group.reads_of, leaders.topic, sent)


def test_what_is_not_worth_it_is_left_alone(cluster: Cluster, asked: Asked) -> None:
    leaders = Leaders(cluster)
    policy = replace(POLICY, min_gain=0.1)
    # All that members of an eager group say as they join is what they said before.
    with group_of(cluster, "kafka-python", leaders.topic, policy, RANGE) as group:
        before = settled(group, SIX, leaders)
        generation = group.generation
        leaders.go(swaps=1)
        assert off_rack(cluster, before, SIX) == 2
        time.sleep(2 * policy.settling)
        assert (group.generation, len(asked)) == (generation, 0)
        # One more swap, and it is: 4 of 36.
        leaders.go(swaps=2)
        wait_until(lambda: len(asked) == 1, PATIENCE, "a rebalance is asked for")
        now = group.settle(leaders.places, after=generation)
        assert off_rack(cluster, now, SIX) == 0


@pytest.mark.slow
def test_without_a_policy_nobody_asks(cluster: Cluster, asked: Asked) -> None:
    leaders = Leaders(cluster)
    strategy = assignors.kafka_python.LeaderRackAwareRangeAssignor
    with ConsumerGroup(
        cluster,
        topics=[leaders.topic],
        strategies=lambda rack: [strategy(rack=rack, refresh=None)],
    ) as group:
        before = settled(group, SIX, leaders)
        generation = group.generation
        leaders.go(swaps=4)
        assert off_rack(cluster, before, SIX) == 8
        time.sleep(2 * POLICY.settling)
        assert (group.generation, len(asked)) == (generation, 0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_leaders_that_flap_for_a_minute(cluster: Cluster, asked: Asked) -> None:
    leaders = Leaders(cluster)
    with group_of(cluster, "kafka-python", leaders.topic, CALM) as group:
        settled(group, TWELVE, leaders)
        generation = group.generation
        ending, flaps = time.monotonic() + 60, 0
        while time.monotonic() < ending:
            began = time.monotonic()
            leaders.go(swaps=2 if flaps % 2 == 0 else 0)
            flaps += 1
            time.sleep(max(0.0, began + 1 - time.monotonic()))
        flapped = (len(asked), group.generation - generation)
        leaders.go(swaps=2)
        wait_until(lambda: len(asked) >= 1, PATIENCE, "a rebalance is asked for when it is over")
        now = group.settle(leaders.places, after=generation)
        print(f"\n{flaps} flaps in a minute: (asked, rebalances) {flapped}, then {asked.lines}")
        assert len(asked) == 1
        assert off_rack(cluster, now, TWELVE) == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("home", [True, False], ids=["leaders-go-home", "leaders-stay-away"])
def test_a_rolling_restart_of_all_brokers(cluster: Cluster, asked: Asked, home: bool) -> None:
    leaders = Leaders(cluster)
    with group_of(cluster, "kafka-python", leaders.topic, CALM) as group:
        before = settled(group, TWELVE, leaders)
        generation, began = group.generation, time.monotonic()
        # Rack by rack no rack would be left to gain from: what is restarted last leads nothing.
        for broker in (0, 2, 4, 1, 3, 5):
            cluster.stop_broker(broker)
            try:
                time.sleep(5)
            finally:
                cluster.start_broker(broker)
            wait_until(leaders.are_followed, 120, f"broker {broker} is in sync again")
            time.sleep(5)
        rolled = (len(asked), group.generation - generation, round(time.monotonic() - began))
        away = off_rack(cluster, before, TWELVE)
        if home:
            # What brokers do of themselves some minutes later, and sooner than patience ends.
            leaders.go(swaps=0)
            time.sleep(2 * CALM.settling)
        else:
            wait_until(lambda: len(asked) == 1, 2 * CALM.patience, "a rebalance is asked for")
        now = group.settle(leaders.places, after=generation if asked else -1)
        time.sleep(CALM.cool_down + CALM.settling)
        print(
            f"\nsix brokers: (asked, rebalances, seconds) {rolled}; off-rack of the plan before:"
            f" {away}, now {off_rack(cluster, now, TWELVE)}; {asked.lines}"
        )
        assert len(asked) == (0 if home else 1)
        if not home:
            assert f", {off_rack(cluster, now, TWELVE)} would be after" in asked.lines[0]
        assert group.settle(leaders.places) == now
