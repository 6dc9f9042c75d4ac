"""kafka-python's own objects, made as it makes them from what brokers send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse

NO_LEADER = -1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5


def metadata_response(
    racks: Mapping[int, str | None], leaders: Mapping[str, Sequence[int] | Mapping[int, int]]
) -> Any:
    """A broker's answer: ``racks`` by broker, the leader of each partition by topic.

    A topic without partitions is one that the broker does not know.
    """
    broker = MetadataResponse.MetadataResponseBroker
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition
    answer = MetadataResponse(
        brokers=[
            broker(node_id=node, host="127.0.0.1", port=1, rack=rack)
            for node, rack in racks.items()
        ],
        cluster_id="c",
        controller_id=0,
        topics=[
            topic(
                error_code=0 if leads else UNKNOWN_TOPIC,
                name=name,
                is_internal=False,
                partitions=[
                    partition(
                        error_code=LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0,
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=0,
                        replica_nodes=[0, 1],
                        isr_nodes=[0],
                        offline_replicas=[],
                    )
                    for index, leader in (
                        leads.items() if isinstance(leads, Mapping) else enumerate(leads)
                    )
                ],
            )
            for name, leads in leaders.items()
        ],
    )
    return MetadataResponse.decode(answer.encode(version=9, header=False), version=9, header=False)


def cluster_metadata(
    racks: Mapping[int, str | None], leaders: Mapping[str, Sequence[int] | Mapping[int, int]]
) -> Any:
    """A ClusterMetadata that has had that answer."""
    cluster = ClusterMetadata(bootstrap_servers="127.0.0.1:1")
    cluster.update_metadata(metadata_response(racks, leaders))
    return cluster


def subscription_bytes(
    topics: Sequence[str],
    *,
    version: int = 3,
    rack: str | None = None,
    owned: Mapping[str, Sequence[int]] | None = None,
    generation: int = -1,
    user_data: bytes | None = b"",
) -> bytes:
    """A member's subscription in that version, as kafka-python encodes it."""
    held = ConsumerProtocolSubscription.TopicPartition
    encoded: bytes = ConsumerProtocolSubscription(
        version=version,
        topics=list(topics),
        user_data=user_data,
        owned_partitions=[
            held(topic=topic, partitions=list(partitions))
            for topic, partitions in (owned or {}).items()
        ],
        generation_id=generation,
        rack_id=rack,
    ).encode()
    return encoded


def joined(member_id: str, metadata: bytes, instance_id: str | None = None) -> Any:
    """A member as the group's leader is told of it."""
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=member_id, group_instance_id=instance_id, metadata=metadata
    )


def decoded(member: Any) -> Any:
    """The same member after kafka-python's own leader has decoded its metadata."""
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        metadata=ConsumerProtocolSubscription.decode(member.metadata),
    )
