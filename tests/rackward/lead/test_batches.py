"""Requests of several groups that become one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from rackward.lead.batches import MAX_NAMES, Batches


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
