"""Workarounds for faults of kafka-python 3.0, a section for each.

tests/assignors/kafka_python/reports.md has a report of each fault: symptom, reproduction, cause and
patch. Once kafka-python has released a patch, the section goes. The faults of the group coordinator
are in one subclass, which behaves exactly as kafka-python's own class until
``enable_workarounds`` is called: by the coordinator of a consumer that has one of rackward's
assignors, or by the user for any other consumer.
"""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from kafka import errors
from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaError, KafkaTimeoutError, NodeNotReadyError, for_code
from kafka.future import Future
from kafka.protocol.consumer import LeaveGroupRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import MemberState

from assignors.consumer_protocol import NO_GENERATION
from assignors.group_leader import format_error, log
from assignors.kafka_python.commits import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    Commit,
    CommitQueue,
    CommitResponse,
    MemberIdentity,
    TopicIds,
    second_connection,
    topic_ids,
)

SHORT_TIMEOUT_MS = 20
"""Milliseconds that one poll of a consumer with assigned partitions spends on finding the group's
coordinator or on joining, before it returns records."""

MIN_COMMIT_TIMEOUT_MS = 1000
"""Milliseconds that a commit of partitions which are about to be revoked is given at least."""


JOIN_END_MS = 1000
"""Milliseconds that leaving waits for the first response to a new member, which has the member id,
and for the end of a join whose connection was closed."""

FLUSH_PAUSE = 0.02
"""Seconds between two looks at the commit queue."""

MAX_REASON = 255
"""The longest reason of a LeaveGroup that brokers accept, in characters."""

_MEMBER_ERRORS = {
    REBALANCE_IN_PROGRESS,
    ILLEGAL_GENERATION,
    errors.UnknownMemberIdError.errno,
}


