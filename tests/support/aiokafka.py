"""aiokafka's own objects, on an event loop but with no broker to talk to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

from assignors.aiokafka.coordinator import RackAwareCoordinator

RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
STICKY = "leader-rack-aware-cooperative-sticky"
UNAUTHORIZED = 29


class OfflineClient(AIOKafkaClient):  # type: ignore[misc]
    """Answers for metadata are what the test queues: each a mapping of topics to leaders.

    The last one is repeated; without any, brokers are silent.
    """

    def __init__(self) -> None:
        super().__init__(bootstrap_servers="127.0.0.1:1", retry_backoff_ms=1)
        self.answers: list[Mapping[str, Sequence[int]]] = []
        self.asked: list[frozenset[str]] = []
        self.unauthorized: frozenset[str] = frozenset()

    def force_metadata_update(self) -> asyncio.Future[bool]:
        self.asked.append(frozenset(self._topics))
        future = asyncio.get_running_loop().create_future()
        if self.answers:
            self.answer(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
            future.set_result(True)
        return future

    def answer(self, leaders: Mapping[str, Sequence[int]]) -> None:
        """A broker's answer with these leaders, and nothing of any other topic."""
        self.cluster.update_metadata(
            SimpleNamespace(
                API_VERSION=1,
                brokers=[(node, "127.0.0.1", 1, rack) for node, rack in RACKS.items()],
                controller_id=0,
                topics=[
                    (0, topic, False, [(0, p, leader, [], []) for p, leader in enumerate(leads)])
                    for topic, leads in leaders.items()
                ]
                + [(UNAUTHORIZED, topic, False, []) for topic in self.unauthorized],
            )
        )


class Consumer:
    """A coordinator of ours, with what it hangs on, subscribed to ``t``."""

    def __init__(self, *strategies: Any, **config: Any) -> None:
        self.client = OfflineClient()
        self.subscription = SubscriptionState()
        self.coordinator = RackAwareCoordinator(
            self.client, self.subscription, group_id="g", assignors=strategies, **config
        )
        # It looks for brokers as soon as it is let, which no test here needs.
        self.coordinator._coordination_task.cancel()
        self.subscription.subscribe(topics={"t"})

    def says(self, protocol: str = STICKY, topics: Sequence[str] = ("t",)) -> Any:
        """What it sends as it joins, decoded by aiokafka."""
        said = self.coordinator._lookup_assignor(protocol).metadata(frozenset(topics))
        return ConsumerProtocolMemberMetadata.decode(said.encode())

    async def perform(
        self, *members: tuple[Any, ...], protocol: str = STICKY, version: int = 5
    ) -> dict[str, dict[str, list[int]]]:
        """What it gives everyone as the leader of ``members``: ids, instance ids and bytes."""
        answer = await self.coordinator._perform_assignment(
            SimpleNamespace(API_VERSION=version, group_protocol=protocol, members=members)
        )
        return {member: decoded(data) for member, data in answer.items()}

    async def complete(
        self, generation: int, assigned: Mapping[str, Sequence[int]], protocol: str = STICKY
    ) -> None:
        """What it does when a join ends with that assignment."""
        data = ConsumerProtocolMemberAssignment(0, list(assigned.items()), b"").encode()
        await self.coordinator._on_join_complete(generation, "m", protocol, data)


def decoded(data: Any) -> dict[str, list[int]]:
    """An assignment, from bytes or as aiokafka's own assignors give it."""
    encoded = data if isinstance(data, bytes) else data.encode()
    return {
        topic: list(partitions)
        for topic, partitions in ConsumerProtocolMemberAssignment.decode(encoded).assignment
    }
