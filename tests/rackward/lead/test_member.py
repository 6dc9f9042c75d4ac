"""Member ids from slow brokers, limits for many groups, and requests of several groups in one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from rackward.lead.member import (
    ENTERING_SECONDS,
    MAX_ENTERING,
    MAX_NAMES,
    SESSION_SECONDS,
    Batches,
    Entrance,
    GroupMember,
    heartbeat_seconds,
)

TRIES = 64


class Broker(GroupMember):
    """Gives member ids 0, 1, 2 and so on, each after ``seconds``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        connection: Any = None
        super().__init__(connection, "g")
        self.now, self.seconds = 0.0, seconds
        self.given: list[float] = []
        self.removed: list[str] = []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    async def request_id(self, protocols: Sequence[tuple[str, bytes]]) -> str:  # noqa: ARG002
        self.now += self.seconds
        self.given.append(self.now)
        return str(len(self.given) - 1)

    async def remove(
        self,
        members: Sequence[tuple[str, str | None]],
        reason: str = "",  # noqa: ARG002
    ) -> None:
        self.now += self.seconds
        self.removed += [each for each, _ in members]


@pytest.mark.parametrize("seconds", [0.001, 0.1, 1.0, 20.0])
def test_an_id_is_used_before_it_expires(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """However slow brokers are; all other ids are given back."""
    broker = Broker(monkeypatch, seconds)
    # The first id is the best, and none is good enough.
    asyncio.run(broker.choose_id([], lambda each: 1 + int(each), TRIES))
    assert broker.id == "0"
    age = broker.now - broker.given[0]
    assert age < SESSION_SECONDS / 2
    assert sorted(map(int, broker.removed)) == list(range(1, len(broker.given)))
    if seconds == 0.001:
        assert len(broker.given) == TRIES + 1


def test_the_search_ends_with_an_id_that_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, 0.001)
    asyncio.run(broker.choose_id([], lambda each: 5 - int(each), TRIES))
    assert broker.id == "5"
    assert sorted(broker.removed) == ["0", "1", "2", "3", "4"]


def test_heartbeats_of_many_groups_are_less_frequent() -> None:
    assert [heartbeat_seconds(groups) for groups in (0, 1000, 2000, 3000, 50_000)] == [
        1,
        1,
        2,
        3,
        3,
    ]


def test_as_many_groups_are_entered_at_a_time_as_is_permitted() -> None:
    """Those that take long do not count any more, and none counts twice."""
    expired: list[Callable[[], None]] = []

    def call_later(seconds: float, end: Callable[[], None]) -> None:
        assert seconds == ENTERING_SECONDS
        expired.append(end)

    entrance = Entrance(call_later)
    ends: list[Callable[[], None]] = []

    async def enter() -> None:
        ends.append(await entrance.enter())

    coroutines = [enter() for _ in range(MAX_ENTERING + 3)]
    for coroutine in coroutines:
        run(coroutine)
    assert len(ends) == MAX_ENTERING
    for number, end in enumerate((ends[0], expired[1])):
        end()
        run(coroutines[MAX_ENTERING + number])
    assert len(ends) == MAX_ENTERING + 2
    expired[0]()
    assert len(entrance._queue) == 1
    coroutines[-1].close()


def run(coroutine: Awaitable[object]) -> None:
    """Run up to the future that it waits for, or its end."""
    with suppress(StopIteration):
        coroutine.__await__().send(None)


class Loop:
    """Runs what is started at once, and timers when a test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.sent: list[tuple[int | None, list[str]]] = []
        self.failure: Exception | None = None
        self.batches = Batches(
            self.send,
            0.5,
            lambda _, end: self.timers.append(end),
            lambda coroutine: run(coroutine()),
        )

    async def send(self, node: int | None, names: Sequence[str]) -> dict[str, int]:
        self.sent.append((node, list(names)))
        if self.failure is not None:
            raise self.failure
        return {name: len(name) for name in names}


def test_the_names_of_a_broker_are_sent_together_once() -> None:
    loop = Loop()
    results: list[dict[str, int]] = []

    async def request(node: int, *names: str) -> None:
        results.append(await loop.batches.request(node, names))

    waiting = [request(1, "a", "b"), request(2, "c"), request(1, "b", "d")]
    steps = [each.__await__() for each in waiting]
    for step in steps:
        step.send(None)
    assert loop.sent == []
    for end in loop.timers * 2:
        end()
    assert loop.sent == [(1, ["a", "b", "d"]), (2, ["c"])]
    for step in steps:
        with pytest.raises(StopIteration):
            step.send(None)
    assert results == [{"a": 1, "b": 1, "d": 1}, {"c": 1}, {"a": 1, "b": 1, "d": 1}]


def test_what_comes_later_is_another_batch() -> None:
    loop = Loop()
    for name in ("a", "b"):
        run(loop.batches.request(1, [name]))
        loop.timers[-1]()
    assert loop.sent == [(1, ["a"]), (1, ["b"])]


def test_a_large_batch_is_sent_at_once() -> None:
    loop = Loop()
    run(loop.batches.request(None, map(str, range(MAX_NAMES))))
    assert [len(names) for _, names in loop.sent] == [MAX_NAMES]
    loop.timers[0]()
    assert len(loop.sent) == 1


def test_all_get_the_error() -> None:
    loop = Loop()
    loop.failure = OSError("lost")
    steps = [loop.batches.request(1, [name]).__await__() for name in "ab"]
    for step in steps:
        step.send(None)
    loop.timers[0]()
    for step in steps:
        with pytest.raises(OSError, match="lost"):
            step.send(None)
