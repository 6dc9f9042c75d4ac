"""Members of test groups that are consumers of confluent-kafka: its own Consumer, or ours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

import assignors.confluent
from integration.support.clients import Joining, Place, Told

_BATCH = 2000
_MAGIC = b"CGMDv2:"


def generation_in(metadata: bytes) -> int:
    """The generation in what ``consumer_group_metadata()`` returns, -1 outside the group.

    librdkafka writes the magic, the generation as four bytes in the machine's order, and the
    ids.
    """
    assert metadata.startswith(_MAGIC), metadata
    at = len(_MAGIC)
    return int.from_bytes(metadata[at : at + 4], sys.byteorder, signed=True)


class ConfluentClient:
    """A Consumer of confluent-kafka, or one with its surface."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        def tell(kind: str) -> Callable[[Any, list[TopicPartition]], None]:
            return lambda _, partitions: told(kind, [(p.topic, p.partition) for p in partitions])

        self.consumer.subscribe(
            list(topics) if pattern is None else [f"^{pattern}$"],
            on_assign=tell("assigned"),
            on_revoke=tell("revoked"),
            on_lost=tell("lost"),
        )

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        first = self.consumer.poll(seconds)
        if first is None:
            return []
        found = []
        for message in (first, *self.consumer.consume(_BATCH, 0)):
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(((message.topic(), message.partition()), message.offset()))
        return found

    def owned(self) -> frozenset[Place]:
        try:
            return frozenset((p.topic, p.partition) for p in self.consumer.assignment())
        except RuntimeError:  # closed
            return frozenset()

    def generation(self) -> int:
        try:
            return generation_in(self.consumer.consumer_group_metadata())
        except RuntimeError:  # closed
            return -1

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True)
class Confluent:
    """Makes members that are ``consumer``\\ s with this ``partition.assignment.strategy``."""

    strategy: str = "leader-rack-aware-cooperative-sticky"
    consumer: Callable[[dict[str, Any]], Any] = assignors.confluent.Consumer

    def __call__(self, joining: Joining) -> ConfluentClient:
        settings = {
            # Who is taken for dead on a busy machine would have its partitions given to others.
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "topic.metadata.refresh.interval.ms": 2000,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            "bootstrap.servers": joining.bootstrap,
            "group.id": joining.group_id,
            "client.id": joining.name,
            "partition.assignment.strategy": self.strategy,
            **({} if joining.rack is None else {"client.rack": joining.rack}),
            **joining.settings,
        }
        return ConfluentClient(self.consumer(settings))
