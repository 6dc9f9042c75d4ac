"""Objects of kafka-python, and KafkaConsumers that never reach a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.protocol.metadata import MetadataResponse

NO_LEADER = -1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5


def message(kind: Any, **fields: Any) -> Any:
    """Return a message with nested ones as mappings; the fields that are not given are empty."""
    for name, value in fields.items():
        if value and isinstance(value, list) and isinstance(value[0], dict):
            nested = kind.fields[name].data_class
            fields[name] = [message(nested, **each) for each in value]
    return kind(**fields)


def metadata_message(
    racks: Mapping[int, str | None],
    leaders: Mapping[str, Sequence[int] | Mapping[int, int]],
    port: int = 1,
) -> Any:
    """Return a metadata response: ``racks`` by broker, the leader of each partition by topic.

    A topic without partitions is reported as unknown. All brokers are at ``port`` of this machine.
    """
    topics = []
    for name, partitions in leaders.items():
        numbered = partitions if isinstance(partitions, Mapping) else dict(enumerate(partitions))
        rows = [
            {
                "error_code": LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0,
                "partition_index": index,
                "leader_id": leader,
                "leader_epoch": 0,
                "replica_nodes": [0, 1],
                "isr_nodes": [0],
            }
            for index, leader in numbered.items()
        ]
        error = 0 if partitions else UNKNOWN_TOPIC
        topics.append({"error_code": error, "name": name, "partitions": rows})
    return message(
        MetadataResponse,
        brokers=[
            {"node_id": node, "host": "127.0.0.1", "port": port, "rack": rack}
            for node, rack in racks.items()
        ],
        cluster_id="c",
        controller_id=0,
        topics=topics,
    )


def metadata_response(
    racks: Mapping[int, str | None], leaders: Mapping[str, Sequence[int] | Mapping[int, int]]
) -> Any:
    """Return `metadata_message` of the arguments as a client decodes it."""
    encoded = metadata_message(racks, leaders).encode(version=9, header=False)
    return MetadataResponse.decode(encoded, version=9, header=False)


def cluster_metadata(
    racks: Mapping[int, str | None], leaders: Mapping[str, Sequence[int] | Mapping[int, int]]
) -> Any:
    """Return a ClusterMetadata that has received `metadata_response` of the arguments."""
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
    """Return a member's subscription in that version, as kafka-python encodes it."""
    encoded: bytes = ConsumerProtocolSubscription(
        version=version,
        topics=list(topics),
        user_data=user_data,
        owned_partitions=[(topic, list(partitions)) for topic, partitions in (owned or {}).items()],
        generation_id=generation,
        rack_id=rack,
    ).encode()
    return encoded


def assignment_bytes(assigned: Mapping[str, Sequence[int]]) -> bytes:
    """Return a member's assignment, as kafka-python encodes it."""
    encoded: bytes = ConsumerProtocolAssignment(
        version=0,
        assigned_partitions=[(topic, list(numbers)) for topic, numbers in assigned.items()],
        user_data=None,
    ).encode()
    return encoded


def joined(member_id: str, metadata: bytes) -> Any:
    """Return a member as the JoinGroup response of the group's leader lists it."""
    return JoinGroupResponse.JoinGroupResponseMember(member_id=member_id, metadata=metadata)


RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
Consumers = Callable[..., Any]


@contextmanager
def offline_consumers() -> Iterator[Consumers]:
    """Yield a function that constructs consumers of given strategies; close them at the end."""
    constructed: list[Any] = []

    def construct(*strategies: Any, topics: tuple[str, ...] = ("t",), **config: Any) -> Any:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers="127.0.0.1:1",
            api_version=(3, 9),
            group_id="g",
            partition_assignment_strategy=list(strategies),
            **{"enable_auto_commit": False, **config},
        )
        constructed.append(consumer)
        return consumer

    yield construct
    for consumer in constructed:
        consumer.close(timeout_ms=0)


def claims(
    consumer: Any, protocol: str = "leader-rack-aware-cooperative-sticky"
) -> tuple[dict[str, list[int]], int]:
    """Return what it would claim to own if it joined now, and the generation of the claim."""
    subscription = ConsumerProtocolSubscription.decode(
        dict(consumer._coordinator.group_protocols())[protocol].encode()
    )
    owned = {each.topic: each.partitions for each in subscription.owned_partitions}
    return owned, subscription.generation_id


def complete(consumer: Any, generation: int, **assigned: list[int]) -> None:
    """End a join of the consumer with this assignment."""
    coordinator = consumer._coordinator
    data = ConsumerProtocolAssignment(
        version=0, assigned_partitions=list(assigned.items()), user_data=b""
    ).encode()
    protocol = next(iter(coordinator._assignors))
    consumer._net.run(coordinator._on_join_complete_async, generation, "m", protocol, data)


def perform(consumer: Any, *members: Any) -> dict[str, Any]:
    """Return what the consumer assigns as the leader of these members."""
    protocol = "leader-rack-aware-cooperative-sticky"
    assigned = consumer._coordinator._perform_assignment("m0", protocol, list(members))
    return {
        member: {
            topic: list(partitions)
            for topic, partitions in ConsumerProtocolAssignment.decode(
                data if isinstance(data, bytes) else data.encode()
            ).assigned_partitions
        }
        for member, data in assigned.items()
    }


def receive_metadata(consumer: Any, **leaders: list[int]) -> None:
    """Have the consumer receive metadata with these leaders by topic."""
    consumer._cluster.update_metadata(metadata_response(RACKS, leaders))
