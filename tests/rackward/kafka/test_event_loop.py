"""Timers of the event loop, which can be cancelled at any time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from rackward.kafka.event_loop import FixedSelector

TIMERS = 200


@pytest.fixture
def loop() -> Iterator[FixedSelector]:
    loop = FixedSelector()
    yield loop
    loop.close()


def test_timers_run_in_order_and_those_that_are_cancelled_do_not(loop: FixedSelector) -> None:
    rng = random.Random(1)
    now = time.monotonic()
    ran: list[int] = []

    def timer(number: int) -> object:
        return loop.call_at(now + number * 1e-4, lambda: ran.append(number))

    order = rng.sample(range(TIMERS), TIMERS)
    timers = {number: timer(number) for number in order}
    cancelled = set(rng.sample(range(TIMERS), TIMERS // 2))
    for number in cancelled:
        loop.cancel(timers[number])
        loop.cancel(timers[number])
    done = loop.call_at(now + TIMERS * 1e-4, lambda: None)
    while not done.is_done:
        loop.poll(timeout_ms=100)
    assert ran == sorted(set(range(TIMERS)) - cancelled)


def test_a_timer_that_is_rescheduled_runs_once_at_its_new_time(loop: FixedSelector) -> None:
    now = time.monotonic()
    ran: list[str] = []
    moved = loop.call_at(now, lambda: ran.append("moved"))
    loop.call_at(now + 0.001, lambda: ran.append("other"))
    last = loop.call_at(now + 0.003, lambda: ran.append("last"))
    loop.reschedule(now + 0.002, moved)
    while not last.is_done:
        loop.poll(timeout_ms=100)
    assert ran == ["other", "moved", "last"]


def test_cancelled_timers_do_not_wake_the_loop(loop: FixedSelector) -> None:
    loop.cancel(loop.call_later(0.0, lambda: None))
    later = loop.call_later(60.0, lambda: None)
    seconds = loop._next_scheduled_timeout(time.monotonic())
    assert seconds is not None
    assert seconds > 50.0
    loop.cancel(later)
    assert loop._next_scheduled_timeout(time.monotonic()) is None
