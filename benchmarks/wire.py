"""The same groups as kafka-python sees them: metadata of the cluster, members as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse

from assignors import Member
from assignors.group_leader.logs import UNTOLD
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor
from assignors.kafka_python.coordinator import Seat
from benchmarks.shapes import RACKS, Leaders

VERSION = 9


def metadata_answer(leaders: Leaders) -> bytes:
    """What a broker answers where there is one in each rack, which leads what its rack leads."""
    topic = MetadataResponse.MetadataResponseTopic
    brokers = list(range(len(RACKS)))
    answer: bytes = MetadataResponse(
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
    ).encode(version=VERSION, header=False)
    return answer


def take_answer(cluster: Any, answer: bytes) -> None:
    """What kafka-python does with a broker's answer."""
    cluster.update_metadata(MetadataResponse.decode(answer, version=VERSION, header=False))


def cluster_metadata(leaders: Leaders) -> Any:
    """A ClusterMetadata that has had that answer."""
    cluster = ClusterMetadata(bootstrap_servers="127.0.0.1:1")
    take_answer(cluster, metadata_answer(leaders))
    return cluster


def joined(members: list[Member], version: int) -> list[Any]:
    """What the leader of the group is told: each member's subscription, encoded."""
    held = ConsumerProtocolSubscription.TopicPartition
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            metadata=ConsumerProtocolSubscription(
                version=version,
                topics=sorted(member.topics),
                user_data=b"",
                owned_partitions=[
                    held(topic=topic, partitions=list(partitions))
                    for topic, partitions in member.owned.items()
                ],
                generation_id=member.generation,
                rack_id=member.rack,
            ).encode(),
        )
        for member in members
    ]


class Leader:
    """What the adapter asks of the consumer that leads the group."""

    cooperative = True
    owned_since = -1
    generation_id = 1
    topics_gone: frozenset[str] = frozenset()
    about = UNTOLD

    def owned_partitions(self) -> dict[str, list[int]]:
        """Nothing: its claims are among those of the members."""
        return {}

    def expect_hand_over(self, withheld: int) -> None:
        """Nobody is waiting."""


def ours(members: list[Member], leaders: Leaders) -> Callable[[], object]:
    """From encoded subscriptions to encoded assignments, as the coordinator of a leader does it."""
    cluster, received = cluster_metadata(leaders), joined(members, 3)
    seat = Seat(LeaderRackAwareCooperativeStickyAssignor(rack=RACKS[0]), Leader())

    def run() -> object:
        seat.read_members(received)
        return seat.assign(cluster, received)

    return run


def theirs(members: list[Member], leaders: Leaders) -> Callable[[], object]:
    """The plan of kafka-python's CooperativeSticky, from decoded subscriptions to objects."""
    cluster = cluster_metadata(leaders)
    decoded = [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=None,
            metadata=ConsumerProtocolSubscription.decode(member.metadata),
        )
        for member in joined(members, 1)
    ]

    def run() -> object:
        return CooperativeStickyAssignor().assign(cluster, decoded)

    return run
