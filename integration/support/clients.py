"""Consumers of any client library as the members of one kind of group.

A member's thread (`integration.support.groups`) drives a `Client`; a `MakeClient` makes one from
what its group tells it (`Joining`). One file per library implements the two, `KafkaPython` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kafka import ConsumerRebalanceListener, KafkaConsumer

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor, harden

Place = tuple[str, int]
"""Topic and partition."""

Told = Callable[[str, Iterable[Place]], None]
"""Takes "assigned", "revoked" or "lost", and the partitions; called as the library calls its own
callbacks, when it does."""

Strategies = Callable[[str | None], Sequence[Any]]
"""From a rack to a value of ``partition_assignment_strategy``."""


@dataclass(frozen=True)
class Joining:
    """What a group tells a member that it starts."""

    bootstrap: str
    """``host:port,...``: the door of the member's rack."""
    group_id: str
    name: str
    rack: str | None
    settings: Mapping[str, Any]
    """On top of the client's own, in its library's words."""


class Client(Protocol):
    """One consumer, as a member's thread uses it.

    `subscribe`, `poll` and `close` are called in one thread, `owned` and `generation` in any.
    """

    @property
    def consumer(self) -> Any:
        """The library's own object, for tests of that library."""

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """Subscribe to topics, or to those whose names match the whole pattern."""

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        """The records that there are, each as its place and offset; waits so long for the first.

        Raises what the library raises, and where it answers with an error in place of a record.
        """

    def owned(self) -> frozenset[Place]:
        """What it is assigned now."""

    def generation(self) -> int:
        """The generation it is in, -1 while it is in none or on its way to another."""

    def close(self) -> None:
        """Close the consumer: a dynamic member leaves the group, a static one does not."""


MakeClient = Callable[[Joining], Client]


class KafkaPythonClient:
    """A KafkaConsumer."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        listener = _Listener(told)
        if pattern is not None:
            self.consumer.subscribe(pattern=pattern, listener=listener)
        else:
            self.consumer.subscribe(topics=list(topics), listener=listener)

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        found = self.consumer.poll(timeout_ms=int(seconds * 1000))
        return [
            ((place.topic, place.partition), record.offset)
            for place, records in found.items()
            for record in records
        ]

    def owned(self) -> frozenset[Place]:
        return frozenset((tp.topic, tp.partition) for tp in self.consumer.assignment())

    def generation(self) -> int:
        coordinator = self.consumer._coordinator
        current = coordinator and coordinator.generation_if_stable()
        return int(current.generation_id) if current and not coordinator.need_rejoin() else -1

    def close(self) -> None:
        self.consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, told: Told) -> None:
        self._told = told

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._told("assigned", [(tp.topic, tp.partition) for tp in assigned])

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._told("revoked", [(tp.topic, tp.partition) for tp in revoked])

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._told("lost", [(tp.topic, tp.partition) for tp in lost])


@dataclass(frozen=True)
class KafkaPython:
    """Makes KafkaConsumers with the assignors that ``strategies`` gives for the rack.

    Those with kafka-python's own assignors have our workarounds as well: a join that is forgotten
    on a busy machine never ends, which is no fault of ours.
    """

    strategies: Strategies = lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]
    hardened: bool = True

    def __call__(self, joining: Joining) -> KafkaPythonClient:
        config = {
            # Nobody waits for a session's end, and a busy machine must not bring one about; and
            # heartbeats often enough that a round takes no seconds.
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
            "metadata_max_age_ms": 2000,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
            "fetch_max_wait_ms": 100,
            "bootstrap_servers": joining.bootstrap.split(","),
            "group_id": joining.group_id,
            "client_id": joining.name,
            "partition_assignment_strategy": list(self.strategies(joining.rack)),
            **joining.settings,
        }
        consumer = KafkaConsumer(**config)
        if self.hardened:
            harden(consumer)
        return KafkaPythonClient(consumer)
