"""AIOKafkaConsumers as members of a `ConsumerGroup`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor
from integration.support.clients import Joining, Place, Strategies, Told
from tests.support.waiting import PATIENCE

_T = TypeVar("_T")


class AIOKafkaClient:
    """An AIOKafkaConsumer on an event loop of its own, which runs between polls too.

    It gives nothing up before what was read of it has been noted, which is when the next poll
    begins: the next owner's records would else be noted before it.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._noted = asyncio.Event()
        self._noted.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listener: _AioListener | None = None
        try:
            self.consumer = self._await(_made(make))
        except BaseException:
            self._end_loop()
            raise

    def subscribe(
        self, told: Told, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """As a `Client` does."""
        self._listener = _AioListener(told, self._noted)

        async def subscribe() -> None:
            # A pattern of aiokafka matches the beginning of a name.
            wanted: Any = {"pattern": f"(?:{pattern})$"} if pattern else {"topics": list(topics)}
            self.consumer.subscribe(**wanted, listener=self._listener)

        self._await(subscribe())

    def poll(self, seconds: float) -> Iterable[tuple[Place, int]]:
        """As a `Client` does."""

        async def poll() -> Any:
            self._noted.set()
            # getmany itself waits for the end of a rebalance, however long that takes.
            try:
                found = await asyncio.wait_for(
                    self.consumer.getmany(timeout_ms=int(seconds * 1000)), 2 * seconds
                )
            except TimeoutError:
                return {}
            if found:
                self._noted.clear()
            return found

        return [
            ((place.topic, place.partition), record.offset)
            for place, records in self._await(poll()).items()
            for record in records
        ]

    def owned(self) -> frozenset[Place]:
        """What it is assigned; nothing while it rebalances, as it then reads nothing."""
        return frozenset() if self._listener is None else self._listener.owned

    def generation(self) -> int:
        """As a `Client` does."""
        coordinator, subscription = self.consumer._coordinator, self.consumer._subscription
        joining = subscription.reassignment_in_progress or coordinator._rejoin_needed_fut.done()
        return -1 if joining else int(coordinator.generation)

    def close(self) -> None:
        """As a `Client` does."""

        async def close() -> None:
            self._noted.set()
            await self.consumer.stop()

        try:
            self._await(close())
        finally:
            self._end_loop()

    def _await(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


async def _made(make: Callable[[], Any]) -> Any:
    consumer = make()
    try:
        await consumer.start()
    except BaseException:
        await consumer.stop()
        raise
    return consumer


class _AioListener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, told: Told, noted: asyncio.Event) -> None:
        self.owned: frozenset[Place] = frozenset()
        self._told = told
        self._noted = noted

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        await self._noted.wait()
        self._told("revoked", [(tp.topic, tp.partition) for tp in revoked])
        self.owned = frozenset()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.owned = frozenset((tp.topic, tp.partition) for tp in assigned)
        self._told("assigned", self.owned)


@dataclass(frozen=True)
class AIOKafka:
    """Makes AIOKafkaConsumers with the assignors that ``strategies`` gives for the rack."""

    strategies: Strategies = lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]

    def __call__(self, joining: Joining) -> AIOKafkaClient:
        config = {
            # Nobody waits for a session's end: members leave, or are processes of their own.
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
            "metadata_max_age_ms": 2000,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
            "fetch_max_wait_ms": 100,
            "bootstrap_servers": joining.bootstrap,
            "group_id": joining.group_id,
            "client_id": joining.name,
            "partition_assignment_strategy": self.strategies(joining.rack),
            **joining.settings,
        }
        return AIOKafkaClient(lambda: AIOKafkaConsumer(**config))
