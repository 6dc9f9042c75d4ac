"""Members of test groups that are confluent-kafka consumers: its own Consumer, or rackward's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

import assignors.confluent
from integration.support.clients import MemberConfig, OnChange, PartitionId

_BATCH = 2000
_MAGIC = b"CGMDv2:"


def generation_in(metadata: bytes) -> int:
    """Return the generation in the result of ``consumer_group_metadata()``, -1 outside the group.

    librdkafka writes the magic, the generation as four bytes in the machine's order, and the ids.
    """
    assert metadata.startswith(_MAGIC), metadata
    at = len(_MAGIC)
    return int.from_bytes(metadata[at : at + 4], sys.byteorder, signed=True)


class ConfluentClient:
    """A member whose consumer has the methods of confluent's Consumer."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        def callback(kind: str) -> Callable[[Any, list[TopicPartition]], None]:
            return lambda _, changed: on_change(kind, [(p.topic, p.partition) for p in changed])

        self.consumer.subscribe(
            list(topics) if pattern is None else [f"^{pattern}$"],
            on_assign=callback("assigned"),
            on_revoke=callback("revoked"),
            on_lost=callback("lost"),
        )

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        first = self.consumer.poll(seconds)
        if first is None:
            return []
        records = []
        for message in (first, *self.consumer.consume(_BATCH, 0)):
            if message.error() is not None:
                raise KafkaException(message.error())
            records.append(((message.topic(), message.partition()), message.offset()))
        return records

    def owned(self) -> frozenset[PartitionId]:
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
    """Constructs members: a ``consumer`` with ``partition.assignment.strategy=strategy``."""

    strategy: str = "leader-rack-aware-cooperative-sticky"
    consumer: Callable[[dict[str, Any]], Any] = assignors.confluent.Consumer

    def __call__(self, config: MemberConfig) -> ConfluentClient:
        settings = {
            # On a busy machine a shorter timeout would remove members from the group.
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "topic.metadata.refresh.interval.ms": 2000,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            "bootstrap.servers": config.bootstrap,
            "group.id": config.group_id,
            "client.id": config.name,
            "partition.assignment.strategy": self.strategy,
            **({} if config.rack is None else {"client.rack": config.rack}),
            **config.settings,
        }
        return ConfluentClient(self.consumer(settings))
