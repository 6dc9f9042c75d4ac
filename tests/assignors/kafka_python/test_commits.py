"""The commits of one member: order, coalescing, retries, generations and closing."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.structs import OffsetAndMetadata

from assignors.kafka_python import commits
from assignors.kafka_python.commits import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    Commit,
    CommitQueue,
    CommitResponse,
    MemberIdentity,
    NoCoordinatorError,
    PartitionKey,
)

A, B = ("t", 0), ("t", 1)
LOADING: int = errors.CoordinatorLoadInProgressError.errno
NOT_COORDINATOR: int = errors.NotCoordinatorError.errno
SECONDS = 20.0


class Group:
    """A group, its coordinator and the client's connection to it, on an asyncio loop.

    ``respond`` is called with the offsets of each request; it returns an error code for all
    partitions, or raises. Requests wait while ``proceed`` is not set.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.group_id = "g"
        self.group_instance_id: str | None = None
        self.member: MemberIdentity = (1, "m")
        self.generation = 1
        self.committed: dict[PartitionKey, int] = {}
        self.requests: list[tuple[int, dict[PartitionKey, int]]] = []
        self.in_flight = 0
        self.dead: list[str] = []
        self.respond: Callable[[dict[PartitionKey, int]], int] = lambda _: 0
        self.reachable = True
        self.proceed = threading.Event()
        self.proceed.set()
        self._loop = loop
        self.net = SimpleNamespace(
            call_soon_threadsafe=lambda run: asyncio.run_coroutine_threadsafe(run(), loop),
            sleep=lambda seconds: asyncio.sleep(min(seconds, 0.001)),
        )
        self.manager = SimpleNamespace(send=self._send)
        self.cluster = SimpleNamespace(
            broker_metadata=lambda _: SimpleNamespace(host="h", port=1),
            topic_id=lambda topic: self.topic_ids.get(topic),  # noqa: PLW0108 - replaced by tests
            request_update=lambda: self.updates.append(len(self.requests)),
        )
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.updates: list[int] = []
        self.versions: list[int] = []

    def coordinator(self) -> Any:
        return "coordinator-0" if self.reachable else None

    def coordinator_dead(self, error: Any) -> None:
        self.dead.append(str(error))

    async def ensure_coordinator_ready_async(self, timeout_ms: float | None = None) -> bool:
        if not self.reachable:
            await asyncio.sleep(min(0.005, (timeout_ms or 0) / 1000))
        return self.reachable

    async def _send(self, request: Any, node_id: Any) -> Any:
        assert node_id == "commits-coordinator-0"
        assert self.in_flight == 0, "two requests at a time"
        self.in_flight += 1
        try:
            while not self.proceed.is_set():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            return self._handle(request)
        finally:
            self.in_flight -= 1

    def _handle(self, request: Any) -> Any:
        offsets = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        ids = {topic.name: topic.topic_id for topic in request.topics}
        self.versions.append(request._max_version)
        generation = request.generation_id_or_member_epoch
        self.requests.append((generation, offsets))
        code = self.respond(offsets)
        if not code and generation != self.generation:
            code = ILLEGAL_GENERATION
        if not code:
            self.committed.update(offsets)
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic if request._max_version < 10 else "",
                    topic_id=ids[topic],
                    partitions=[SimpleNamespace(partition_index=p, error_code=code)],
                )
                for topic, p in offsets
            ]
        )


@pytest.fixture
def group() -> Iterator[Group]:
    with _loop() as loop:
        yield Group(loop)


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Calls:
    """Commits as an application does, and records the response to each call."""

    def __init__(self, group: Group) -> None:
        self.queue = CommitQueue(group)
        self.responses: list[tuple[dict[PartitionKey, int], CommitResponse]] = []
        self._group = group

    def __call__(
        self,
        offsets: dict[PartitionKey, int],
        retry: Callable[[Commit, int], MemberIdentity | None] | None = None,
        timeout: float = SECONDS,
    ) -> None:
        self.queue.put(
            Commit(
                {tp: OffsetAndMetadata(offset, "", -1) for tp, offset in offsets.items()},
                self._group.member,
                time.monotonic() + timeout,
                lambda response: self.responses.append((offsets, response)),
                retry,
            )
        )

    @property
    def codes(self) -> list[Any]:
        return [
            type(response) if isinstance(response, Exception) else next(iter(response.values()))
            for _, response in self.responses
        ]


