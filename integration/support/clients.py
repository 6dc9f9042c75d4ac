"""Consumers of any client library behind one interface, `Client`.

A member's thread (`integration.support.groups`) polls a `Client`, which a `MakeClient` constructs
from a `MemberConfig`. One file per library implements both; this one does for kafka-python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from assignors.kafka_python import (
    LeaderRackAwareCooperativeStickyAssignor,
    enable_workarounds,
    install,
)

PartitionId = tuple[str, int]
"""Topic and partition number."""

OnChange = Callable[[str, Iterable[PartitionId]], None]
"""Called with "assigned", "revoked" or "lost" and the partitions, when the library calls its own
rebalance listener."""

Strategies = Callable[[str | None], Sequence[Any]]
"""Returns a value for ``partition_assignment_strategy``; takes the member's rack."""


@dataclass(frozen=True)
class MemberConfig:
    """Configuration of a member that a group starts."""

    bootstrap: str
    """``host:port,...``: the listener for clients in the member's rack."""
    group_id: str
    name: str
    rack: str | None
    settings: Mapping[str, Any]
    """Further settings, named as the library names them."""


class Client(Protocol):
    """One consumer.

    `subscribe`, `poll` and `close` are called in one thread, `owned` and `generation` in any.
    """

    @property
    def consumer(self) -> Any:
        """The consumer object of the library."""

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """Subscribe to ``topics``, or to those whose whole name matches ``pattern``."""

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        """Return the partition and offset of each record; wait up to ``seconds`` for the first one.

        Raise the errors that the library raises or returns in place of records.
        """

    def owned(self) -> frozenset[PartitionId]:
        """Return its current assignment."""

    def generation(self) -> int:
        """Return its generation; -1 outside a group and during a rebalance."""

    def close(self) -> Iterable[tuple[PartitionId, int]] | None:
        """Close the consumer: a dynamic member leaves the group, a static one does not.

        Return what it has read that no `poll` has returned, if there may be any.
        """


MakeClient = Callable[[MemberConfig], Client]


class CommittingClient(Client, Protocol):
    """A consumer that commits by itself."""

    def commit(self, tp: PartitionId, offset: int) -> None:
        """Commit ``offset`` of one partition and wait for the result, in the thread that polls.

        Raise the library's error if the offset is not committed.
        """


def partitions_of(topic: str, count: int) -> set[PartitionId]:
    """Return the partitions of a topic with ``count`` partitions."""
    return {(topic, partition) for partition in range(count)}


class KafkaPythonClient:
    """A KafkaConsumer."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        listener = _Listener(on_change)
        if pattern is not None:
            self.consumer.subscribe(pattern=pattern, listener=listener)
        else:
            self.consumer.subscribe(topics=list(topics), listener=listener)

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        batches = self.consumer.poll(timeout_ms=int(seconds * 1000))
        return [
            ((tp.topic, tp.partition), record.offset)
            for tp, records in batches.items()
            for record in records
        ]

    def owned(self) -> frozenset[PartitionId]:
        return frozenset((tp.topic, tp.partition) for tp in self.consumer.assignment())

    def generation(self) -> int:
        coordinator = self.consumer._coordinator
        current = coordinator and coordinator.generation_if_stable()
        return int(current.generation_id) if current and not coordinator.need_rejoin() else -1

    def commit(self, tp: PartitionId, offset: int) -> None:
        self.consumer.commit({TopicPartition(*tp): OffsetAndMetadata(offset, "", -1)})

    def close(self) -> None:
        self.consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._on_change("assigned", [(tp.topic, tp.partition) for tp in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._on_change("revoked", [(tp.topic, tp.partition) for tp in revoked])

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._on_change("lost", [(tp.topic, tp.partition) for tp in lost])


SETTINGS = {
    # No test waits for a session timeout, and a busy machine must not cause one.
    # Heartbeats are frequent, since members learn of a rebalance by them.
    "session_timeout_ms": 30_000,
    "heartbeat_interval_ms": 200,
    "metadata_max_age_ms": 2000,
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 1000,
    "fetch_max_wait_ms": 100,
}
"""Settings of members of kafka-python and aiokafka."""


@dataclass(frozen=True)
class KafkaPython:
    """Constructs KafkaConsumers with the assignors that ``strategies`` returns.

    With ``workarounds`` those with kafka-python's own assignors have them too: otherwise, on a busy
    machine, a join that outlasts its poll is never completed.
    """

    strategies: Strategies = lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]
    workarounds: bool = True

    def __call__(self, config: MemberConfig) -> KafkaPythonClient:
        settings = {
            **SETTINGS,
            "bootstrap_servers": config.bootstrap.split(","),
            "group_id": config.group_id,
            "client_id": config.name,
            "partition_assignment_strategy": list(self.strategies(config.rack)),
            **config.settings,
        }
        if self.workarounds:
            install()
        consumer = KafkaConsumer(**settings)
        if self.workarounds:
            enable_workarounds(consumer)
        return KafkaPythonClient(consumer)
