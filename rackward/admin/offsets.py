"""Where partitions' logs begin and end, and the epochs of their leaders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from placement_core import TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import Deadline, refusal
from rackward.admin.metadata import ClusterState, state_of

LATEST, EARLIEST = -1, -2


def read_log_offsets(
    admin: AdminConnection,
    leader: int,
    partitions: Sequence[TopicPartition],
    which: int,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, int]:
    """The first offsets of logs (EARLIEST), or the next record's (LATEST), in one request.

    Partitions that ``leader`` does not lead any more, or that are gone, are left out. The end
    is what consumers may read up to, transactions not regarded. Raises AdminError.
    """
    from kafka.protocol.consumer.offsets import IsolationLevel, ListOffsetsRequest

    of_topic = ListOffsetsRequest.ListOffsetsTopic
    per_topic: dict[str, list[int]] = {}
    for place in sorted(partitions):
        per_topic.setdefault(place.topic, []).append(place.partition)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        topics=[
            of_topic(
                name=topic,
                partitions=[
                    of_topic.ListOffsetsPartition(partition_index=number, timestamp=which)
                    for number in numbers
                ],
            )
            for topic, numbers in per_topic.items()
        ],
        min_version=1,
        max_version=9,
    )
    answer = admin.ask(
        f"reading the offsets of broker {leader}'s logs", request, node=leader, deadline=deadline
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


def read_layout(
    admin: AdminConnection, *, internal: bool = False, deadline: Deadline | None = None
) -> tuple[ClusterState, dict[TopicPartition, int]]:
    """All topics that this user may see, in one request, and the epochs of their leaders.

    ``internal`` has those that Kafka keeps for itself as well. Brokers that are down are not
    in it: see `read_state`. Raises AdminError.
    """
    from kafka.protocol.metadata import MetadataRequest

    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = admin.ask("reading the topics", request, deadline=deadline)
    epochs = {
        TopicPartition(topic.name, each.partition_index): epoch
        for topic in answer.topics
        for each in topic.partitions
        if (epoch := getattr(each, "leader_epoch", -1)) >= 0
    }
    return state_of(answer, internal=internal), epochs


# ---- How large replicas are, as the brokers that hold them say.


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
