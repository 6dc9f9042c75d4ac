"""Commits of KafkaConsumers during rebalances, and committed offsets after them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CommitFailedError

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    LeaderRackAwareRangeAssignor,
)
from integration.support.clients import (
    KafkaPython,
    KafkaPythonClient,
    MemberConfig,
    OnChange,
    PartitionId,
)
from integration.support.groups import ConsumerGroup
from integration.support.offsets_topic import commit_history, count_decreases
from integration.support.racks import evenly, replicas_led_from
from integration.support.topics import (
    SteadyProducer,
    committed,
    create_topic,
    delete_topic,
    fill,
    new_name,
)
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

PARTITIONS = 12


class CommittingClient(KafkaPythonClient):
    """Calls ``commit`` after each poll with records, and in each call of its listener.

    ``outcomes`` counts successful commits, and each error, by where ``commit`` was called.
    """

    def __init__(self, consumer: KafkaConsumer, outcomes: Counter[str]) -> None:
        super().__init__(consumer)
        self._outcomes = outcomes

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        def commit_on_change(kind: str, tps: Iterable[PartitionId]) -> None:
            on_change(kind, tps)
            self._commit(kind)

        super().subscribe(commit_on_change, topics=topics, pattern=pattern)

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        records = list(super().poll(min(seconds, 0.05)))
        if records:
            self._commit("loop")
        return records

    def _commit(self, where: str) -> None:
        try:
            self.consumer.commit()
        except Exception as error:  # noqa: BLE001 - errors are counted
            self._outcomes[f"{where}: {type(error).__name__}"] += 1
        else:
            self._outcomes[f"{where}: committed"] += 1


@pytest.mark.parametrize(
    "strategy", [LeaderRackAwareCooperativeStickyAssignor, LeaderRackAwareRangeAssignor]
)
def test_every_commit_succeeds(cluster: Cluster, strategy: Any) -> None:
    topic = create_topic(cluster, new_name("commits"), replicas_led_from(evenly(PARTITIONS)))
    tps = {(topic, partition) for partition in range(PARTITIONS)}
    outcomes: Counter[str] = Counter()
    client = KafkaPython(lambda rack: [strategy(rack=rack)])

    def make(config: MemberConfig) -> CommittingClient:
        return CommittingClient(client(config).consumer, outcomes)

    with (
        SteadyProducer(cluster, topic, PARTITIONS, every=0.02),
        ConsumerGroup(cluster, topics=[topic], client=make, enable_auto_commit=False) as group,
    ):
        group.start("a1", "a")
        # The other members wait for this one in each rebalance.
        group.start("b1", "b", poll_interval=1.0)
        group.settle(tps)
        generation = group.generation
        group.start("c1", "c")
        group.settle(tps, after=generation)
        time.sleep(0.5)
        generation = group.generation
        group.stop("a1")
        group.settle(tps, after=generation)
        time.sleep(0.5)
    print(outcomes)
    assert {name.rpartition(" ")[2] for name in outcomes} == {"committed"}
    assert {"loop: committed", "assigned: committed", "revoked: committed"} <= set(outcomes)
    assert count_decreases(commit_history(cluster, group.id)) == 0
    for tp in tps:
        assert len(group.reads_of(tp).seen) == len(group.reads_of(tp).offsets())


@pytest.mark.parametrize(
    "created_again",
    [
        "after-the-commit",
        # Brokers know topic ids in commits from 4.1 on.
        pytest.param("before-the-commit", marks=pytest.mark.new_protocol),
    ],
)
def test_an_old_commit_is_not_for_a_recreated_topic(cluster: Cluster, created_again: str) -> None:
    topic = create_topic(cluster, new_name("recreated"), [[0]])
    # Metadata is requested again when a commit fails, not before it.
    settings = {"enable_auto_commit": False, "metadata_max_age_ms": 300_000}
    config = MemberConfig(cluster.bootstrap("a"), new_name("group"), "a1", "a", settings)
    client = KafkaPython()(config)
    try:
        fill(cluster, topic, 1, records=3)
        client.subscribe(lambda *_: None, topics=[topic])
        wait_until(lambda: bool(list(client.poll(0.1))), TEST_TIMEOUT, "records are read")
        client.consumer.pause(TopicPartition(topic, 0))
        wait_until(lambda: not client.poll(0.5), TEST_TIMEOUT, "no fetch is pending")
        delete_topic(cluster, topic)
        if created_again == "before-the-commit":
            create_topic(cluster, topic, [[0]])
        called = time.monotonic()
        with pytest.raises(CommitFailedError, match="the topic was deleted"):
            client.consumer.commit()
        assert time.monotonic() - called < 10
        if created_again == "after-the-commit":
            create_topic(cluster, topic, [[0]])
        assert committed(cluster, config.group_id) == {}
    finally:
        client.close()
