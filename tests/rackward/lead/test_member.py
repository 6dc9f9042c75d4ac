"""Member ids from brokers that answer slowly, and limits of processes with many groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from rackward.lead.member import (
    ENTERING_SECONDS,
    MAX_ENTERING,
    SESSION_SECONDS,
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


def test_the_search_ends_with_an_id_of_the_least_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, 0.001)
    asyncio.run(broker.choose_id([], lambda each: 5 - int(each), TRIES, least=3))
    assert broker.id == "2"


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

    def run(coroutine: Any) -> None:
        # Up to the future that it waits for, or its end.
        with suppress(StopIteration):
            coroutine.send(None)

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
