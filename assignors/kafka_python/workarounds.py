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

What is read on through a rebalance must be committed too, and kafka-python refuses any commit while
a join is on its way (RebalanceInProgressError). Here commits go through a
:class:`~assignors.kafka_python.commit_queue.CommitQueue`, on a connection that the join does not
hold up: brokers take them under the current generation until all members have joined, and what
comes later waits until the rebalance is over, and is then committed as a member of the new
generation if the partitions are this member's still.

A rebalance listener that is no coroutine runs on kafka-python's event loop, where every call that
waits for a broker raises RuntimeError, ``commit()`` as well, and no heartbeat is sent meanwhile.
Here it runs in a thread of its own, for which ``poll`` waits.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kafka.coordinator.assignors.abstract import RebalanceProtocol
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import (
    Cancelled,
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RebalanceInProgressError,
    RetriableError,
    UnknownBrokerIdError,
    UnknownMemberIdError,
    for_code,
)
from kafka.future import Future
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import MemberState

from assignors.group_leader import log
from assignors.kafka_python.commit_queue import (
    ILLEGAL_GENERATION,
    Commit,
    CommitQueue,
    Member,
    Result,
)

# ---- kafka-python's coordinator, reading on while the group's broker for it is away.
#
# A broker that dies is missed by the cluster after a while (9 s by default), and only then another
# one coordinates its groups. Until then kafka-python 3.0.12
#
# - reads nothing, of any broker: ``poll`` waits for the coordinator and returns no records, though
#   nobody can be given the partitions meanwhile (Java's consumer reads on);
# - asks again and again without a pause: other brokers go on naming the one that is dead, and as
#   soon as the connection to it fails the next question goes out.
#
# And while it is there but slow to answer a heartbeat, as it may be while another broker is
# missing, ``poll`` goes round without a pause, since the next heartbeat is overdue.
#
# All are put right here for consumers that use one of our assignors.

MOMENT_MS = 20
"""Milliseconds that a poll of a consumer with something to read spends on what is not there."""


class ReadingOnCoordinator(ConsumerCoordinator):  # type: ignore[misc]
    """As kafka-python's own unless ``steady`` is set."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        self.steady = False
        self._looked_for = -math.inf
        super().__init__(client, subscription, **configs)

    def poll(self, timeout_ms: float | None = None) -> bool:
        """As kafka-python's; without the coordinator it is over in a moment, and reading goes on.

        For the session's time after the last heartbeat: later the coordinator may have given
        the partitions to others.
        """
        if self._may_read_alone():
            self._invoke_completed_offset_commit_callbacks()
            self.poll_heartbeat()
            if not self.ensure_coordinator_ready(timeout_ms=a_moment(timeout_ms)):
                return True
        return bool(super().poll(timeout_ms=timeout_ms))

    def time_to_next_poll(self) -> float:
        """Seconds until ``poll`` has to go round, if no record comes before; not at once.

        What is overdue is done by the client's own thread, and hurrying does not help it.
        """
        due = float(super().time_to_next_poll())
        return max(due, self.config["retry_backoff_ms"] / 1000) if self.steady else due

    def _may_read_alone(self) -> bool:
        known = self.coordinator_id
        if not self.steady or not (known is None or self._client.is_disconnected(known)):
            return False
        beat = min(self.heartbeat.last_send, self.heartbeat.last_receive)
        fresh = time.monotonic() - beat < self.config["session_timeout_ms"] / 1000
        return fresh and self._has_partitions()

    def _has_partitions(self) -> bool:
        """Whether there is something to read, which the group has not taken away."""
        return not self._generation.is_lost() and bool(self._subscription.assigned_partitions())

    async def _send_group_coordinator_request(self) -> Any:
        if self.steady:
            due = self._looked_for + self.config["retry_backoff_ms"] / 1000
            if (pause := due - time.monotonic()) > 0:
                await self._net.sleep(pause)
            self._looked_for = time.monotonic()
        return await super()._send_group_coordinator_request()


def a_moment(timeout_ms: float | None) -> float:
    """As much of a poll's time as may go by before it reads on."""
    return MOMENT_MS if timeout_ms is None else min(timeout_ms, MOMENT_MS)