class FixedCoordinator(ConsumerCoordinator):  # type: ignore[misc]
    """kafka-python's group coordinator without its faults, once they are worked around."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        # First: the I/O thread may deliver metadata while the base class initialises.
        self.manager, self.net, self.cluster = client._manager, client._net, client.cluster
        self.client, self.subscription = client, subscription
        self.workarounds_enabled = False
        self.commits = CommitQueue(self)
        self._metadata_retry_scheduled = False
        self._last_lookup = -math.inf
        # Generation, time of arrival, and encoded assignment of a join that no poll has collected.
        self._pending_join_result: tuple[MemberIdentity, float, Any] | None = None
        super().__init__(client, subscription, **configs)

    def enable_workarounds(self) -> None:
        """Work around kafka-python's faults in this consumer from now on; idempotent."""
        if not self.workarounds_enabled:
            self.workarounds_enabled = True
            tolerate_unknown_broker(self.manager)

    @property
    def membership(self) -> MemberIdentity:
        """Generation and member id, (-1, "") outside the group."""
        metadata = self.group_metadata()
        return (metadata.generation_id, metadata.member_id)

    @property
    def member(self) -> MemberIdentity:
        """Generation and member id under which commits are sent."""
        return self.membership

    @property
    def in_generation(self) -> bool:
        """Whether this consumer is a member of a generation, as far as it knows."""
        return is_generation(self.membership)

    @property
    def cooperative(self) -> bool:
        """Whether this consumer keeps its partitions through a rebalance."""
        return bool(self._rebalance_protocol == RebalanceProtocol.COOPERATIVE)

    def call_later(self, seconds: float, method: Callable[..., None], *values: object) -> Any:
        """Call a method of this object on the I/O thread, unless it is collected by then.

        Return what ``net.cancel`` takes.
        """
        reference = weakref.WeakMethod(method)

        def call() -> None:
            if (alive := reference()) is not None:
                alive(*values)

        return self.net.call_later(seconds, call)

    def _has_partitions(self) -> bool:
        """Return whether partitions are assigned to this consumer as a member of the group."""
        return self.in_generation and bool(self.subscription.assigned_partitions())

    # ---- Polls return no records while a cooperative join, or the search for the coordinator,
    # ---- takes its time.

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Join, commit and find the coordinator; return whether the consumer may read.

        A consumer that keeps its partitions reads on after ``SHORT_TIMEOUT_MS``: in a cooperative
        rebalance, and while the coordinator is unavailable.
        """
        short_timeout = (
            SHORT_TIMEOUT_MS if timeout_ms is None else min(timeout_ms, SHORT_TIMEOUT_MS)
        )
        reads_during_rebalance = self._reads_during_rebalance()
        if reads_during_rebalance and self.rejoining:
            self._invoke_completed_offset_commit_callbacks()
            try:
                self.ensure_active_group(timeout_ms=short_timeout)
            except KafkaTimeoutError:
                log.debug("group=%s: join in progress", self.group_id)
            self._maybe_auto_commit_offsets_async()
            return True
        # A pattern waits for metadata first, which takes longer than a short timeout.
        if reads_during_rebalance and self.subscription.subscribed_pattern is None:
            timeout_ms = short_timeout
        if self._reads_without_coordinator():
            self._invoke_completed_offset_commit_callbacks()
            self.poll_heartbeat()
            if not self.ensure_coordinator_ready(timeout_ms=short_timeout):
                return True
        return bool(super().poll(timeout_ms=timeout_ms)) or reads_during_rebalance

    def _reads_during_rebalance(self) -> bool:
        return (
            self.workarounds_enabled
            and self.cooperative
            and self._has_partitions()
            and self.need_rejoin()
        )

    def _reads_without_coordinator(self) -> bool:
        """Return whether the coordinator is unavailable, for less than one session timeout.

        After a broker's death it takes a while (9 s by default) until another one coordinates its
        groups. Until then no other member can be assigned the partitions.
        """
        node = self.coordinator_id
        if not self.workarounds_enabled or not (node is None or self.client.is_disconnected(node)):
            return False
        last_heartbeat = min(self.heartbeat.last_send, self.heartbeat.last_receive)
        session_seconds = self.config["session_timeout_ms"] / 1000
        return time.monotonic() - last_heartbeat < session_seconds and self._has_partitions()

    # ---- Metadata of missing topics is requested without a pause.

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

    # ---- A dead coordinator is looked up without a pause, since other brokers still name it.

    async def _send_group_coordinator_request(self) -> Any:
        if self.workarounds_enabled:
            next_lookup = self._last_lookup + self.config["retry_backoff_ms"] / 1000
            if (pause := next_lookup - time.monotonic()) > 0:
                await self.net.sleep(pause)
            self._last_lookup = time.monotonic()
        return await super()._send_group_coordinator_request()

    # ---- While a heartbeat is overdue, polls loop without a pause.

    def time_to_next_poll(self) -> float:
        """Return the seconds for which the consumer may wait for records, never 0.

        Overdue heartbeats are sent by the I/O thread; polling more often does not help them.
        """
        seconds = float(super().time_to_next_poll())
        if not self.workarounds_enabled:
            return seconds
        return max(seconds, float(self.config["retry_backoff_ms"]) / 1000)

    # ---- A join that outlasts its poll is forgotten, or its result discarded; and heartbeats
    # ---- begin with the next poll, not with the end of the join.

    def need_rejoin(self) -> bool:
        """Return whether to join, or to go on with a join that has begun."""
        in_group = self.subscription.partitions_auto_assigned()
        if self.workarounds_enabled and self.rejoining and in_group:
            return True
        return bool(super().need_rejoin())

    async def _do_join_and_sync_async(self) -> Any:
        if self._pending_join_result is not None:
            membership, arrived, assignment = self._pending_join_result
            session_seconds = self.config["session_timeout_ms"] / 1000
            if membership == self.membership and time.monotonic() - arrived < session_seconds:
                return assignment
        await self._lose_partitions_if_removed()
        assignment = await self._join_and_sync()
        if self.workarounds_enabled:
            self._pending_join_result = (self.membership, time.monotonic(), assignment)
            self.state = MemberState.STABLE
            self._enable_heartbeat()
        return assignment

    async def _join_and_sync(self) -> Any:
        """Send JoinGroup and SyncGroup once; return the encoded assignment."""
        return await super()._do_join_and_sync_async()

    # ---- A member that the group removes while it joins keeps its partitions and positions.

    async def _lose_partitions_if_removed(self) -> None:
        """Give up the partitions if the group has removed this member since the join began.

        kafka-python does that before the first request of a join only. But others may own the
        partitions by now: this member would read on at its old positions and commit them, because
        brokers accept every commit of a member of the present generation.
        """
        owned = self.subscription.assigned_partitions()
        if self.workarounds_enabled and self.cooperative and owned and not self.in_generation:
            await super()._on_join_prepare_async(*self.membership)

    # ---- The commit before a rebalance has no more time than the poll that started the join, and
    # ---- what is read between it and the revocation is not committed.

    async def _on_join_prepare_async(
        self, generation: int, member_id: str, timeout_ms: float | None = None
    ) -> None:
        if self.workarounds_enabled and timeout_ms is not None:
            timeout_ms = max(timeout_ms, MIN_COMMIT_TIMEOUT_MS)
        await super()._on_join_prepare_async(generation, member_id, timeout_ms=timeout_ms)

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

    # ---- The response to a request for committed offsets is kept for the next request.

    def _discard_committed_offsets(self, assigned: set[Any]) -> None:
        """Discard responses of which no poll made use, except for partitions that this consumer had
        and keeps: other members may have committed offsets of all others since.
        """
        kept = assigned & self.subscription.assigned_partitions()
        for partitions in [key for key in self._offset_fetch_futures if not key <= kept]:
            del self._offset_fetch_futures[partitions]

    # ---- Commits are refused during a join; one for a deleted topic is retried until a topic of
    # ---- that name exists. Here they go through a `CommitQueue`.

    def commit_offsets_async(self, offsets: Any, callback: Any = None) -> Any:
        """Commit as the member of this moment, whenever the request is sent."""
        return super().commit_offsets_async(self._with_member(offsets), callback)

    def commit_offsets_sync(self, offsets: Any, timeout_ms: float | None = None) -> Any:
        """Commit as the member of this moment, whenever the request is sent."""
        return super().commit_offsets_sync(self._with_member(offsets), timeout_ms)

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Close the coordinator; commits that are still queued are cancelled."""
        try:
            super().close(autocommit=autocommit, timeout_ms=timeout_ms)
        finally:
            self.commits.close()

    def _with_member(self, offsets: Any) -> Any:
        called = isinstance(offsets, _OffsetsOfMember) or not isinstance(offsets, dict)
        if called or not self.workarounds_enabled:
            return offsets
        return _OffsetsOfMember(offsets, self.member, topic_ids(self.cluster, offsets))

    async def _send_offset_commit_request(self, offsets: Any) -> None:
        in_group = self.subscription.partitions_auto_assigned()
        if not (self.workarounds_enabled and offsets and in_group and self.in_generation):
            await super()._send_offset_commit_request(offsets)
            return
        response = Future()
        called = self._with_member(offsets)
        commit = Commit(
            offsets={tuple(partition): offset for partition, offset in offsets.items()},
            member=called.member,
            topic_ids=called.topic_ids,
            deadline=time.monotonic() + self.config["request_timeout_ms"] / 1000,
            on_response=response.success,
            retry_as=self._retry_commit_as,
        )
        sent = time.monotonic()
        self.commits.put(commit)
        self._handle_commit_response(commit, sent, offsets, await response)

    def _handle_commit_response(
        self, commit: Commit, sent: float, offsets: Any, response: CommitResponse
    ) -> None:
        """Update the membership, and raise, as kafka-python does for such a response."""
        if isinstance(response, errors.Cancelled):
            raise KafkaError(str(response))
        if isinstance(response, errors.RetriableError):
            raise KafkaTimeoutError(f"no broker accepted the commit in time: {response!r}")
        if isinstance(response, Exception):
            raise response
        refused = next((code for code in response.values() if code in _MEMBER_ERRORS), None)
        if refused and (commit.member != self.member or self.rebalance_in_progress()):
            # kafka-python would leave the group here, of a generation that this member has left.
            raise errors.CommitFailedError(for_code(refused)())
        topics: dict[str, list[tuple[int, int]]] = {}
        for (topic, partition), code in response.items():
            topics.setdefault(topic, []).append((partition, code))
        try:
            self._handle_offset_commit_response(
                offsets, sent, SimpleNamespace(topics=topics.items())
            )
        except errors.UnknownTopicOrPartitionError as error:
            raise errors.CommitFailedError(
                "the topic was deleted, or deleted and created again"
            ) from error

    def _retry_commit_as(self, commit: Commit, code: int) -> MemberIdentity | None:
        """Return the member as which to retry a commit refused because of a rebalance, or None.

        A cooperative member owns its partitions until it revokes them, and their next owner has to
        wait for that; so a commit of such partitions is still valid in the next generation.
        """
        generation, member_id = self.member
        same_member = member_id == commit.member[1] and generation >= commit.member[0]
        if not same_member or not self.cooperative or not self.in_generation:
            return None
        if code == ILLEGAL_GENERATION and generation == commit.member[0]:
            # The broker may be one generation ahead: its JoinGroup response is on its way.
            return commit.member if self.rebalance_in_progress() else None
        owned = {tuple(partition) for partition in self.subscription.assigned_partitions()}
        return (generation, member_id) if owned.issuperset(commit.offsets) else None

    # ---- A rebalance listener that is no coroutine runs on the event loop: no heartbeat is sent
    # ---- meanwhile, and a commit in it raises RuntimeError.

    async def _invoke_rebalance_listener_async(self, method_name: str, arg: Any) -> None:
        method = getattr(self.subscription.rebalance_listener, method_name)
        if not self.workarounds_enabled or inspect.iscoroutinefunction(method):
            await super()._invoke_rebalance_listener_async(method_name, arg)
            return
        finished = Future()

        def run() -> None:
            failure: BaseException | None = None
            try:
                method(arg)
            except BaseException as error:  # noqa: BLE001 - kafka-python raises it from poll
                failure = error

            def report() -> None:
                if failure is None:
                    finished.success(None)
                else:
                    finished.failure(failure)

            # The listener may have closed the consumer, and its event loop with it.
            with suppress(RuntimeError):
                self.net.call_soon_threadsafe(report)

        threading.Thread(target=run, name=f"rackward-listener-{self.group_id}", daemon=True).start()
        await finished

    # ---- LeaveGroup waits for the member's own JoinGroup, on whose connection it is sent.

    async def maybe_leave_group_async(
        self, reason: str | None = None, timeout_ms: float | None = None
    ) -> None:
        """Leave the group, and reset generation and member id; static members only reset them.

        LeaveGroup is sent on the connection of the commits, after those that are queued. Then the
        connection of the join is closed: a response to it would be of no use, and later requests
        would wait for it. A member that has an id and no generation yet leaves too: brokers wait
        for it.
        """
        join = self._join_task
        joining = join is not None and not join.is_done
        has_id_only = self.state is MemberState.UNJOINED and bool(self.membership[1])
        if not self.workarounds_enabled or not (joining or has_id_only):
            await super().maybe_leave_group_async(reason, timeout_ms)
            return
        node = self.coordinator()
        if node is not None and self.is_dynamic_member():
            if not self.membership[1]:
                # Brokers answer the first JoinGroup of a new member at once, with its id.
                await self._wait_for_join(join)
            if self.membership[1]:
                await self._flush_commits()
                await self._send_leave_group(node, reason, timeout_ms)
        self._forget_membership()
        if joining and not join.is_done:
            if node is not None:
                self.manager.close(node)
            await self._wait_for_join(join)
            # A response that had been received may have ended the join successfully.
            self._forget_membership()

    def _forget_membership(self) -> None:
        self._pending_join_result = None
        self.rejoining = False
        self.reset_generation()

    async def _wait_for_join(self, join: Any) -> None:
        # The error of a join is of no interest to a member that leaves.
        with suppress(Exception):
            await wait_for(self.net, join, JOIN_END_MS)

    async def _flush_commits(self) -> None:
        deadline = time.monotonic() + MIN_COMMIT_TIMEOUT_MS / 1000
        while self.commits.flush(0) and time.monotonic() < deadline:
            await self.net.sleep(FLUSH_PAUSE)

    async def _send_leave_group(
        self, node: Any, reason: str | None, timeout_ms: float | None
    ) -> None:
        """Send LeaveGroup once, and wait for its response; log a failure."""
        _, member_id = self.membership
        identity = LeaveGroupRequest.MemberIdentity(
            member_id=member_id,
            group_instance_id=self.group_instance_id,
            reason=None if reason is None else reason[:MAX_REASON],
        )
        request = LeaveGroupRequest(group_id=self.group_id, member_id=member_id, members=[identity])
        try:
            sent = self.manager.send(request, node_id=second_connection(self.cluster, node))
            response = await wait_for(self.net, sent, timeout_ms)
            for code in (response.error_code, *(member.error_code for member in response.members)):
                if code:
                    raise for_code(code)()
        except KafkaError as error:
            log.warning(
                "group=%s: LeaveGroup failed, so the group waits for this member until its session"
                " expires: %s",
                self.group_id,
                format_error(error),
            )


