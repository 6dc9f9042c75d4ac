"""Changes of partitions in librdkafka's order, of those that kafka-python tells of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kafka import AsyncConsumerRebalanceListener

from assignors.confluent.inbox import Change
from assignors.confluent.offsets import Place

Ask = Callable[[Change, Iterable[Place] | None], Awaitable[None]]
"""Has the application do it, with all it has where there are no places."""


class GroupListener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Steps in librdkafka's order: it always ends a rebalance by giving, be it nothing."""

    def __init__(self, cooperative: Callable[[], bool], ask: Ask) -> None:
        self._cooperative = cooperative
        self._ask = ask
        self._given = False
        self._owed = False

    def expect(self, added: int) -> None:
        """A join has ended, and gives so many partitions that were not had before."""
        self._owed = self._cooperative() and added == 0

    async def complete(self) -> None:
        """All changes of a join have been told."""
        owed, self._owed = self._owed, False
        if owed:
            await self._give(())

    def forget(self) -> None:
        """The application has nothing."""
        self._given = False

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._give(assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        # Before its first assignment there is nothing that an eager member could give up.
        if not self._given:
            return
        if not self._cooperative():
            self._given = False
        await self._ask(Change.REVOKE, revoked)

    async def on_partitions_lost(self, lost: Any = None) -> None:  # noqa: ARG002
        self._given = False
        await self._ask(Change.LOSE, None)

    async def _give(self, places: Iterable[Place]) -> None:
        self._given = True
        await self._ask(Change.ASSIGN, places)