_NO_MEMBER = {
    error.errno
    for error in (IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)
}

COMMIT_PATIENCE_MS = 1000
"""Milliseconds that a commit before partitions are given up may take at least."""


class _Pinned(dict[Any, Any]):
    """Offsets to commit, and the member that was told to commit them."""

    def __init__(self, offsets: Mapping[Any, Any], member: Member) -> None:
        super().__init__(offsets)
        self.member = member


class SteadyCoordinator(ReadingOnCoordinator):
    """As kafka-python's own unless ``steady`` is set."""

    def __init__(self, client: Any, subscription: Any, **configs: Any) -> None:
        self._uncollected: tuple[Any, float, Any] | None = None
        super().__init__(client, subscription, **configs)
        self.commits = CommitQueue(self)

    @property
    def manager(self) -> Any:
        """kafka-python's connections."""
        return self._manager

    @property
    def net(self) -> Any:
        """kafka-python's event loop."""
        return self._net

    @property
    def member(self) -> Member:
        """Generation and member id."""
        with self._lock:
            return (self._generation.generation_id, self._generation.member_id)

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
            self._maybe_auto_commit_offsets_async()
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

    # ---- commits

    def commit_offsets_async(self, offsets: Any, callback: Any = None) -> Any:
        """As kafka-python's, under the generation of this moment."""
        return super().commit_offsets_async(self._pinned(offsets), callback)

    def commit_offsets_sync(self, offsets: Any, timeout_ms: float | None = None) -> Any:
        """As kafka-python's, under the generation of this moment."""
        return super().commit_offsets_sync(self._pinned(offsets), timeout_ms)

    def _pinned(self, offsets: Any) -> Any:
        return (
            _Pinned(offsets, self.member) if self.steady and isinstance(offsets, dict) else offsets
        )

    async def _send_offset_commit_request(self, offsets: Any) -> None:
        in_group = self._subscription.partitions_auto_assigned()
        if not (self.steady and offsets and in_group) or self._generation.is_lost():
            await super()._send_offset_commit_request(offsets)
            return
        answer = Future()
        commit = Commit(
            {tuple(partition): offset for partition, offset in offsets.items()},
            offsets.member if isinstance(offsets, _Pinned) else self.member,
            time.monotonic() + self.config["request_timeout_ms"] / 1000,
            answer.success,
            self._still_owned_as,
        )
        begun = time.monotonic()
        self.commits.put(commit)
        self._take_answer(commit, begun, offsets, await answer)

    def _take_answer(self, commit: Commit, begun: float, offsets: Any, result: Result) -> None:
        """Raise what kafka-python raises of such an answer, and have it draw its conclusions."""
        if isinstance(result, Cancelled):
            raise KafkaError(str(result))
        if isinstance(result, RetriableError):
            raise KafkaTimeoutError(f"no broker took the commit in time: {result!r}")
        if isinstance(result, Exception):
            raise result
        refused = next((code for code in result.values() if code in _NO_MEMBER), None)
        if refused and (commit.member != self.member or self.rebalance_in_progress()):
            # kafka-python would leave the group, which has only gone on, with this member in it.
            raise CommitFailedError(for_code(refused)())
        topics: dict[str, list[tuple[int, int]]] = {}
        for (topic, partition), code in result.items():
            topics.setdefault(topic, []).append((partition, code))
        self._handle_offset_commit_response(offsets, begun, SimpleNamespace(topics=topics.items()))

    def _still_owned_as(self, commit: Commit, code: int) -> Member | None:
        """As which member to try again what was refused because of a rebalance; None: as none.

        In a cooperative group a member that joined on has its partitions until it gives them up,
        and their next owner has to wait for that.
        """
        generation, member_id = self.member
        joined_on = member_id == commit.member[1] and generation >= commit.member[0]
        if not joined_on or not self.cooperative or self._generation.is_lost():
            return None
        if code == ILLEGAL_GENERATION and generation == commit.member[0]:
            # The broker may be a generation ahead, and its answer to the join on its way.
            return commit.member if self.rebalance_in_progress() else None
        owned = {tuple(partition) for partition in self._subscription.assigned_partitions()}
        return (generation, member_id) if owned.issuperset(commit.offsets) else None

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """As kafka-python's; what is not committed by then is given up."""
        try:
            super().close(autocommit=autocommit, timeout_ms=timeout_ms)
        finally:
            self.commits.close()

    # ---- listeners

    async def _invoke_rebalance_listener_async(self, method_name: str, arg: Any) -> None:
        method = getattr(self._subscription.rebalance_listener, method_name)
        if not self.steady or inspect.iscoroutinefunction(method):
            await super()._invoke_rebalance_listener_async(method_name, arg)
            return
        ended = Future()

        def run() -> None:
            try:
                method(arg)
            except BaseException as error:  # noqa: BLE001 - kafka-python raises it from poll
                problem = error
                self._net.call_soon_threadsafe(lambda: ended.failure(problem))
            else:
                self._net.call_soon_threadsafe(lambda: ended.success(None))

        threading.Thread(target=run, name=f"rackward-listener-{self.group_id}", daemon=True).start()
        await ended