class _OffsetsOfMember(dict[Any, Any]):
    """Offsets to commit, the member as which ``commit`` was called, and the ids of the topics."""

    def __init__(
        self, offsets: Mapping[Any, Any], member: MemberIdentity, topic_ids: TopicIds
    ) -> None:
        super().__init__(offsets)
        self.member = member
        self.topic_ids = topic_ids


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


# ---- A request to a broker that is missing from metadata stops the fetcher.


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
        except errors.UnknownBrokerIdError:
            manager.cluster.request_update()
            return Future().failure(NodeNotReadyError(node_id))

    manager.send = send_or_fail


# ---- Metadata of missing topics is requested without a pause.


def throttle_metadata_refresh(cluster: Any) -> float | None:
    """Cancel the immediate metadata request that a ClusterMetadata plans for missing topics.

    While a topic of interest is missing, kafka-python requests its metadata ten times a second and
    logs an error for each missing topic each time. The group leader is interested in the topics of
    all members: one member that subscribes to thousands of wrong names keeps it from all else.

    Returns the seconds after which to request metadata again, 10 ms per missing topic and 1 s at
    least; None if no request was planned, or if a caller is waiting for its response.
    """
    with cluster._lock:
        if not cluster._need_update or cluster._future is not None:
            return None
        cluster._need_update = False
        topics = list(cluster._topics)
    missing = sum(not cluster.partitions_for_topic(topic) for topic in topics)
    return max(1.0, missing * 0.01)


