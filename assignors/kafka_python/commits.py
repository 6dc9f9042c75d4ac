"""Workarounds for faults of kafka-python in commits during a rebalance."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from kafka.errors import (
    Cancelled,
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    RetriableError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.future import Future

from assignors.kafka_python.commit_queue import (
    ILLEGAL_GENERATION,
    Commit,
    CommitQueue,
    CommitResponse,
    MemberIdentity,
    TopicIds,
    topic_ids,
)
from assignors.kafka_python.workarounds import JoinFixes

_MEMBER_ERRORS = {
    error.errno
    for error in (IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
}


class _OffsetsOfMember(dict[Any, Any]):
    """Offsets to commit, the member as which ``commit`` was called, and the ids of the topics."""

    def __init__(
        self, offsets: Mapping[Any, Any], member: MemberIdentity, topic_ids: TopicIds
    ) -> None:
        super().__init__(offsets)
        self.member = member
        self.topic_ids = topic_ids


class CommitFixes(JoinFixes):
    """Commits during a rebalance, and rebalance listeners that commit.

    kafka-python refuses commits while a join is in progress, although what is read then has to be
    committed too. Here commits go through a
    :class:`~assignors.kafka_python.commit_queue.CommitQueue`, on a connection that a pending
    JoinGroup does not block. Brokers accept them under the current generation until all members
    have joined; later ones wait for the end of the rebalance and are then sent as a member of the
    new generation, if it still owns the partitions.

    kafka-python sends a commit for a deleted topic again until a topic of that name exists, which
    then has the offsets of the old one. Here the commit fails, as in Java's client.

    kafka-python runs a rebalance listener that is no coroutine on its event loop, where a blocking
    call such as ``commit()`` raises RuntimeError, and no heartbeat is sent meanwhile. Here it runs
    in a thread, for which ``poll`` waits.
    """

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        super().__init__(client, subscription, **configs)
        self.commits = CommitQueue(self)

    @property
    def member(self) -> MemberIdentity:
        """Generation and member id under which commits are sent."""
        return self.membership

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
        return _OffsetsOfMember(offsets, self.member, topic_ids(self, offsets))

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
        if isinstance(response, Cancelled):
            raise KafkaError(str(response))
        if isinstance(response, RetriableError):
            raise KafkaTimeoutError(f"no broker accepted the commit in time: {response!r}")
        if isinstance(response, Exception):
            raise response
        refused = next((code for code in response.values() if code in _MEMBER_ERRORS), None)
        if refused and (commit.member != self.member or self.rebalance_in_progress()):
            # kafka-python would leave the group here, of a generation that this member has left.
            raise CommitFailedError(for_code(refused)())
        topics: dict[str, list[tuple[int, int]]] = {}
        for (topic, partition), code in response.items():
            topics.setdefault(topic, []).append((partition, code))
        try:
            self._handle_offset_commit_response(
                offsets, sent, SimpleNamespace(topics=topics.items())
            )
        except UnknownTopicOrPartitionError as error:
            raise CommitFailedError(
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
