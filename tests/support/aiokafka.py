"""Objects of aiokafka on an event loop, without a broker."""

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

from assignors.aiokafka.coordinator import LinkedFetcher, RackAwareCoordinator

RACKS: dict[int, str | None] = {0: "a", 1: "b", 2: "c"}
STICKY = "leader-rack-aware-cooperative-sticky"
UNAUTHORIZED = 29


class OfflineClient(AIOKafkaClient):  # type: ignore[misc]
    """Responds to metadata requests with ``responses``, each a mapping of topics to leaders.

    The last one is repeated; without any, requests get no response. ``requested`` has the topics
    of each request.
    """

    def __init__(self) -> None:
        super().__init__(bootstrap_servers="127.0.0.1:1", retry_backoff_ms=1)
        self.responses: list[Mapping[str, Sequence[int]]] = []
        self.requested: list[frozenset[str]] = []
        self.unauthorized: frozenset[str] = frozenset()

    def force_metadata_update(self) -> asyncio.Future[bool]:
        self.requested.append(frozenset(self._topics))
        future = asyncio.get_running_loop().create_future()
        if self.responses:
            once = len(self.responses) > 1
            self.respond(self.responses.pop(0) if once else self.responses[0])
            future.set_result(True)
        return future

    def respond(self, leaders: Mapping[str, Sequence[int]]) -> None:
        """Update the metadata with a response that has these leaders and no other topic."""
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
    """A RackAwareCoordinator with its client and subscription, subscribed to ``t``.

    With ``client_rack`` it has a fetcher, too.
    """

    def __init__(self, *strategies: Any, client_rack: str | None = None, **config: Any) -> None:
        self.client = OfflineClient()
        self.subscription = SubscriptionState()
        if client_rack is not None:
            LinkedFetcher(self.client, self.subscription)._client_rack = client_rack
        self.coordinator = RackAwareCoordinator(
            self.client, self.subscription, group_id="g", assignors=strategies, **config
        )
        # It would look for the group's coordinator.
        self.coordinator._coordination_task.cancel()
        self.subscription.subscribe(topics={"t"})

    def metadata(self, protocol: str = STICKY, topics: Sequence[str] = ("t",)) -> Any:
        """Return the subscription that it joins with, encoded and decoded by aiokafka."""
        metadata = self.coordinator._lookup_assignor(protocol).metadata(frozenset(topics))
        return ConsumerProtocolMemberMetadata.decode(metadata.encode())

    async def perform(self, *members: tuple[Any, ...]) -> dict[str, dict[str, list[int]]]:
        """Return what it assigns as the leader of ``members``: (id, instance id, subscription)."""
        assigned = await self.coordinator._perform_assignment(
            SimpleNamespace(API_VERSION=5, group_protocol=STICKY, members=members)
        )
        return {
            member: {
                topic: list(partitions)
                for topic, partitions in ConsumerProtocolMemberAssignment.decode(
                    data if isinstance(data, bytes) else data.encode()
                ).assignment
            }
            for member, data in assigned.items()
        }

    async def complete(self, generation: int, assigned: Mapping[str, Sequence[int]]) -> None:
        """End a join with this assignment."""
        data = ConsumerProtocolMemberAssignment(0, list(assigned.items()), b"").encode()
        await self.coordinator._on_join_complete(generation, "m", STICKY, data)
