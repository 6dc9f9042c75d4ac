"""Offsets and sizes of partitions' logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement_core import TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import from_code
from rackward.deadline import Deadline

LATEST, EARLIEST = -1, -2
"""Timestamps of ListOffsets that stand for a log's end and its beginning."""


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """``bytes`` of a replica's log; ``lag``: records behind the leader's high watermark."""

    bytes: int
    lag: int


ReplicaSizes = Mapping[tuple[TopicPartition, int], ReplicaSize]
"""(Partition, broker id) to the size of that replica."""


def read_log_offsets(
    admin: AdminConnection,
    leader: int,
    partitions: Collection[TopicPartition],
    timestamp: int,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, int]:
    """Return the first offset of each log (EARLIEST) or the next record's (LATEST).

    One request to ``leader``. Partitions that it does not lead any more, or that were deleted, are
    left out. LATEST is the high watermark; open transactions do not lower it. Raises AdminError.
    """
    from kafka.protocol.consumer.offsets import IsolationLevel, ListOffsetsRequest

    topic = ListOffsetsRequest.ListOffsetsTopic
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in numbers
                ],
            )
            for name, numbers in _by_topic(partitions).items()
        ],
        min_version=1,
        max_version=9,
    )
    response = admin.send(
        f"reading the offsets of broker {leader}'s logs", request, node=leader, deadline=deadline
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


def read_replica_sizes(
    admin: AdminConnection,
    brokers: Collection[int],
    partitions: Collection[TopicPartition] | None = None,
    deadline: Deadline | None = None,
) -> dict[tuple[TopicPartition, int], ReplicaSize]:
    """Return the sizes of replicas on ``brokers``, of ``partitions`` or (None) of all.

    Replicas on failed disks, and copies from one disk to another within a broker, are left out.
    Needs Describe on the cluster. Raises AdminError if one of the brokers does not respond.
    """
    from kafka.protocol.admin import DescribeLogDirsRequest as Request

    topics = None
    if partitions is not None:
        topics = [
            Request.DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in _by_topic(partitions).items()
        ]
    operation = "reading the sizes of replicas"
    # One request object per broker: during an upgrade their versions may differ.
    responses = admin.send_to_each(
        operation, {broker: Request(topics=topics) for broker in brokers}, deadline
    )
    sizes = {}
    for broker, response in responses.items():
        if code := getattr(response, "error_code", 0):
            raise from_code(f"{operation} of broker {broker}", "DescribeLogDirs", code)
        for log_dir in response.results:
            if log_dir.error_code:
                continue
            for topic in log_dir.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        tp = TopicPartition(topic.name, each.partition_index)
                        sizes[tp, broker] = ReplicaSize(each.partition_size, each.offset_lag)
    return sizes


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, Sequence[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic
