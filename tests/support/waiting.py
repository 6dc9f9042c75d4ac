"""Waiting for conditions in tests."""

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
