"""kafka-python's coordinator with joins that keep what they achieve and stop no reading.

kafka-python 3.0.12 drives a join from ``KafkaConsumer.poll``, and a join may outlast the poll
that began it: whenever a member of the group is slow, and often on a busy machine. Then five
things go wrong, which are put right here for consumers that use one of our assignors:

- A join because of a changed subscription (a pattern that matches a new topic) or of changed
  metadata is forgotten: asked again, the consumer finds nothing to join for. It is never
  completed, the heartbeat stays off, and the consumer is lost to its group for good.
- The outcome of a join that ends between two polls is thrown away and the join repeated,
  which, of a leader, is another rebalance for everyone.
- Heartbeats stop with the join and start again with the next poll: a consumer that is away
  for a session's time after a rebalance is thrown out, and there is another rebalance.
- ``poll`` returns no records while a join is on its way, though in a cooperative rebalance
  the consumer goes on owning what it reads: everyone waits for the slowest member.
- The commit before a rebalance gets no more time than that ``poll``, and what is read between
  it and the revocation is committed by nobody: the next owner reads it again.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import MemberState

from assignors.kafka_python.coordinator_away import ReadingOnCoordinator, a_moment
from assignors.leading import log

COMMIT_PATIENCE_MS = 1000
"""Milliseconds that a commit before partitions are given up may take at least."""


class SteadyCoordinator(ReadingOnCoordinator):
    """As kafka-python's own unless ``steady`` is set."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        self._uncollected: tuple[Any, float, Any] | None = None
        super().__init__(client, subscription, **configs)

    def need_rejoin(self) -> bool:
        """Also while a join is on its way."""
        if self.steady and self.rejoining and self._subscription.partitions_auto_assigned():
            return True
        return bool(super().need_rejoin())

    def poll(self, timeout_ms: float | None = None) -> bool:
        """As kafka-python's; in a cooperative rebalance without waiting for the others."""
        if not self._reads_on():
            return bool(super().poll(timeout_ms=timeout_ms))
        moment = a_moment(timeout_ms)
        if self.rejoining:
            self._invoke_completed_offset_commit_callbacks()
            try:
                self.ensure_active_group(timeout_ms=moment)
            except KafkaTimeoutError:
                log.debug("group %s: still joining", self.group_id)
        else:
            # A pattern first waits for metadata, which takes longer than a moment.
            pattern = self._subscription.subscribed_pattern is not None
            super().poll(timeout_ms=timeout_ms if pattern else moment)
        return True

    def _reads_on(self) -> bool:
        return self.steady and self.cooperative and self._has_partitions() and self.need_rejoin()

    @property
    def cooperative(self) -> bool:
        """Whether it keeps its partitions through a rebalance."""
        return bool(self._rebalance_protocol == RebalanceProtocol.COOPERATIVE)

    async def _on_join_prepare_async(
        self, generation: int, member_id: str, timeout_ms: float | None = None
    ) -> None:
        if self.steady and timeout_ms is not None:
            timeout_ms = max(timeout_ms, COMMIT_PATIENCE_MS)
        await super()._on_join_prepare_async(generation, member_id, timeout_ms=timeout_ms)

    async def _do_join_and_sync_async(self) -> Any:
        if self._uncollected is not None:
            generation, ended, assignment = self._uncollected
            fresh = time.monotonic() - ended < self.config["session_timeout_ms"] / 1000
            if generation == self._generation and fresh:
                return assignment
        assignment = await self._join_and_sync()
        if self.steady:
            self._uncollected = (self._generation, time.monotonic(), assignment)
            with self._lock:
                self.state = MemberState.STABLE
                self._enable_heartbeat()
        return assignment

    async def _join_and_sync(self) -> Any:
        return await super()._do_join_and_sync_async()

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self._uncollected = None
        if self.steady and self.cooperative and self.config["enable_auto_commit"]:
            await self._commit_what_goes(assignment)
        await super()._on_join_complete_async(generation, member_id, protocol, assignment)

    async def _commit_what_goes(self, assignment: bytes) -> None:
        """Commit what was read of the partitions that this consumer is about to give up."""
        stays = set(ConsumerProtocolAssignment.decode(assignment).partitions())
        goes = {
            partition: offset
            for partition, offset in self._subscription.all_consumed_offsets().items()
            # Of a topic that is gone there is nothing to commit, and brokers would be asked on.
            if partition not in stays and self._cluster.partitions_for_topic(partition.topic)
        }
        if not goes:
            return
        try:
            await self._commit_offsets_sync_async(goes, timeout_ms=COMMIT_PATIENCE_MS)
        except KafkaError as error:
            log.warning(
                "group %s: what was read last of %d partitions that are given up was not"
                " committed, and will be read again: %s",
                self.group_id,
                len(goes),
                error,
            )
