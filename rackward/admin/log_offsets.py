"""Where partitions' logs begin and end, and the epochs of their leaders."""

from __future__ import annotations

from collections.abc import Sequence

from placement_core import TopicPartition
from rackward.admin.connection import AdminConnection
from rackward.admin.deadline import Deadline
from rackward.admin.metadata import state_of
from rackward.admin.state import ClusterState

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
