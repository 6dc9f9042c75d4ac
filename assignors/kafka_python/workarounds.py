"""Workarounds for faults of kafka-python 3.0 in the group coordinator of a consumer.

docs/kafka-python.md describes each fault, what it does to a consumer and what is done here. The
classes form one chain of subclasses of kafka-python's ``ConsumerCoordinator``, a subject each:

MetadataFixes
    Brokers and topics that are missing from a metadata response.
CoordinatorLossFixes
    Reading while the broker that coordinates the group is unavailable.
JoinFixes
    Joins that take longer than the ``poll`` that started them.
CommitFixes (:mod:`assignors.kafka_python.commits`)
    Commits during a rebalance, and rebalance listeners that commit.
LeaveFixes (:mod:`assignors.kafka_python.leaving`)
    Leaving the group while joining it.

Every method behaves exactly as kafka-python's own until ``enable_workarounds`` is called: by the
coordinator of a consumer that has one of our assignors, or by the user for any other consumer.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    UnknownBrokerIdError,
)
from kafka.future import Future
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import MemberState

from assignors.consumer_protocol import NO_GENERATION
from assignors.group_leader import format_error, log
from assignors.kafka_python.commit_queue import (
    MemberIdentity,
)

SHORT_TIMEOUT_MS = 20
"""Milliseconds that one poll of a consumer with assigned partitions spends on finding the group's
coordinator or on joining, before it returns records."""

MIN_COMMIT_TIMEOUT_MS = 1000
"""Milliseconds that a commit of partitions which are about to be revoked is given at least."""


def short_timeout(timeout_ms: float | None) -> float:
    """Return the part of a poll's timeout that may pass before it returns records."""
    return SHORT_TIMEOUT_MS if timeout_ms is None else min(timeout_ms, SHORT_TIMEOUT_MS)


def is_generation(membership: MemberIdentity) -> bool:
    """Return whether these are the generation and the id of a member of a group."""
    generation, member_id = membership
    return generation != NO_GENERATION and bool(member_id)


async def wait_for(net: Any, future: Any, timeout_ms: float | None) -> Any:
    """Return the result of a future of kafka-python's, or raise its error.

    Raise KafkaTimeoutError after ``timeout_ms`` milliseconds (None: never). ``net`` is the event
    loop. kafka-python 3.0 has such a method, and 3.1 another one.
    """
    first = Future()

    def on_timeout() -> None:
        if not first.is_done:
            first.failure(KafkaTimeoutError(f"timed out after {timeout_ms:g} ms"))

    future.add_callback(lambda value: first.is_done or first.success(value))
    future.add_errback(lambda error: first.is_done or first.failure(error))
    timer = None if timeout_ms is None else net.call_later(timeout_ms / 1000, on_timeout)
    try:
        return await first
    finally:
        if timer is not None:
            net.cancel(timer)


# ---- Metadata


class MetadataFixes(ConsumerCoordinator):  # type: ignore[misc]
    """Brokers and topics that are missing from a metadata response; see the functions below."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        # First: the I/O thread may deliver metadata while the base class initialises.
        self.manager, self.net, self.cluster = client._manager, client._net, client.cluster
        self.client, self.subscription = client, subscription
        self.workarounds_enabled = False
        self._metadata_retry_scheduled = False
        super().__init__(client, subscription, **configs)

    @property
    def membership(self) -> MemberIdentity:
        """Generation and member id, (-1, "") outside the group."""
        metadata = self.group_metadata()
        return (metadata.generation_id, metadata.member_id)

    @property
    def in_generation(self) -> bool:
        """Whether this consumer is a member of a generation, as far as it knows."""
        return is_generation(self.membership)

    def enable_workarounds(self) -> None:
        """Work around kafka-python's faults in this consumer from now on; idempotent."""
        if not self.workarounds_enabled:
            self.workarounds_enabled = True
            tolerate_unknown_broker(self.manager)

    def call_later(self, seconds: float, method: Callable[..., None], *values: object) -> None:
        """Call a method of this object on the I/O thread, unless it is collected by then."""
        reference = weakref.WeakMethod(method)

        def call() -> None:
            if (alive := reference()) is not None:
                alive(*values)

        self.net.call_later(seconds, call)

    def _handle_metadata_update(self, cluster: Any) -> None:
        super()._handle_metadata_update(cluster)
        if not self.workarounds_enabled:
            return
        delay = throttle_metadata_refresh(cluster)
        if delay is not None and not self._metadata_retry_scheduled:
            self._metadata_retry_scheduled = True
            self.call_later(delay, self._retry_metadata)

    def _retry_metadata(self) -> None:
        self._metadata_retry_scheduled = False
        self.cluster.request_update()


