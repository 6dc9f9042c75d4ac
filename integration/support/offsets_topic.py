"""The committed offsets of groups, in the order in which brokers stored them."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from itertools import pairwise

from kafka import KafkaConsumer, TopicPartition

from integration.support.clients import PartitionId
from rackward.clusters import Cluster
from tests.support.waiting import TEST_TIMEOUT

TOPIC = "__consumer_offsets"


def commit_history(cluster: Cluster, group: str) -> dict[PartitionId, list[int]]:
    """Return all offsets that ``group`` has committed, per partition, in order."""
    history: dict[PartitionId, list[int]] = {}
    for key, value in _records(cluster):
        # OffsetCommitKey is version 0 or 1; version 2 is a group's metadata.
        if value is None or struct.unpack_from(">h", key)[0] > 1:
            continue
        name, at = _string(key, 2)
        topic, at = _string(key, at)
        if name == group:
            (partition,) = struct.unpack_from(">i", key, at)
            (offset,) = struct.unpack_from(">q", value, 2)
            history.setdefault((topic, partition), []).append(offset)
    return history


def count_decreases(history: dict[PartitionId, list[int]]) -> int:
    """Return the number of commits with a lower offset than the commit before."""
    return sum(b < a for offsets in history.values() for a, b in pairwise(offsets))


def _records(cluster: Cluster) -> Iterator[tuple[bytes, bytes | None]]:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers.split(","), enable_auto_commit=False
    )
    try:
        partitions = [TopicPartition(TOPIC, p) for p in consumer.partitions_for_topic(TOPIC) or ()]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + TEST_TIMEOUT
        while any(consumer.position(each) < ends[each] for each in partitions):
            assert time.monotonic() < deadline, f"{TOPIC} is not read to its end"
            for records in consumer.poll(timeout_ms=500).values():
                yield from ((record.key, record.value) for record in records)
    finally:
        consumer.close()


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length