def test_waiting_commits_are_one_request_with_the_latest_offsets(group: Group) -> None:
    commit = Calls(group)
    group.proceed.clear()
    commit({A: 1})
    while not group.in_flight:
        time.sleep(0.001)
    for offset in range(2, 200):
        commit({A: offset, B: 2 * offset} if offset % 3 else {A: offset})
    group.proceed.set()
    assert commit.queue.flush(SECONDS) == []
    assert group.requests == [(1, {A: 1}), (1, {A: 199, B: 398})]
    assert group.committed == {A: 199, B: 398}
    # Every call returns the error codes of its partitions, in the order of the calls.
    assert [offsets[A] for offsets, _ in commit.responses] == list(range(1, 200))
    assert all(response == dict.fromkeys(offsets, 0) for offsets, response in commit.responses), (
        commit.responses
    )


def test_a_retriable_error_is_retried_before_later_commits(group: Group) -> None:
    codes: Iterator[int | Exception] = iter(
        [LOADING, NOT_COORDINATOR, errors.NodeNotReadyError(), 0]
    )

    def respond(_: dict[PartitionKey, int]) -> int:
        code = next(codes)
        if isinstance(code, Exception):
            raise code
        return int(code)

    group.respond = respond
    group.proceed.clear()
    commit = Calls(group)
    commit({A: 1, B: 1})
    while not group.in_flight:
        time.sleep(0.001)
    commit({A: 2})
    group.proceed.set()
    assert commit.queue.flush(SECONDS) == []
    assert commit.codes == [0, 0]
    assert group.requests[0] == (1, {A: 1, B: 1})
    # The second call joins the first at its retry, and is never sent before it.
    assert group.requests[1:] == [(1, {A: 2, B: 1})] * 3
    assert len(group.dead) == 1


def test_a_commit_of_an_old_generation_is_not_sent_again(group: Group) -> None:
    """A retry would replace offset 150, committed by the next owner, by 100."""

    def respond(_: dict[PartitionKey, int]) -> int:
        group.member, group.generation = (2, "m"), 2
        group.committed[A] = 150
        group.respond = lambda _: 0
        return NOT_COORDINATOR

    group.respond = respond
    commit = Calls(group)
    commit({A: 100})
    commit.queue.flush(SECONDS)
    assert commit.codes == [ILLEGAL_GENERATION]
    commit({B: 7})
    commit.queue.flush(SECONDS)
    assert commit.codes == [ILLEGAL_GENERATION, 0]
    assert group.requests == [(1, {A: 100}), (2, {B: 7})]
    assert group.committed == {A: 150, B: 7}


def test_calls_of_two_generations_are_two_requests(group: Group) -> None:
    commit = Calls(group)
    group.proceed.clear()
    commit({B: 1})
    while not group.in_flight:
        time.sleep(0.001)
    commit({A: 1})
    group.member, group.generation = (2, "m"), 2
    commit({A: 2})
    group.proceed.set()
    commit.queue.flush(SECONDS)
    assert commit.codes == [ILLEGAL_GENERATION, ILLEGAL_GENERATION, 0]
    assert group.requests == [(1, {B: 1}), (2, {A: 2})]


def test_a_commit_names_the_topics_of_its_call(group: Group) -> None:
    old, new = uuid.UUID(int=1), uuid.UUID(int=2)
    calls = Calls(group)
    group.proceed.clear()
    for topic_ids in ({}, {"t": old}, {"t": old, "u": new}, {"t": new}):
        group.topic_ids = topic_ids
        calls({A: len(group.topic_ids), ("u", 0): 1} if len(topic_ids) == 2 else {A: 0, B: 0})
    group.proceed.set()
    assert calls.queue.flush(SECONDS) == []
    # The commits of one topic are one request.
    assert [offsets for _, offsets in group.requests] == [
        {A: 0, B: 0},
        {A: 2, B: 0, ("u", 0): 1},
        {A: 0, B: 0},
    ]
    assert group.versions == [9, 10, 10]
    assert calls.codes == [0, 0, 0, 0]