# ---- Logs contain passwords, and an error per missing topic and metadata response.

REDACTED = "(login redacted)"
REPEAT_SECONDS = 60.0
"""Seconds before an identical warning or error is logged again."""

_SASL_AUTHENTICATE = (36).to_bytes(2, "big")
"""The API key of SaslAuthenticate, which follows the four bytes of a request's length."""


def install_log_filters() -> None:
    """Redact logins in kafka-python's logs, and limit repeated errors about topics; idempotent.

    At DEBUG kafka-python logs every request that it sends, as an object and as bytes; those of a
    login with SASL PLAIN contain the password.
    """
    for name in ("kafka.protocol.parser", "kafka.net.connection", "kafka.net.transport"):
        _add_filter(logging.getLogger(name), RedactSasl)
    _add_filter(logging.getLogger("kafka.cluster"), RateLimit)


def _add_filter(logger: logging.Logger, kind: type[logging.Filter]) -> None:
    if not any(isinstance(present, kind) for present in logger.filters):
        logger.addFilter(kind())


class RedactSasl(logging.Filter):
    """Replaces logins in the arguments of log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True, after replacing logins in the record."""
        if isinstance(record.args, tuple) and any(map(_is_login, record.args)):
            record.args = tuple(REDACTED if _is_login(arg) else arg for arg in record.args)
        return True


def _is_login(value: object) -> bool:
    if isinstance(value, bytes | bytearray):
        return bytes(value[4:6]) == _SASL_AUTHENTICATE
    name = type(value).__name__
    return name.startswith("Sasl") and name.endswith("Request")


class RateLimit(logging.Filter):
    """Suppresses a record of level WARNING or higher repeated within `REPEAT_SECONDS`."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False if the same message was logged a moment ago."""
        if record.levelno < logging.WARNING:
            return True
        now, message = time.monotonic(), record.getMessage()
        self._logged_at = {
            text: at for text, at in self._logged_at.items() if now - at < REPEAT_SECONDS
        }
        if message in self._logged_at:
            return False
        self._logged_at[message] = now
        return True
