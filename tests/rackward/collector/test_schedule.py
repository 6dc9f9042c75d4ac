"""Times of snapshots, and the rate of requests."""

from __future__ import annotations

import random

import pytest

from rackward.collector import Schedule, SourceError
from rackward.collector.collector import RateLimiter


def schedule(jitter: float = 0.0, seed: int = 1) -> Schedule:
    return Schedule(60.0, jitter, random.Random(seed))


def test_times_are_multiples_of_the_interval() -> None:
    assert schedule().next(600.0) == 660.0
    assert schedule().next(601.5) == 660.0
    assert schedule().next(659.9) == 660.0
    # A snapshot took longer than the interval: one time is skipped.
    assert schedule().next(725.0) == 780.0


def test_the_jitter_is_limited_and_depends_on_the_seed() -> None:
    one, other = schedule(0.25, 7), schedule(0.25, 7)
    delays = [one.next(600.0) - 660.0 for _ in range(200)]
    assert delays == [other.next(600.0) - 660.0 for _ in range(200)]
    assert min(delays) >= 0
    assert max(delays) <= 15.0
    assert max(delays) - min(delays) > 12.0


def test_failures_increase_the_delay() -> None:
    assert schedule().next(601.0, failures=1) == 660.0
    waits = [schedule().next(601.0, failures=n) - 601.0 for n in range(2, 9)]
    assert waits == [120.0, 240.0, 480.0, 600.0, 600.0, 600.0, 600.0]
    slow = Schedule(3600.0, 0.0, random.Random(1))
    assert slow.next(0.0, failures=1000) == 3600.0


def test_a_restarted_collector_keeps_its_times() -> None:
    assert schedule().first(700.0, None) == 700.0
    assert schedule().first(700.0, 601.0) == 700.0
    assert schedule().first(650.0, 601.0) == 660.0
    # The last snapshot is in the future, because the clock was set back.
    assert schedule().first(650.0, 9999.0) == 650.0


@pytest.mark.parametrize(("interval", "jitter"), [(0, 0.1), (-1, 0.1), (60, 1.1), (60, -0.1)])
def test_invalid_options(interval: float, jitter: float) -> None:
    with pytest.raises(SourceError):
        Schedule(interval, jitter, random.Random(1))


def test_the_rate_of_requests_is_limited() -> None:
    now = 0.0
    waits: list[float] = []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    limiter = RateLimiter(4.0, lambda: now, wait, burst=2.0)
    times = []
    for _ in range(10):
        limiter.acquire()
        times.append(now)
    assert times == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    assert limiter.requests == 10
    # Unused tokens accumulate up to the burst.
    now += 100.0
    waits.clear()
    for _ in range(4):
        limiter.acquire()
    assert waits == [0.25, 0.25]
    with pytest.raises(SourceError):
        RateLimiter(0.0, lambda: now, wait)
