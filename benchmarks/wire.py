"""A group as its kafka-python leader receives it: cluster metadata, and members as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse

from assignors import Member
from assignors.encoding import encode_assignment, read_members
from assignors.group_leader import GroupContext
from assignors.group_leader.leadership import Leadership
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from assignors.kafka_python.coordinator import read_metadata
from benchmarks.shapes import RACKS, Leaders

METADATA_VERSION = 9


def metadata_response(leaders: Leaders) -> bytes:
    """Return the response of a cluster with one broker per rack, which has all leaders there."""
    topic = MetadataResponse.MetadataResponseTopic
    brokers = list(range(len(RACKS)))
    response: bytes = MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node, host="127.0.0.1", port=1, rack=rack
            )
            for node, rack in enumerate(RACKS)
        ],
        cluster_id="benchmark",
        controller_id=0,
        topics=[
            topic(
                error_code=0,
                name=name,
                is_internal=False,
                partitions=[
                    topic.MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=RACKS.index(rack or ""),
                        leader_epoch=0,
                        replica_nodes=sorted(brokers, key=lambda node: RACKS[node] != rack),
                        isr_nodes=brokers,
                        offline_replicas=[],
                    )
                    for index, rack in enumerate(racks)
                ],
            )
            for name, racks in leaders.items()
        ],
    ).encode(version=METADATA_VERSION, header=False)
    return response


def update_metadata(cluster: Any, response: bytes) -> None:
    """Decode a response and update kafka-python's ``cluster`` with it."""
    cluster.update_metadata(
        MetadataResponse.decode(response, version=METADATA_VERSION, header=False)
    )


def cluster_metadata(leaders: Leaders) -> Any:
    """Return a ClusterMetadata with these leaders."""
    cluster = ClusterMetadata(bootstrap_servers="127.0.0.1:1")
    update_metadata(cluster, metadata_response(leaders))
    return cluster


def joined_members(members: list[Member], version: int) -> list[Any]:
    """Return the members of a JoinGroup response, each with its encoded subscription."""
    topic_partition = ConsumerProtocolSubscription.TopicPartition
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            metadata=ConsumerProtocolSubscription(
                version=version,
                topics=sorted(member.topics),
                user_data=b"",
                owned_partitions=[
                    topic_partition(topic=topic, partitions=list(partitions))
                    for topic, partitions in member.owned.items()
                ],
                generation_id=member.generation,
                rack_id=member.rack,
            ).encode(),
        )
        for member in members
    ]


def rackward_assignment(members: list[Member], leaders: Leaders) -> Callable[[], object]:
    """Return our leader's work, from encoded subscriptions to encoded assignments."""
    cluster = cluster_metadata(leaders)
    response = joined_members(members, 3)
    strategy = LeaderRackAwareCooperativeStickyAssignor(rack=RACKS[0])
    leadership = Leadership(strategy.rebalance, strategy.refresh)

    def run() -> object:
        joined = read_members((m.member_id, m.group_instance_id, m.metadata) for m in response)
        leaders, _ = read_metadata(cluster, joined.topics)
        context = GroupContext("benchmark", 1)
        result = leadership.assign(joined, leaders, frozenset(), context, 0.0)
        return encode_assignment(result.assigned)

    return run


def kafka_python_assignment(members: list[Member], leaders: Leaders) -> Callable[[], object]:
    """Return the work of kafka-python's CooperativeSticky, without decoding and encoding."""
    cluster = cluster_metadata(leaders)
    decoded = [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=None,
            metadata=ConsumerProtocolSubscription.decode(member.metadata),
        )
        for member in joined_members(members, 1)
    ]

    def run() -> object:
        return CooperativeStickyAssignor().assign(cluster, decoded)

    return run
