"""Looking at where leaders are, at a policy's pace, beside one consumer's other tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka.errors import KafkaError

from assignors.leading import About, Leaders, LeaderWatch, log, read_leaders
from assignors.refresh import PartitionState

NOT_TOLD = -1
"""The epoch of every leader: aiokafka does not ask for it."""


class Lookout:
    """Asks for metadata once per interval, and has a watch look at the answer."""

    def __init__(self, client: Any, about: Callable[[], About], ask: Callable[[], None]) -> None:
        """``about`` names the group for the log; ``ask`` asks for a rebalance."""
        self._client = client
        self._about = about
        self._ask = ask
        self._task: asyncio.Task[None] | None = None

    def follow(self, watch: LeaderWatch | None) -> None:
        """From now on it is ``watch`` that looks; None: nobody."""
        if self._task is not None:
            self._task.cancel()
        self._task = None if watch is None else asyncio.create_task(self._run(watch))

    async def close(self) -> None:
        """Nobody looks any more once this returns."""
        task = self._task
        self.follow(None)
        if task is not None:
            await asyncio.wait([task])

    async def _run(self, watch: LeaderWatch) -> None:
        pause = watch.interval
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(pause)
            try:
                async with asyncio.timeout(pause):
                    answered = await self._client.force_metadata_update()
            except (TimeoutError, KafkaError) as error:
                log.debug("%s: no metadata: %r", self._about(), error)
                continue
            if answered and watch.look(self._read, loop.time(), self._about()):
                self._ask()

    def _read(self, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
        return read_metadata(self._client.cluster, topics)


def read_brokers(cluster: Any, topics: Iterable[str]) -> Leaders:
    """The leaders' racks of ``topics`` as ``cluster``, a ClusterMetadata, knows them."""
    return read_leaders(cluster, {b.nodeId: b.rack for b in cluster.brokers()}, topics)


def read_metadata(cluster: Any, topics: Iterable[str]) -> tuple[Leaders, Iterable[PartitionState]]:
    """The same, and what it knows of their replicas."""
    names = list(topics)
    # Replicas are not to be had otherwise.
    states = (
        PartitionState(topic, number, known.leader, NOT_TOLD, known.replicas, known.isr)
        for topic in names
        for number, known in cluster._partitions.get(topic, {}).items()
    )
    return read_brokers(cluster, names), states
