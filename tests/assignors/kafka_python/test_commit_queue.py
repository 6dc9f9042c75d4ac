"""Commits of one member: their order, what goes into a request, and what happens to each."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.structs import OffsetAndMetadata

from assignors.kafka_python import commit_queue
from assignors.kafka_python.commit_queue import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    Commit,
    CommitQueue,
    Member,
    NoCoordinatorError,
    Place,
    Result,
    refuse,
)

A, B = ("t", 0), ("t", 1)
LOADING: int = errors.CoordinatorLoadInProgressError.errno
NOT_COORDINATOR: int = errors.NotCoordinatorError.errno
SECONDS = 20.0


class Group:
    """A coordinator's view of a group, and the client's of the coordinator, on an asyncio loop.

    ``answers`` is called with each request; it returns a code for all partitions, or raises.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.group_id = "g"
        self.group_instance_id: str | None = None
        self.member: Member = (1, "m")
        self.generation = 1
        self.committed: dict[Place, int] = {}
        self.requests: list[tuple[int, dict[Place, int]]] = []
        self.under_way = 0
        self.dead: list[str] = []
        self.answers: Callable[[dict[Place, int]], int] = lambda _: 0
        self.reachable = True
        self.hold = threading.Event()
        self.hold.set()
        self._loop = loop
        self.net = SimpleNamespace(
            call_soon_threadsafe=lambda run: asyncio.run_coroutine_threadsafe(run(), loop),
            sleep=lambda seconds: asyncio.sleep(min(seconds, 0.001)),
        )
        self.manager = SimpleNamespace(
            send=self._send,
            cluster=SimpleNamespace(
                broker_metadata=lambda _: SimpleNamespace(host="h", port=1),
                _coordinator_brokers={},
            ),
        )

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
        assert self.under_way == 0, "two requests at a time"
        self.under_way += 1
        try:
            while not self.hold.is_set():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
            return self._take(request)
        finally:
            self.under_way -= 1

    def _take(self, request: Any) -> Any:
        offsets = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
        }
        generation = request.generation_id_or_member_epoch
        self.requests.append((generation, offsets))
        code = self.answers(offsets)
        if not code and generation != self.generation:
            code = ILLEGAL_GENERATION
        if not code:
            self.committed.update(offsets)
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic, partitions=[SimpleNamespace(partition_index=p, error_code=code)]
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
    """Makes commits as an application does, and keeps what each was answered."""

    def __init__(self, group: Group) -> None:
        self.queue = CommitQueue(group)
        self.answers: list[tuple[dict[Place, int], Result]] = []
        self._group = group

    def __call__(
        self,
        offsets: dict[Place, int],
        retry: Callable[[Commit, int], Member | None] = refuse,
        patience: float = SECONDS,
    ) -> None:
        self.queue.put(
            Commit(
                {place: OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()},
                self._group.member,
                time.monotonic() + patience,
                lambda result: self.answers.append((offsets, result)),
                retry,
            )
        )

    @property
    def codes(self) -> list[Any]:
        return [
            type(result) if isinstance(result, Exception) else next(iter(result.values()))
            for _, result in self.answers
        ]


def outlast(commit: Commit, code: int) -> Member | None:
    """Wait a rebalance out."""
    return commit.member if code == REBALANCE_IN_PROGRESS else None


def test_what_waits_goes_into_one_request_and_the_latest_call_counts(group: Group) -> None:
    commit = Calls(group)
    group.hold.clear()
    commit({A: 1})
    while not group.under_way:
        time.sleep(0.001)
    for offset in range(2, 200):
        commit({A: offset, B: 2 * offset} if offset % 3 else {A: offset})
    group.hold.set()
    assert commit.queue.flush(SECONDS) == []
    assert group.requests == [(1, {A: 1}), (1, {A: 199, B: 398})]
    assert group.committed == {A: 199, B: 398}
    # Every call is answered with what was said of its partitions, in the order of the calls.
    assert [offsets[A] for offsets, _ in commit.answers] == list(range(1, 200))
    assert all(result == dict.fromkeys(offsets, 0) for offsets, result in commit.answers), (
        commit.answers
    )


def test_what_passes_is_tried_again_before_what_comes_later(group: Group) -> None:
    codes: Iterator[int | Exception] = iter(
        [LOADING, NOT_COORDINATOR, errors.NodeNotReadyError(), 0]
    )

    def answers(_: dict[Place, int]) -> int:
        code = next(codes)
        if isinstance(code, Exception):
            raise code
        return int(code)

    group.answers = answers
    group.hold.clear()
    commit = Calls(group)
    commit({A: 1, B: 1})
    while not group.under_way:
        time.sleep(0.001)
    commit({A: 2})
    group.hold.set()
    assert commit.queue.flush(SECONDS) == []
    assert commit.codes == [0, 0]
    assert group.requests[0] == (1, {A: 1, B: 1})
    # The second joins the first as soon as that is tried again, and is never before it.
    assert group.requests[1:] == [(1, {A: 2, B: 1})] * 3
    assert len(group.dead) == 1


