"""When snapshots are due, and how fast a cluster is asked."""

from __future__ import annotations

import random

import pytest

from rackward.collector import Schedule, SourceError
from rackward.collector.collector import Pace


def schedule(jitter: float = 0.0, seed: int = 1) -> Schedule:
    return Schedule(60.0, jitter, random.Random(seed))


def test_snapshots_keep_to_a_grid_whatever_they_take() -> None:
    assert schedule().after(600.0) == 660.0
    assert schedule().after(601.5) == 660.0
    assert schedule().after(659.9) == 660.0
    # Slower than the interval: one time is left out.
    assert schedule().after(725.0) == 780.0


def test_the_jitter_is_within_its_share_and_follows_from_the_seed() -> None:
    one, other = schedule(0.25, 7), schedule(0.25, 7)
    late = [one.after(600.0) - 660.0 for _ in range(200)]
    assert late == [other.after(600.0) - 660.0 for _ in range(200)]
    assert min(late) >= 0
    assert max(late) <= 15.0
    assert max(late) - min(late) > 12.0


def test_failures_are_tried_again_less_and_less_often() -> None:
    assert schedule().after(601.0, failures=1) == 660.0
    waits = [schedule().after(601.0, failures=n) - 601.0 for n in range(2, 9)]
    assert waits == [120.0, 240.0, 480.0, 600.0, 600.0, 600.0, 600.0]
    slow = Schedule(3600.0, 0.0, random.Random(1))
    assert slow.after(0.0, failures=1000) == 3600.0


def test_a_collector_that_starts_again_goes_on_where_it_was() -> None:
    assert schedule().first(700.0, None) == 700.0
    assert schedule().first(700.0, 601.0) == 700.0
    assert schedule().first(650.0, 601.0) == 660.0
    # A snapshot of the future: the clock was set back, which must not stop anything.
    assert schedule().first(650.0, 9999.0) == 650.0


@pytest.mark.parametrize(("interval", "jitter"), [(0, 0.1), (-1, 0.1), (60, 1.1), (60, -0.1)])
def test_odd_options_are_refused(interval: float, jitter: float) -> None:
    with pytest.raises(SourceError):
        Schedule(interval, jitter, random.Random(1))


def test_requests_are_no_faster_than_the_pace() -> None:
    now = 0.0
    waits: list[float] = []

    def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    pace = Pace(4.0, lambda: now, wait, burst=2.0)
    times = []
    for _ in range(10):
        pace()
        times.append(now)
    assert times == [0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    assert pace.taken == 10
    # Time that was not used is kept up to the burst, and no further.
    now += 100.0
    waits.clear()
    for _ in range(4):
        pace()
    assert waits == [0.25, 0.25]
    with pytest.raises(SourceError):
        Pace(0.0, lambda: now, wait)
