"""Metadata of commits, and commits that fail for a part of their partitions."""

from __future__ import annotations

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
from integration.support.topics import new_name, with_admin
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

MANUAL_COMMITS = {"enable.auto.commit": False}


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