def test_a_past_generation_is_not_sent_again(group: Group) -> None:
    """An old owner's commit of 100 went over its successor's 150 in the next generation."""

    def answers(_: dict[Place, int]) -> int:
        group.member, group.generation = (2, "m"), 2
        group.committed[A] = 150
        group.answers = lambda _: 0
        return NOT_COORDINATOR

    group.answers = answers
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
    group.hold.clear()
    commit({B: 1})
    while not group.under_way:
        time.sleep(0.001)
    commit({A: 1})
    group.member, group.generation = (2, "m"), 2
    commit({A: 2})
    group.hold.set()
    commit.queue.flush(SECONDS)
    assert commit.codes == [ILLEGAL_GENERATION, ILLEGAL_GENERATION, 0]
    assert group.requests == [(1, {B: 1}), (2, {A: 2})]


def test_a_rebalance_may_be_waited_out(group: Group) -> None:
    codes = iter([REBALANCE_IN_PROGRESS, REBALANCE_IN_PROGRESS])
    group.answers = lambda _: next(codes, 0)
    group.hold.clear()
    commit = Calls(group)
    commit({A: 1})
    commit({A: 2}, outlast)
    commit({A: 3})
    group.hold.set()
    commit.queue.flush(SECONDS)
    # What comes after the one that waits is answered after it.
    assert commit.codes == [REBALANCE_IN_PROGRESS, 0, 0] or commit.codes == [0, 0, 0]
    assert [offsets[A] for offsets, _ in commit.answers] == [1, 2, 3]
    assert group.committed == {A: 3}


def test_the_member_that_a_retry_names_is_taken(group: Group) -> None:
    def answers(_: dict[Place, int]) -> int:
        group.member, group.generation = (2, "m"), 2
        return 0

    group.answers = answers
    commit = Calls(group)
    commit({A: 5}, lambda *_: group.member)
    commit.queue.flush(SECONDS)
    assert commit.codes == [0]
    assert group.requests == [(1, {A: 5}), (2, {A: 5})]


def test_patience_ends(group: Group) -> None:
    group.reachable = False
    commit = Calls(group)
    commit({A: 1}, patience=0.05)
    assert commit.queue.flush(SECONDS) == []
    group.reachable = True
    group.answers = lambda _: LOADING
    commit({A: 1}, patience=0.05)
    assert commit.queue.flush(SECONDS) == []
    assert commit.codes == [NoCoordinatorError, errors.CoordinatorLoadInProgressError]


def test_closing_answers_what_is_left_and_what_comes(group: Group) -> None:
    group.hold.clear()
    commit = Calls(group)
    for offset in range(3):
        commit({A: offset})
    assert [len(c.offsets) for c in commit.queue.flush(0.01)] == [1, 1, 1]
    commit.queue.close()
    commit({A: 9})
    assert commit.codes == [errors.Cancelled] * 4
    group.hold.set()
    while group.under_way:
        time.sleep(0.001)
    assert len(commit.answers) == 4


def test_a_closed_event_loop_answers_too(group: Group) -> None:
    def closed(_: object) -> None:
        raise RuntimeError("closed")

    group.net.call_soon_threadsafe = closed
    commit = Calls(group)
    commit({A: 1})
    assert commit.codes == [errors.Cancelled]


def test_a_fault_of_ours_is_answered(
    group: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(commit_queue, "_request", fail)
    commit = Calls(group)
    commit({A: 1})
    commit.queue.flush(SECONDS)
    assert commit.codes == [ValueError]
    assert "planted" in caplog.text


@pytest.mark.parametrize("seed", range(40))
def test_committed_offsets_never_go_back(group: Group, seed: int) -> None:
    """Whatever passes or moves meanwhile; offsets grow from call to call, over all generations."""
    rng = random.Random(seed)
    seen: list[dict[Place, int]] = []

    def answers(_: dict[Place, int]) -> int:
        chance = rng.random()
        if chance < 0.1:
            # The answer is lost, and it may or may not have been taken.
            if rng.random() < 0.5 and group.requests[-1][0] == group.generation:
                group.committed.update(group.requests[-1][1])
                seen.append(dict(group.committed))
            raise errors.KafkaConnectionError("planted")
        if chance < 0.2:
            group.generation += 1
        elif chance < 0.3:
            group.member = (group.generation, "m")
        seen.append(dict(group.committed))
        codes: tuple[int, ...] = (LOADING, NOT_COORDINATOR, REBALANCE_IN_PROGRESS)
        return rng.choice(codes) if chance > 0.7 else 0

    group.answers = answers
    commit = Calls(group)
    places = [("t", p) for p in range(4)]
    retry = rng.choice(
        (refuse, lambda c, code: c.member if code == REBALANCE_IN_PROGRESS else None)
    )
    for offset in range(1, 300):
        commit(dict.fromkeys(rng.sample(places, rng.randint(1, 4)), offset), retry)
        if rng.random() < 0.1:
            time.sleep(0.0005)
        if group.member[0] < group.generation and rng.random() < 0.3:
            group.member = (group.generation, "m")
    while commit.queue.flush(SECONDS):
        group.member = (group.generation, "m")
    assert [offsets for offsets, _ in commit.answers] == sorted(
        (offsets for offsets, _ in commit.answers), key=lambda o: next(iter(o.values()))
    )
    assert len(commit.answers) == 299
    for before, after in itertools.pairwise(seen):
        assert all(after[place] >= offset for place, offset in before.items())
    # What was acknowledged is committed, or something later is.
    for offsets, result in commit.answers:
        if not isinstance(result, Exception) and not any(result.values()):
            assert all(group.committed[place] >= offset for place, offset in offsets.items())
