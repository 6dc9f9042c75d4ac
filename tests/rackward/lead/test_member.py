"""The member id that a member in waiting takes, from brokers that answer slowly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from rackward.lead.member import SESSION_SECONDS, GroupMember

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
