"""AIOKafkaConsumers as members of a `ConsumerGroup`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor
from integration.support.clients import SETTINGS, MemberConfig, OnChange, PartitionId, Strategies
from tests.support.waiting import TEST_TIMEOUT

_T = TypeVar("_T")


class AIOKafkaClient:
    """An AIOKafkaConsumer on its own event loop, which also runs between polls.

    Partitions are revoked only when the records of the last poll have been recorded, that is, when
    the next poll begins. Otherwise those of the next owner might be recorded before them.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._recorded = asyncio.Event()
        self._recorded.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._listener: _AioListener | None = None
        try:
            self.consumer = self._await(_started(make))
        except BaseException:
            self._end_loop()
            raise

    def subscribe(
        self, on_change: OnChange, *, topics: Sequence[str] = (), pattern: str | None = None
    ) -> None:
        """See `Client`."""
        self._listener = _AioListener(on_change, self._recorded)

        async def subscribe() -> None:
            # aiokafka matches a pattern against the beginning of a name.
            subscription: Any = (
                {"pattern": f"(?:{pattern})$"} if pattern else {"topics": list(topics)}
            )
            self.consumer.subscribe(**subscription, listener=self._listener)

        self._await(subscribe())

    def poll(self, seconds: float) -> Iterable[tuple[PartitionId, int]]:
        """See `Client`."""

        async def poll() -> Any:
            self._recorded.set()
            # getmany waits for the end of a rebalance, without a limit.
            try:
                batches = await asyncio.wait_for(
                    self.consumer.getmany(timeout_ms=int(seconds * 1000)), 2 * seconds
                )
            except TimeoutError:
                return {}
            if batches:
                self._recorded.clear()
            return batches

        return [
            ((tp.topic, tp.partition), record.offset)
            for tp, records in self._await(poll()).items()
            for record in records
        ]

    def owned(self) -> frozenset[PartitionId]:
        """Return its assignment; empty during a rebalance, when it reads nothing."""
        return frozenset() if self._listener is None else self._listener.owned

    def generation(self) -> int:
        """See `Client`."""
        coordinator, subscription = self.consumer._coordinator, self.consumer._subscription
        joining = subscription.reassignment_in_progress or coordinator._rejoin_needed_fut.done()
        return -1 if joining else int(coordinator.generation)

    def commit(self, tp: PartitionId, offset: int) -> None:
        """See `CommittingClient`."""

        async def commit() -> None:
            await self.consumer.commit({TopicPartition(*tp): offset})

        self._await(commit())

    def close(self) -> None:
        """See `Client`."""

        async def close() -> None:
            self._recorded.set()
            await self.consumer.stop()

        try:
            self._await(close())
        finally:
            self._end_loop()

    def _await(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TEST_TIMEOUT)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TEST_TIMEOUT)
        self._loop.close()


async def _started(make: Callable[[], Any]) -> Any:
    consumer = make()
    try:
        await consumer.start()
    except BaseException:
        await consumer.stop()
        raise
    return consumer


class _AioListener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, on_change: OnChange, recorded: asyncio.Event) -> None:
        self.owned: frozenset[PartitionId] = frozenset()
        self._on_change = on_change
        self._recorded = recorded

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        await self._recorded.wait()
        self._on_change("revoked", [(tp.topic, tp.partition) for tp in revoked])
        self.owned = frozenset()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.owned = frozenset((tp.topic, tp.partition) for tp in assigned)
        self._on_change("assigned", self.owned)


@dataclass(frozen=True)
class AIOKafka:
    """Constructs AIOKafkaConsumers with the assignors that ``strategies`` returns."""

    strategies: Strategies = lambda rack: [LeaderRackAwareCooperativeStickyAssignor(rack=rack)]

    def __call__(self, config: MemberConfig) -> AIOKafkaClient:
        settings = {
            **SETTINGS,
            "bootstrap_servers": config.bootstrap,
            "group_id": config.group_id,
            "client_id": config.name,
            "partition_assignment_strategy": self.strategies(config.rack),
            **config.settings,
        }
        return AIOKafkaClient(lambda: AIOKafkaConsumer(**settings))
