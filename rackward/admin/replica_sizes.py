"""How large replicas are, as the brokers that hold them say."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from placement_core import TopicPartition
from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.refusals import refusal


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """``bytes`` of its log; ``lag``, in records, is what it is behind the leader's high mark."""

    bytes: int
    lag: int


Sizes = Mapping[tuple[TopicPartition, int], ReplicaSize]
"""(Partition, broker) to the size of that replica."""


def read_sizes(
    admin: AdminConnection,
    brokers: Collection[int],
    partitions: Collection[TopicPartition] | None = None,
    deadline: Deadline | None = None,
) -> dict[tuple[TopicPartition, int], ReplicaSize]:
    """The sizes of replicas on ``brokers``, of ``partitions`` or (None) of all.

    Copies within a broker from one disk to another do not count. Raises AdminError where a
    broker does not answer; it takes Describe on the cluster.
    """
    from kafka.protocol.admin import DescribeLogDirsRequest

    asked = None
    if partitions is not None:
        per_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            per_topic.setdefault(topic, []).append(partition)
        topic_of = DescribeLogDirsRequest.DescribableLogDirTopic
        asked = [topic_of(topic=name, partitions=found) for name, found in per_topic.items()]
    doing = "reading the sizes of replicas"
    # A request of its own for each: versions may differ while brokers are upgraded.
    answers = admin.ask_each(
        doing, {broker: DescribeLogDirsRequest(topics=asked) for broker in brokers}, deadline
    )
    sizes = {}
    for broker, answer in answers.items():
        if code := getattr(answer, "error_code", 0):
            raise refusal(f"{doing} of broker {broker}", "DescribeLogDirs", code)
        for folder in answer.results:
            # An unreadable disk: its replicas are offline and have no size.
            if folder.error_code:
                continue
            for topic in folder.topics:
                for each in topic.partitions:
                    if not each.is_future_key:
                        place = TopicPartition(topic.name, each.partition_index)
                        sizes[place, broker] = ReplicaSize(each.partition_size, each.offset_lag)
    return sizes
