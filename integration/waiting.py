"""Waiting for what a test asks for to come about."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds until a wait has failed, where the test is not about time: machines are busy."""


def wait_until(true: Callable[[], bool], within: float, what: str) -> None:
    """Return when ``true()`` holds; AssertionError after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(0.05)
