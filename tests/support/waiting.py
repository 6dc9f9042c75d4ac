"""Waiting for conditions in tests, and a clock that tests set."""

from __future__ import annotations

import time
from collections.abc import Callable

TEST_TIMEOUT = 60.0
"""Default timeout in seconds: far more than an idle machine needs, because CI machines are busy."""


def wait_until(condition: Callable[[], bool], within: float, what: str) -> None:
    """Return when ``condition()`` is true; raise AssertionError after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(0.05)


class Clock:
    """A clock that stands until a test changes ``now``, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