def tolerate_unknown_broker(manager: Any) -> None:
    """Make ``send`` of a KafkaConnectionManager return a failed future for an unknown broker.

    kafka-python raises UnknownBrokerIdError if the broker is missing from the latest metadata, as
    it is for a moment after it died, and there is no connection to it. The fetcher has marked the
    broker as having a pending request by then and never clears the mark, so the consumer stops
    reading from it for good; the error also discards the records that the poll had collected.
    Callers of ``send`` retry a failed future of a retriable error with newer metadata.
    """
    send = manager.send

    def send_or_fail(request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        try:
            return send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
        except UnknownBrokerIdError:
            manager.cluster.request_update()
            return Future().failure(NodeNotReadyError(node_id))

    manager.send = send_or_fail


def throttle_metadata_refresh(cluster: Any) -> float | None:
    """Cancel the immediate metadata request that a ClusterMetadata plans for missing topics.

    While a topic of interest is missing, kafka-python requests its metadata ten times a second and
    logs an error for each missing topic each time. The group leader is interested in the topics of
    all members: one member that subscribes to thousands of wrong names keeps it from all else.

    Returns the seconds after which to request metadata again; None if no request was planned, or
    if a caller is waiting for its response.
    """
    with cluster._lock:
        if not cluster._need_update or cluster._future is not None:
            return None
        cluster._need_update = False
        topics = list(cluster._topics)
    return metadata_retry_seconds(sum(not cluster.partitions_for_topic(topic) for topic in topics))


def metadata_retry_seconds(missing_topics: int) -> float:
    """Return the seconds between two metadata requests: 10 ms per missing topic, 1 s at least."""
    return max(1.0, missing_topics * 0.01)


# ---- Loss of the group coordinator


class CoordinatorLossFixes(MetadataFixes):
    """Reading while the broker that coordinates the group is unavailable.

    After a broker's death it takes a while (9 s by default) until another one coordinates its
    groups. Until then kafka-python's ``poll`` waits for the coordinator and returns no records of
    any broker, although no other member can be assigned the partitions; Java's consumer reads on.
    It also looks up the coordinator without a pause, since other brokers still name the dead one.
    And while a heartbeat is overdue, ``poll`` loops without a pause.
    """

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        self._last_lookup = -math.inf
        super().__init__(client, subscription, **configs)

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Return True, so that the consumer reads, soon after the coordinator was not found.

        For one session timeout after the last heartbeat; later the coordinator may have assigned
        the partitions to other members.
        """
        if self._may_read_without_coordinator():
            self._invoke_completed_offset_commit_callbacks()
            self.poll_heartbeat()
            if not self.ensure_coordinator_ready(timeout_ms=short_timeout(timeout_ms)):
                return True
        return bool(super().poll(timeout_ms=timeout_ms))

    def time_to_next_poll(self) -> float:
        """Return the seconds for which the consumer may wait for records, never 0.

        Overdue heartbeats are sent by the I/O thread; polling more often does not help them.
        """
        seconds = float(super().time_to_next_poll())
        if not self.workarounds_enabled:
            return seconds
        return max(seconds, float(self.config["retry_backoff_ms"]) / 1000)

    def _may_read_without_coordinator(self) -> bool:
        node = self.coordinator_id
        if not self.workarounds_enabled or not (node is None or self.client.is_disconnected(node)):
            return False
        last_heartbeat = min(self.heartbeat.last_send, self.heartbeat.last_receive)
        session_seconds = self.config["session_timeout_ms"] / 1000
        return time.monotonic() - last_heartbeat < session_seconds and self._has_partitions()

    def _has_partitions(self) -> bool:
        """Return whether partitions are assigned to this consumer as a member of the group."""
        return self.in_generation and bool(self.subscription.assigned_partitions())

    async def _send_group_coordinator_request(self) -> Any:
        if self.workarounds_enabled:
            next_lookup = self._last_lookup + self.config["retry_backoff_ms"] / 1000
            if (pause := next_lookup - time.monotonic()) > 0:
                await self.net.sleep(pause)
            self._last_lookup = time.monotonic()
        return await super()._send_group_coordinator_request()


# ---- Joins


class JoinFixes(CoordinatorLossFixes):
    """Joins that take longer than the ``poll`` that started them.

    That happens whenever a member of the group is slow. Then kafka-python

    - forgets a join for a changed subscription or changed metadata: it is never completed,
      heartbeats stay off, and the group loses the member;
    - discards the result of a join that ends between two polls and joins again, which is another
      rebalance for all members if this one leads the group;
    - sends no heartbeats from the end of the join until the next poll, and so loses its membership
      if it does not poll for one session timeout;
    - returns no records until the join is over, in a cooperative rebalance too, in which the
      consumer keeps its partitions;
    - gives the commit before the rebalance no more time than that poll, and commits nothing of what
      is read between it and the revocation.

    And it keeps the response to a request for committed offsets that outlasts its poll, for the
    next request for the same partitions, even if other members owned them in between; and it keeps
    all partitions and their positions if the group removes this member while it joins.
    """

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        # Generation, time of arrival, and encoded assignment of a join that no poll has collected.
        self._pending_join_result: tuple[Any, float, Any] | None = None
        super().__init__(client, subscription, **configs)

    @property
    def cooperative(self) -> bool:
        """Whether this consumer keeps its partitions through a rebalance."""
        return bool(self._rebalance_protocol == RebalanceProtocol.COOPERATIVE)

    def need_rejoin(self) -> bool:
        """Return whether to join, or to go on with a join that has begun."""
        in_group = self.subscription.partitions_auto_assigned()
        if self.workarounds_enabled and self.rejoining and in_group:
            return True
        return bool(super().need_rejoin())

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Join, commit and find the coordinator; return whether the consumer may read.

        In a cooperative rebalance, do so without waiting for the other members.
        """
        if not self._reads_during_rebalance():
            return bool(super().poll(timeout_ms=timeout_ms))
        if self.rejoining:
            self._invoke_completed_offset_commit_callbacks()
            try:
                self.ensure_active_group(timeout_ms=short_timeout(timeout_ms))
            except KafkaTimeoutError:
                log.debug("group=%s: join in progress", self.group_id)
            self._maybe_auto_commit_offsets_async()
        else:
            # A pattern waits for metadata first, which takes longer than a short timeout.
            has_pattern = self.subscription.subscribed_pattern is not None
            super().poll(timeout_ms=timeout_ms if has_pattern else short_timeout(timeout_ms))
        return True

    def _reads_during_rebalance(self) -> bool:
        return (
            self.workarounds_enabled
            and self.cooperative
            and self._has_partitions()
            and self.need_rejoin()
        )

    async def _on_join_prepare_async(
        self, generation: int, member_id: str, timeout_ms: float | None = None
    ) -> None:
        if self.workarounds_enabled and timeout_ms is not None:
            timeout_ms = max(timeout_ms, MIN_COMMIT_TIMEOUT_MS)
        await super()._on_join_prepare_async(generation, member_id, timeout_ms=timeout_ms)

    async def _do_join_and_sync_async(self) -> Any:
        if self._pending_join_result is not None:
            generation, arrived, assignment = self._pending_join_result
            session_seconds = self.config["session_timeout_ms"] / 1000
            if generation == self.membership and time.monotonic() - arrived < session_seconds:
                return assignment
        await self._lose_partitions_if_removed()
        assignment = await self._join_and_sync()
        if self.workarounds_enabled:
            self._pending_join_result = (self.membership, time.monotonic(), assignment)
            self.state = MemberState.STABLE
            self._enable_heartbeat()
        return assignment

    async def _lose_partitions_if_removed(self) -> None:
        """Give up the partitions if the group has removed this member since the join began.

        kafka-python does that before the first request of a join only. But others may own the
        partitions by now: this member would read on at its old positions and commit them, because
        brokers accept every commit of a member of the present generation.
        """
        owned = self.subscription.assigned_partitions()
        if self.workarounds_enabled and self.cooperative and owned and not self.in_generation:
            await super()._on_join_prepare_async(*self.membership)

    async def _join_and_sync(self) -> Any:
        """Send JoinGroup and SyncGroup once; return the encoded assignment."""
        return await super()._do_join_and_sync_async()

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self._pending_join_result = None
        if self.workarounds_enabled:
            assigned = set(ConsumerProtocolAssignment.decode(assignment).partitions())
            self._discard_committed_offsets(assigned)
            if self.cooperative and self.config["enable_auto_commit"]:
                await self._commit_revoked(assigned)
        await super()._on_join_complete_async(generation, member_id, protocol, assignment)

    def _discard_committed_offsets(self, assigned: set[Any]) -> None:
        """Discard responses of which no poll made use, except for partitions that this consumer had
        and keeps: other members may have committed offsets of all others since.
        """
        kept = assigned & self.subscription.assigned_partitions()
        for partitions in [each for each in self._offset_fetch_futures if not each <= kept]:
            del self._offset_fetch_futures[partitions]

    async def _commit_revoked(self, assigned: set[Any]) -> None:
        """Commit the positions of the partitions that are not among those ``assigned``."""
        offsets = {
            partition: offset
            for partition, offset in self.subscription.all_consumed_offsets().items()
            # A commit for a deleted topic would be retried until its timeout.
            if partition not in assigned and self.cluster.partitions_for_topic(partition.topic)
        }
        if not offsets:
            return
        try:
            await self._commit_offsets_sync_async(offsets, timeout_ms=MIN_COMMIT_TIMEOUT_MS)
        except KafkaError as error:
            log.warning(
                "group=%s: positions of %d revoked partitions were not committed, so their last"
                " records will be read again: %s",
                self.group_id,
                len(offsets),
                format_error(error),
            )
