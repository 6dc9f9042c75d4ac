"""Real KafkaConsumers that have no broker to talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

from tests.assignors.kafka_python_group import metadata_response

RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
Consumers = Callable[..., Any]


@contextmanager
def offline_consumers() -> Iterator[Consumers]:
    """Makes consumers of strategies, and closes them."""
    made: list[Any] = []

    def make(*strategies: Any, topics: tuple[str, ...] = ("t",), **config: Any) -> Any:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers="127.0.0.1:1",
            api_version=(3, 9),
            group_id="g",
            partition_assignment_strategy=list(strategies),
            **{"enable_auto_commit": False, **config},
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.close(timeout_ms=0)


def claims(
    consumer: Any, protocol: str = "leader-rack-aware-cooperative-sticky"
) -> tuple[dict[str, list[int]], int]:
    """What it would claim to own if it joined now, and since which generation."""
    said = ConsumerProtocolSubscription.decode(
        dict(consumer._coordinator.group_protocols())[protocol].encode()
    )
    return {held.topic: held.partitions for held in said.owned_partitions}, said.generation_id


def complete(consumer: Any, generation: int, **assigned: list[int]) -> None:
    """What the consumer does when a join ends with that assignment."""
    coordinator = consumer._coordinator
    data = ConsumerProtocolAssignment(
        version=0, assigned_partitions=list(assigned.items()), user_data=b""
    ).encode()
    protocol = next(iter(coordinator._assignors))
    consumer._net.run(coordinator._on_join_complete_async, generation, "m", protocol, data)


def perform(
    consumer: Any, *members: Any, protocol: str = "leader-rack-aware-cooperative-sticky"
) -> dict[str, Any]:
    """What it gives everyone as the leader of these members."""
    answer = consumer._coordinator._perform_assignment("m0", protocol, list(members))
    return {
        member: {
            topic: list(partitions)
            for topic, partitions in ConsumerProtocolAssignment.decode(
                data if isinstance(data, bytes) else data.encode()
            ).assigned_partitions
        }
        for member, data in answer.items()
    }


def answer(consumer: Any, **leaders: list[int]) -> None:
    """Brokers answer the consumer with these leaders."""
    consumer._cluster.update_metadata(metadata_response(RACKS, leaders))
