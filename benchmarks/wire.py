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
from assignors.group_leader.rebalance import Leadership
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from assignors.kafka_python.coordinator import read_metadata
from benchmarks.shapes import RACKS, Leaders
from tests.support.kafka_python import joined, metadata_message, subscription_bytes

METADATA_VERSION = 9


def metadata_response(leaders: Leaders) -> bytes:
    """Return the response of a cluster with one broker per rack, which has all leaders there."""
    brokers = {name: [RACKS.index(rack or "") for rack in racks] for name, racks in leaders.items()}
    response: bytes = metadata_message(dict(enumerate(RACKS)), brokers).encode(
        version=METADATA_VERSION, header=False
    )
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
    return [
        joined(
            member.id,
            subscription_bytes(
                sorted(member.topics),
                version=version,
                rack=member.rack,
                owned=member.owned,
                generation=member.generation,
            ),
        )
        for member in members
    ]


def rackward_assignment(members: list[Member], leaders: Leaders) -> Callable[[], object]:
    """Return the leader's work, from encoded subscriptions to encoded assignments."""
    cluster = cluster_metadata(leaders)
    response = joined_members(members, 3)
    strategy = LeaderRackAwareCooperativeStickyAssignor(rack=RACKS[0])
    leadership = Leadership()

    def run() -> object:
        members = read_members((m.member_id, m.group_instance_id, m.metadata) for m in response)
        leaders, _ = read_metadata(cluster, members.topics)
        context = GroupContext("benchmark", 1)
        result = leadership.assign(strategy.protocol, members, leaders, frozenset(), context, 0.0)
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
