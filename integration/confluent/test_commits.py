"""Commits: the order and results of many, what close does with them, metadata, and failures."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from integration.support.confluent import (
    CONFLUENT,
    Consumers,
    new_group,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.offsets_topic import commit_history, count_decreases
from integration.support.racks import BROKERS, replicas_led_from
from integration.support.topics import (
    committed,
    coordinator_of,
    create_topic,
    new_name,
    with_admin,
)
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

MANUAL_COMMITS = {"enable.auto.commit": False}


class CommitRecorder:
    """An ``on_commit`` that records the committed offset of partition 0, or the error's name."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.errors: list[str] = []

    def __call__(self, error: Any, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self.errors.append(error.name())
        else:
            self.offsets += [p.offset for p in partitions if p.partition == 0]


def test_the_last_of_many_asynchronous_commits_is_stored(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group, results = new_group(), CommitRecorder()
    consumer = consumers({**MANUAL_COMMITS, "on_commit": results}, group=group)
    consumer.subscribe([filled])
    poll_until(consumer)
    for offset in range(1, 1001):
        consumer.commit(offsets=[TopicPartition(filled, 0, offset % 1000)])
    poll_until(
        consumer, until=lambda _: len(results.offsets) == 1000, what="the results of all commits"
    )
    assert results.errors == []
    assert results.offsets == [*range(1, 1000), 0]
    assert committed(cluster, group) == {(filled, 0): 0}
    assert len(consumer.assignment()) == 3


@pytest.mark.parametrize("method", ["close", "unsubscribe"])
def test_leaving_waits_for_unanswered_commits(
    consumers: Consumers, filled: str, cluster: Cluster, method: str
) -> None:
    group, results = new_group(), CommitRecorder()
    consumer = consumers({**MANUAL_COMMITS, "on_commit": results}, group=group)
    consumer.subscribe([filled])
    poll_until(consumer)
    for offset in range(1, 51):
        consumer.commit(
            offsets=[TopicPartition(filled, 0, offset), TopicPartition(filled, 1, 100 - offset)]
        )
    getattr(consumer, method)()
    if method == "unsubscribe":
        poll_until(
            consumer, until=lambda _: len(results.offsets) == 50, what="the results of all commits"
        )
    assert (results.offsets, results.errors) == (list(range(1, 51)), [])
    assert committed(cluster, group) == {(filled, 0): 50, (filled, 1): 50}


def test_commits_do_not_go_back_while_a_coordinator_dies(
    consumers: Consumers, cluster: Cluster
) -> None:
    group, results = new_group(), CommitRecorder()
    # After its first commit, the group has a coordinator.
    consumers(group=group).commit(offsets=[TopicPartition(new_name("none"), 0, 1)])
    coordinator = coordinator_of(cluster, group)
    leader = next(racks for racks in [["a"], ["b"]] if coordinator not in BROKERS[racks[0]])
    topic = create_topic(cluster, new_name("order"), replicas_led_from(leader))
    consumer = consumers({**MANUAL_COMMITS, "on_commit": results}, group=group)
    consumer.subscribe([topic])
    poll_until(consumer)
    sent = 0
    for change in (lambda _: None, cluster.kill_broker, cluster.start_broker):
        change(coordinator)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            sent += 1
            consumer.commit(offsets=[TopicPartition(topic, 0, sent)])
            consumer.poll(0.01)
    poll_until(
        consumer,
        until=lambda _: len(results.offsets) + len(results.errors) == sent,
        what="the results of all commits",
    )
    history = commit_history(cluster, group)
    assert count_decreases(history) == 0
    assert results.errors == []
    assert results.offsets == sorted(results.offsets)
    assert history[topic, 0][-1] == max(results.offsets)


def three_partitions(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(3)]


def committed_metadata(cluster: Cluster, group: str) -> dict[int, str]:
    """Return what brokers have, by partition number."""
    offsets = with_admin(cluster, lambda admin: admin.list_group_offsets(group))
    return {p.partition: offset.metadata for p, offset in offsets[group].items()}


def test_metadata_is_stored_as_by_librdkafka(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    # With a NUL at the end. Without, librdkafka's committed() reads past the end.
    group = new_group()
    consumer = consumers({**MANUAL_COMMITS, "enable.auto.offset.store": False}, group=group)
    consumer.subscribe([filled])
    read_records(consumer, 30)
    notes = ["a note of é", "", None]
    partitions = [
        TopicPartition(filled, p, 1) if note is None else TopicPartition(filled, p, 1, note)
        for p, note in enumerate(notes)
    ]
    consumer.commit(offsets=partitions, asynchronous=False)
    assert committed_metadata(cluster, group) == {0: "a note of é\0", 1: "\0", 2: ""}
    stock = CONFLUENT.consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    for reader in (consumer, stock):
        read = reader.committed(three_partitions(filled), timeout=60)
        assert [partition.metadata for partition in read] == ["a note of é", "", None]
    stock.close()

    consumer.store_offsets(offsets=[TopicPartition(filled, 0, 2, "stored")])
    consumer.commit(asynchronous=False)
    assert committed_metadata(cluster, group)[0] == "stored\0"


def test_a_partly_failed_commit_is_reported(consumers: Consumers, filled: str) -> None:
    results: list[tuple[Any, list[tuple[int, Any]]]] = []

    def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        errors = sorted((p.partition, p.error and p.error.code()) for p in partitions)
        results.append((error and error.code(), errors))

    consumer = consumers({**MANUAL_COMMITS, "on_commit": on_commit})
    consumer.subscribe([filled])
    read_records(consumer, 30)
    missing = new_name("missing")
    unknown, too_large = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.OFFSET_METADATA_TOO_LARGE
    for offsets, expected in (
        ([TopicPartition(missing, 7, 1), TopicPartition(filled, 0, 4)], unknown),
        ([TopicPartition(filled, 1, 4), TopicPartition(missing, 7, 1)], unknown),
        ([TopicPartition(filled, 2, 4), TopicPartition(filled, 0, 5, "m" * 5000)], too_large),
    ):
        assert raised_code(consumer.commit, offsets=offsets, asynchronous=False) == expected
        results.clear()
        consumer.commit(offsets=offsets)
        poll_until(consumer, until=lambda _: results, what="the result of the commit")
        assert results == [(expected, sorted((p.partition, expected) for p in offsets))]
    # Partitions that were valid are committed, although the result has the error for them too.
    stored = consumer.committed(three_partitions(filled), timeout=60)
    assert [partition.offset for partition in stored] == [4, 4, 4]