# ---- Requests to a broker that is missing from the latest metadata.
#
# kafka-python 3.0.12 raises `UnknownBrokerIdError` out of ``KafkaConnectionManager.send`` where a
# broker is absent from one metadata answer, as it is for a moment after its death, while there is
# no connection to it. The fetcher has by then marked that broker's request as pending, and never
# clears the mark: the consumer stops reading from this broker for good, and the fetch sessions
# of the brokers after it have lost their requests. The error comes out of ``poll`` too, with the
# records that this poll had already taken. A failed future that may be retried is what callers
# of ``send`` know how to deal with: they ask again when the new metadata has come.


def outlive_missing_brokers(manager: Any) -> None:
    """Have ``manager``, a KafkaConnectionManager, answer with a failed future instead."""
    send = manager.send

    def send_or_fail(request: Any, node_id: Any = None, request_timeout_ms: Any = None) -> Any:
        try:
            return send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)
        except UnknownBrokerIdError:
            manager.cluster.request_update()
            return Future().failure(NodeNotReadyError(node_id))

    manager.send = send_or_fail


# ---- Asking less often for topics that are not there.
#
# While any topic that it was told to watch is missing, kafka-python asks for its metadata ten
# times a second, and logs an error for every missing topic each time. The leader of a group
# watches what all members subscribe to: one member that names thousands of topics in error keeps
# the leader, and itself, from doing anything else.

FIRST_SECONDS = 1.0
"""After which a topic that is missing is asked for again."""

SECONDS_EACH = 0.01
"""By which this grows with every topic that is missing: a hundred are asked for in a second."""


def seconds_to_wait(missing: int) -> float:
    """How long to ask no more where so many topics are missing."""
    return max(FIRST_SECONDS, missing * SECONDS_EACH)


def stop_asking(cluster: Any) -> float | None:
    """Have ``cluster``, a ClusterMetadata, no longer ask of itself for what is missing.

    Returns the seconds after which to ask again; None where it was not about to ask, or
    somebody waits for the answer.
    """
    with cluster._lock:
        if not cluster._need_update or cluster._future is not None:
            return None
        cluster._need_update = False
        watched = list(cluster._topics)
    missing = sum(not cluster.partitions_for_topic(topic) for topic in watched)
    return seconds_to_wait(missing)