def test_a_commit_for_a_recreated_topic_is_not_sent_again(group: Group) -> None:
    group.topic_ids = {"t": uuid.UUID(int=1)}
    group.respond = lambda _: errors.UnknownTopicIdError.errno
    calls = Calls(group)
    calls({A: 1})
    assert calls.queue.flush(SECONDS) == []
    assert calls.codes == [errors.UnknownTopicOrPartitionError.errno]
    assert (len(group.requests), group.updates) == (1, [1])


def test_the_deadline_ends_retries(group: Group) -> None:
    group.reachable = False
    commit = Calls(group)
    commit({A: 1}, timeout=0.05)
    assert commit.queue.flush(SECONDS) == []
    group.reachable = True
    group.respond = lambda _: LOADING
    commit({A: 1}, timeout=0.05)
    assert commit.queue.flush(SECONDS) == []
    assert commit.codes == [NoCoordinatorError, errors.CoordinatorLoadInProgressError]


def test_close_cancels_waiting_and_later_commits(group: Group) -> None:
    group.proceed.clear()
    commit = Calls(group)
    for offset in range(3):
        commit({A: offset})
    assert [len(c.offsets) for c in commit.queue.flush(0.01)] == [1, 1, 1]
    commit.queue.close()
    commit({A: 9})
    assert commit.codes == [errors.Cancelled] * 4
    group.proceed.set()
    while group.in_flight:
        time.sleep(0.001)
    assert len(commit.responses) == 4


def test_an_unexpected_error_is_the_response(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(commits, "_build_request", fail)
    commit = Calls(group)
    commit({A: 1})
    commit.queue.flush(SECONDS)
    assert commit.codes == [ValueError]
    assert "planted" in caplog.text


@pytest.mark.parametrize("seed", range(40))
def test_committed_offsets_never_go_back(group: Group, seed: int) -> None:
    """With random errors, lost responses and rebalances; offsets grow from call to call."""
    rng = random.Random(seed)
    states: list[dict[PartitionKey, int]] = []

    def respond(_: dict[PartitionKey, int]) -> int:
        chance = rng.random()
        if chance < 0.1:
            # The response is lost; the offsets may or may not have been committed.
            if rng.random() < 0.5 and group.requests[-1][0] == group.generation:
                group.committed.update(group.requests[-1][1])
                states.append(dict(group.committed))
            raise errors.KafkaConnectionError("planted")
        if chance < 0.2:
            group.generation += 1
        elif chance < 0.3:
            group.member = (group.generation, "m")
        states.append(dict(group.committed))
        codes: tuple[int, ...] = (LOADING, NOT_COORDINATOR, REBALANCE_IN_PROGRESS)
        return rng.choice(codes) if chance > 0.7 else 0

    group.respond = respond
    commit = Calls(group)
    partitions = [("t", p) for p in range(4)]
    retry = rng.choice((None, lambda c, code: c.member if code == REBALANCE_IN_PROGRESS else None))
    for offset in range(1, 300):
        commit(dict.fromkeys(rng.sample(partitions, rng.randint(1, 4)), offset), retry)
        if rng.random() < 0.1:
            time.sleep(0.0005)
        if group.member[0] < group.generation and rng.random() < 0.3:
            group.member = (group.generation, "m")
    while commit.queue.flush(SECONDS):
        group.member = (group.generation, "m")
    assert [offsets for offsets, _ in commit.responses] == sorted(
        (offsets for offsets, _ in commit.responses), key=lambda o: next(iter(o.values()))
    )
    assert len(commit.responses) == 299
    for before, after in itertools.pairwise(states):
        assert all(after[tp] >= offset for tp, offset in before.items())
    # An acknowledged offset is committed, or a later one is.
    for offsets, response in commit.responses:
        if not isinstance(response, Exception) and not any(response.values()):
            assert all(group.committed[tp] >= offset for tp, offset in offsets.items())
