"""Offset commits of one member of a group: in the order of the calls, one request at a time.

kafka-python sends each commit when it is called, up to five at a time, and leaves it to the caller
to try again. Two tries that overtake each other move a committed offset back, and what five
requests leave no room for is refused. Here commits wait in a queue:

Order
    One request is under way at a time, and the next one is made when its answer has come.
Coalescing
    What waits meanwhile goes into one request. Of each partition the offset of the latest call
    counts; each call is answered with what the broker said of its partitions, in the order of
    the calls.
Generation
    A commit is sent under the generation and the member id of the moment when it was called, at
    each try, so that a broker refuses it once the group has gone on. `Commit.retry` may know
    better, where the partitions are certain to be the member's still.
Connection
    A broker answers a connection's requests one after the other, and a JoinGroup when all members
    have joined. So commits have a connection of their own: in a rebalance they are taken as long
    as the generation lasts, where a commit behind the member's own JoinGroup would be answered
    when it is over, and refused.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Protocol

from kafka import errors
from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.metadata import MetadataResponse

from assignors.group_leader import log

Place = tuple[str, int]
"""A topic and a partition."""

Member = tuple[int, str]
"""A generation and a member id."""

Result = Mapping[Place, int] | Exception
"""The error code of each partition of a commit, or why no broker answered."""

BACKOFF = 0.1
"""Seconds before a commit is tried again."""

REBALANCE_IN_PROGRESS = errors.RebalanceInProgressError.errno
ILLEGAL_GENERATION = errors.IllegalGenerationError.errno
UNKNOWN = errors.UnknownError.errno

_COORDINATOR_MOVED = {
    errors.NotCoordinatorError.errno,
    errors.CoordinatorNotAvailableError.errno,
    errors.RequestTimedOutError.errno,
}
_GROUP_WENT_ON = {REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION}
_TRANSIENT = {errors.CoordinatorLoadInProgressError.errno, *_COORDINATOR_MOVED}


class NoCoordinatorError(errors.CoordinatorNotAvailableError):  # type: ignore[misc]
    """No broker is known to coordinate the group."""


class Committable(Protocol):
    """What is committed of a partition; kafka-python's OffsetAndMetadata is one."""

    @property
    def offset(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def metadata(self) -> str | None: ...


class Coordinator(Protocol):
    """What a queue needs of a kafka-python coordinator."""

    group_id: str
    group_instance_id: str | None
    manager: Any
    net: Any

    @property
    def member(self) -> Member: ...

    def coordinator(self) -> Any: ...

    def coordinator_dead(self, error: Any) -> None: ...

    async def ensure_coordinator_ready_async(self, timeout_ms: float | None = None) -> bool: ...


def refuse(commit: Commit, code: int) -> Member | None:  # noqa: ARG001
    """A `Commit.retry`: let the answer stand."""
    return None


@dataclass(eq=False)
class Commit:
    """One call. ``answer`` is called once, on kafka-python's event loop or as the queue closes.

    ``retry`` is called with REBALANCE_IN_PROGRESS or ILLEGAL_GENERATION, where a commit was refused
    with that code: the member as which to try again, or None to answer with the code.
    """

    offsets: Mapping[Place, Committable]
    member: Member
    deadline: float
    answer: Callable[[Result], None]
    retry: Callable[[Commit, int], Member | None] = refuse
    answered: bool = field(default=False, init=False)


class CommitQueue:
    """The commits of one member. `put`, `flush` and `close` may be called in any thread."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._waiting: deque[Commit] = deque()
        self._changed = threading.Condition()
        self._running = False
        self._closed = False

    def put(self, commit: Commit) -> None:
        """Send ``commit`` after those that were put before."""
        with self._changed:
            closed, starts = self._closed, not self._running
            if not closed:
                self._waiting.append(commit)
                self._running = True
        if closed:
            commit.answer(errors.Cancelled("the consumer is closed"))
        elif starts:
            try:
                self._coordinator.net.call_soon_threadsafe(self._run)
            except RuntimeError:  # The event loop is closed.
                self.close()

    def flush(self, seconds: float) -> list[Commit]:
        """Wait until all commits are answered; those that are not after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, seconds)
            return list(self._waiting)

    def close(self) -> None:
        """Answer what waits with `kafka.errors.Cancelled`, and what is put from now on."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
        self._answer((commit, errors.Cancelled("not committed before close")) for commit in left)

    def _answer(self, answers: Iterable[tuple[Commit, Result]]) -> None:
        for commit, result in answers:
            with self._changed:
                answered, commit.answered = commit.answered, True
            if not answered:
                commit.answer(result)
        with self._changed:
            self._waiting = deque(commit for commit in self._waiting if not commit.answered)
            self._changed.notify_all()

    # ---- on kafka-python's event loop

    async def _run(self) -> None:
        problem: Exception = NoCoordinatorError()
        while True:
            self._answer([(commit, problem) for commit in self._late()])
            batch = self._batch()
            if not batch:
                return
            try:
                if self._settle(batch, await self._try(batch)):
                    continue
                problem = errors.RebalanceInProgressError()
            except errors.KafkaError as error:
                problem = error
            except Exception as error:  # noqa: BLE001 - who waits must be answered
                log.warning("group %s: commit failed: %r", self._coordinator.group_id, error)
                self._answer((commit, error) for commit in batch)
                continue
            await self._coordinator.net.sleep(BACKOFF)

    def _late(self) -> list[Commit]:
        now = time.monotonic()
        with self._changed:
            return [commit for commit in self._waiting if commit.deadline <= now]

    def _batch(self) -> list[Commit]:
        """What goes into the next request: the oldest commit, and the next of the same member."""
        with self._changed:
            self._running = bool(self._waiting)
            return list(takewhile(lambda c: c.member == self._waiting[0].member, self._waiting))

    async def _try(self, batch: list[Commit]) -> dict[Place, int]:
        """Send ``batch``; the error code of each partition. Raises what may pass as KafkaError."""
        coordinator = self._coordinator
        member, offsets = batch[0].member, _merged(batch)
        left = max(BACKOFF, batch[0].deadline - time.monotonic())
        if not await coordinator.ensure_coordinator_ready_async(timeout_ms=1000 * left):
            raise NoCoordinatorError
        node = coordinator.coordinator()
        if node is None:
            raise NoCoordinatorError
        if member != coordinator.member:
            # The group has gone on: a broker would refuse it, if it heard of that in time.
            return dict.fromkeys(offsets, ILLEGAL_GENERATION)
        request = _request(coordinator, member, offsets)
        try:
            # One that is not answered in time ends its connection: nothing is sent beside it.
            response = await coordinator.manager.send(request, node_id=self._connection(node))
        except errors.KafkaError as error:
            if not isinstance(error, errors.NodeNotReadyError | errors.TooManyInFlightRequests):
                coordinator.coordinator_dead(error)
            raise
        codes = {
            (topic.name, partition.partition_index): int(partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        }
        for code in sorted(_TRANSIENT.intersection(codes.values())):
            passing = errors.for_code(code)()
            if code in _COORDINATOR_MOVED:
                coordinator.coordinator_dead(passing)
            raise passing
        return codes

    def _settle(self, batch: list[Commit], codes: dict[Place, int]) -> bool:
        """Answer ``batch``; False if some of it is to be tried again, with all that came later."""
        answers: list[tuple[Commit, Result]] = []
        for commit in batch:
            mine = {place: codes.get(place, UNKNOWN) for place in commit.offsets}
            refused = next((c for c in mine.values() if c in _GROUP_WENT_ON), None)
            member = None if refused is None else commit.retry(commit, refused)
            if member is not None:
                commit.member = member
                break
            answers.append((commit, mine))
        self._answer(answers)
        return len(answers) == len(batch)

    def _connection(self, node: Any) -> str:
        """The id under which kafka-python keeps a second connection to the coordinator."""
        cluster = self._coordinator.manager.cluster
        broker = cluster.broker_metadata(node)
        name = f"commits-{node}"
        # Renewed each time: the broker's address may have changed.
        cluster._coordinator_brokers[name] = MetadataResponse.MetadataResponseBroker(
            name, broker.host, broker.port, None
        )
        return name


def _merged(batch: list[Commit]) -> dict[Place, Committable]:
    """The offset of each partition by the latest of the calls."""
    merged: dict[Place, Committable] = {}
    for commit in batch:
        merged.update(commit.offsets)
    return merged


def _request(coordinator: Coordinator, member: Member, offsets: Mapping[Place, Committable]) -> Any:
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_type = topic_type.OffsetCommitRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, partition), position in offsets.items():
        topics.setdefault(topic, []).append(
            partition_type(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata or "",
            )
        )
    generation, member_id = member
    return OffsetCommitRequest(
        max_version=8,
        group_id=coordinator.group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=coordinator.group_instance_id,
        topics=[topic_type(name=name, partitions=each) for name, each in topics.items()],
    )
