"""Commits of KafkaConsumers in the middle of rebalances: in the poll loop, and in a listener."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.clients import (
    Joining,
    KafkaPython,
    KafkaPythonClient,
    Place,
    Strategies,
    Told,
)
from integration.support.groups import ConsumerGroup
from integration.support.offsets_topic import commit_history, went_back
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import Trickle, create_topic, new_name
from rackward.clusters import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 12


@dataclass
class Outcomes:
    """How often ``commit`` returned, or raised what, by where it was called."""

    counts: Counter[str] = field(default_factory=Counter)

    def commit(self, consumer: Any, where: str) -> None:
        try:
            consumer.commit()
        except Exception as error:  # noqa: BLE001 - that is what is counted
            self.counts[f"{where}: {type(error).__name__}"] += 1
        else:
            self.counts[f"{where}: committed"] += 1


class Committing(KafkaPythonClient):
    """Commits by hand what each poll returned, and in each call of its listener."""

    def __init__(self, consumer: KafkaConsumer, outcomes: Outcomes) -> None:
        super().__init__(consumer)
        self._outcomes = outcomes

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        def tell(kind: str, places: Iterable[Place]) -> None:
            told(kind, places)
            self._outcomes.commit(self.consumer, kind)

        super().subscribe(tell, topics=topics, pattern=pattern)

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        found = list(super().poll(min(seconds, 0.05)))
        if found:
            self._outcomes.commit(self.consumer, "loop")
        return found


@dataclass
class Commits:
    """What became of the commits of a group through a few rebalances."""

    outcomes: Counter[str]
    went_back: int
    read: int
    read_again: int


def rebalance_while_committing(cluster: Cluster, client: KafkaPython) -> Commits:
    topic = create_topic(cluster, new_name("commits"), replicas_led_from(evenly(PARTITIONS)))
    places = {(topic, partition) for partition in range(PARTITIONS)}
    outcomes = Outcomes()

    def make(joining: Joining) -> Committing:
        return Committing(client(joining).consumer, outcomes)

    with (
        Trickle(cluster, topic, PARTITIONS, every=0.02),
        ConsumerGroup(cluster, topics=[topic], client=make, enable_auto_commit=False) as group,
    ):
        group.start("a1", "a")
        # Whoever thinks for so long keeps the others waiting in each rebalance.
        group.start("b1", "b", thinks=1.0)
        group.settle(places)
        generation = group.generation
        group.start("c1", "c")
        group.settle(places, after=generation)
        time.sleep(0.5)
        generation = group.generation
        group.stop("a1")
        group.settle(places, after=generation)
        time.sleep(0.5)
    reads = [offset for place in places for _, offset, _ in group.reads_of(place).seen]
    again = len(reads) - sum(len(group.reads_of(place).offsets()) for place in places)
    history = commit_history(cluster, group.id)
    return Commits(outcomes.counts, went_back(history), len(reads), again)


OURS: dict[str, Strategies] = {
    "cooperative": lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)],
    "eager": lambda rack: [LeaderRackAwareRangeAssignor(rack=rack)],
}
STOCK: dict[str, Strategies] = {
    "cooperative": lambda _: [CooperativeStickyAssignor()],
    "eager": lambda _: [RangePartitionAssignor()],
}


@pytest.mark.parametrize("protocol", OURS)
def test_every_commit_is_taken(cluster: Cluster, protocol: str) -> None:
    commits = rebalance_while_committing(cluster, KafkaPython(OURS[protocol]))
    print(commits)
    assert {name.rpartition(" ")[2] for name in commits.outcomes} == {"committed"}
    assert {"loop: committed", "assigned: committed", "revoked: committed"} <= set(commits.outcomes)
    assert (commits.went_back, commits.read_again) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", STOCK)
def test_what_kafka_python_refuses_by_itself(cluster: Cluster, protocol: str) -> None:
    commits = rebalance_while_committing(cluster, KafkaPython(STOCK[protocol], hardened=False))
    print(commits)
    # It reads nothing in a rebalance, and commits nothing in a listener.
    assert set(commits.outcomes) == {
        "loop: committed",
        "assigned: RuntimeError",
        "revoked: RuntimeError",
    }
