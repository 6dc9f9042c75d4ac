"""Offset commits of one group member: in the order of the calls, one request at a time.

kafka-python sends each commit when it is called, up to five at a time, and leaves retries to
the caller. Two retries that overtake each other move a committed offset back, and a sixth
commit is refused. Here commits wait in a queue:

Order
    One request is in flight at a time; the next one is built when its response has arrived.
Coalescing
    Commits that wait meanwhile go into one request, with the offset of the latest call for each
    partition. Each call gets the error codes of its partitions, in the order of the calls.
Generation
    A commit is sent under the generation and member id of the moment of its call, at each
    retry, so that a broker refuses it once the group is in a later generation. ``retry_as`` may
    choose another member where the partitions are certain to be still owned.
Topic ids
    A commit has the topic ids of the moment of its call: brokers from Kafka 4.1 on refuse it
    (here with UNKNOWN_TOPIC_OR_PARTITION) if the topic was deleted and created again since. For
    older brokers only the name counts.
Connection
    A broker answers the requests of a connection one after the other, and a JoinGroup only when
    all members have joined. So commits have a second connection: a commit behind the member's
    own JoinGroup would be answered after the rebalance, and refused.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka import errors
from kafka.errors import KafkaError, NodeNotReadyError, for_code
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorResponse

from assignors.group_leader import format_error, log

PartitionKey = tuple[str, int]
"""Topic and partition number."""

MemberIdentity = tuple[int, str]
"""Generation and member id."""

TopicIds = Mapping[str, UUID | None]
"""Topic ids by name; None if metadata has none."""

CommitResponse = Mapping[PartitionKey, int] | Exception
"""The error code of each partition of a commit, or why no broker answered it."""

RETRY_BACKOFF = 0.1
"""Seconds before a commit is retried."""

REBALANCE_IN_PROGRESS = errors.RebalanceInProgressError.errno
ILLEGAL_GENERATION = errors.IllegalGenerationError.errno
UNKNOWN_TOPIC = errors.UnknownTopicOrPartitionError.errno

_REBALANCED = {REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION}
_COORDINATOR_MOVED = {
    errors.NotCoordinatorError.errno,
    errors.CoordinatorNotAvailableError.errno,
    errors.RequestTimedOutError.errno,
}
_RETRIABLE = {errors.CoordinatorLoadInProgressError.errno, *_COORDINATOR_MOVED}
_CODES_BEFORE_VERSION_9 = {
    errors.GroupIdNotFoundError.errno: ILLEGAL_GENERATION,
    errors.UnknownTopicIdError.errno: UNKNOWN_TOPIC,
}
"""What the versions of OffsetCommit that name topics have for the error codes of later ones."""


class NoCoordinatorError(errors.CoordinatorNotAvailableError):  # type: ignore[misc]
    """No broker is known to coordinate the group."""


@dataclass(eq=False)
class Commit:
    """One call of commit.

    ``offsets`` has objects like kafka-python's OffsetAndMetadata, with ``offset``, ``leader_epoch``
    and ``metadata``. ``deadline`` is a time of `time.monotonic`. ``on_response`` is called once, on
    kafka-python's event loop or while the queue closes. ``topic_ids`` are those of the moment of
    the call; None: of the moment when it is put into the queue.

    ``retry_as`` is called if a broker refused the commit with REBALANCE_IN_PROGRESS or
    ILLEGAL_GENERATION, with that code, and returns the member as which to retry, or None to pass
    the code on. Without it the code is passed on.
    """

    offsets: Mapping[PartitionKey, Any]
    member: MemberIdentity
    deadline: float
    on_response: Callable[[CommitResponse], None]
    retry_as: Callable[[Commit, int], MemberIdentity | None] | None = None
    topic_ids: TopicIds | None = None
    done: bool = field(default=False, init=False)


class CommitQueue:
    """The commits of one member. `put`, `flush` and `close` may be called in any thread."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._queue: deque[Commit] = deque()
        self._changed = threading.Condition()
        self._running = False
        self._closed = False

    def put(self, commit: Commit) -> None:
        """Send ``commit`` after all that were put before."""
        if commit.topic_ids is None:
            commit.topic_ids = topic_ids(self._coordinator.cluster, commit.offsets)
        with self._changed:
            closed, idle = self._closed, not self._running
            if not closed:
                self._queue.append(commit)
                self._running = True
        if closed:
            commit.on_response(errors.Cancelled("the consumer is closed"))
        elif idle:
            try:
                self._coordinator.net.call_soon_threadsafe(self._run)
            except RuntimeError:  # The event loop is closed.
                self.close()

    def flush(self, seconds: float) -> list[Commit]:
        """Wait until all commits have a response; return those without one after ``seconds``."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue, seconds)
            return list(self._queue)

    def close(self) -> None:
        """Cancel the commits in the queue, and all that are put later, with `errors.Cancelled`."""
        with self._changed:
            self._closed = True
            remaining = list(self._queue)
        cancelled = errors.Cancelled("not committed before close")
        self._respond((commit, cancelled) for commit in remaining)

    def _respond(self, responses: Iterable[tuple[Commit, CommitResponse]]) -> None:
        for commit, response in responses:
            with self._changed:
                done, commit.done = commit.done, True
            if not done:
                commit.on_response(response)
        with self._changed:
            self._queue = deque(commit for commit in self._queue if not commit.done)
            self._changed.notify_all()

    # ---- on kafka-python's event loop

    async def _run(self) -> None:
        """Send requests until the queue is empty."""
        last_error: Exception = NoCoordinatorError()
        while True:
            self._respond([(commit, last_error) for commit in self._expired()])
            batch = self._next_batch()
            if not batch:
                return
            try:
                if self._complete(batch, await self._send(batch)):
                    continue
                last_error = errors.RebalanceInProgressError()
            except KafkaError as error:
                last_error = error
            except Exception as error:  # noqa: BLE001 - the callers have to get a response
                log.warning(
                    "group=%s: commit failed: %s",
                    self._coordinator.group_id,
                    format_error(error),
                )
                self._respond((commit, error) for commit in batch)
                continue
            await self._coordinator.net.sleep(RETRY_BACKOFF)

    def _expired(self) -> list[Commit]:
        now = time.monotonic()
        with self._changed:
            return [commit for commit in self._queue if commit.deadline <= now]

    def _next_batch(self) -> list[Commit]:
        """Return the oldest commit, and those after it of the same member and the same topics."""
        batch: list[Commit] = []
        batch_ids: dict[str, UUID | None] = {}
        with self._changed:
            self._running = bool(self._queue)
            for commit in self._queue:
                commit_ids = commit.topic_ids or {}
                if commit.member != self._queue[0].member or any(
                    batch_ids.get(topic, id) != id for topic, id in commit_ids.items()
                ):
                    break
                batch_ids |= commit_ids
                batch.append(commit)
        return batch

    async def _send(self, batch: list[Commit]) -> dict[PartitionKey, int]:
        """Send ``batch`` as one request; return the error code of each partition.

        Raises KafkaError if the request is to be retried.
        """
        coordinator = self._coordinator
        member = batch[0].member
        # The latest call that has an offset of a partition counts.
        offsets = {key: offset for commit in batch for key, offset in commit.offsets.items()}
        ids = {topic: id for commit in batch for topic, id in (commit.topic_ids or {}).items()}
        remaining = max(RETRY_BACKOFF, batch[0].deadline - time.monotonic())
        if not await coordinator.ensure_coordinator_ready_async(timeout_ms=1000 * remaining):
            raise NoCoordinatorError
        node = coordinator.coordinator()
        if node is None:
            raise NoCoordinatorError
        if member != coordinator.member:
            # A broker that is still in the old generation might accept the request.
            return dict.fromkeys(offsets, ILLEGAL_GENERATION)
        request = _build_request(coordinator, member, offsets, ids)
        try:
            # A request that times out closes its connection, so a retry cannot overtake it.
            connection = second_connection(coordinator.cluster, node)
            response = await coordinator.manager.send(request, node_id=connection)
        except KafkaError as error:
            if not isinstance(error, NodeNotReadyError | errors.TooManyInFlightRequests):
                coordinator.coordinator_dead(error)
            raise
        names = {id: topic for topic, id in ids.items()}
        codes = {
            (topic.name or names[topic.topic_id], partition.partition_index): int(
                _CODES_BEFORE_VERSION_9.get(partition.error_code, partition.error_code)
            )
            for topic in response.topics
            for partition in topic.partitions
        }
        if UNKNOWN_TOPIC in codes.values():
            coordinator.cluster.request_update()
        for code in sorted(_RETRIABLE.intersection(codes.values())):
            retriable = for_code(code)()
            if code in _COORDINATOR_MOVED:
                coordinator.coordinator_dead(retriable)
            raise retriable
        return codes

    def _complete(self, batch: list[Commit], codes: dict[PartitionKey, int]) -> bool:
        """Respond to ``batch``; return False if a commit, and all after it, is to be retried."""
        responses: list[tuple[Commit, CommitResponse]] = []
        for commit in batch:
            own = {key: codes.get(key, errors.UnknownError.errno) for key in commit.offsets}
            refused = next((code for code in own.values() if code in _REBALANCED), None)
            if refused is not None and commit.retry_as is not None:
                member = commit.retry_as(commit, refused)
                if member is not None:
                    commit.member = member
                    break
            responses.append((commit, own))
        self._respond(responses)
        return len(responses) == len(batch)


def topic_ids(cluster: Any, partitions: Iterable[PartitionKey]) -> TopicIds:
    """Return the ids of the topics of ``partitions``, by a ClusterMetadata."""
    return {topic: cluster.topic_id(topic) for topic, _ in partitions}


def second_connection(cluster: Any, node: Any) -> str:
    """Return the node id of a second connection to the coordinator, and register it.

    ``cluster`` is a ClusterMetadata, ``node`` the node id of the coordinator.
    """
    node_id = f"commits-{node}"
    broker, known = cluster.broker_metadata(node), cluster.broker_metadata(node_id)
    # The broker's address may have changed.
    if known is None or (known.host, known.port) != (broker.host, broker.port):
        response = FindCoordinatorResponse(
            error_code=0, node_id=node_id, host=broker.host, port=broker.port
        )
        cluster.add_coordinator(response, CoordinatorType.GROUP, node_id, synthesize_node_id=False)
    return node_id


def _build_request(
    coordinator: Any,
    member: MemberIdentity,
    offsets: Mapping[PartitionKey, Any],
    ids: TopicIds,
) -> Any:
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_type = topic_type.OffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, partition), commit in offsets.items():
        topics.setdefault(topic, []).append(
            partition_type(
                partition_index=partition,
                committed_offset=commit.offset,
                committed_leader_epoch=commit.leader_epoch,
                committed_metadata=commit.metadata or "",
            )
        )
    generation, member_id = member
    return OffsetCommitRequest(
        # From version 10 on topics have no names, and a version is chosen that the broker supports.
        max_version=10 if all(ids[topic] for topic in topics) else 9,
        group_id=coordinator.group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=coordinator.group_instance_id,
        topics=[
            topic_type(name=name, topic_id=ids[name], partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
