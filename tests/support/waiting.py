"""Waiting for what a test asks for to come about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from assignors.rack_discovery import RackSource
from assignors.rack_discovery.resolve import Search, search

PATIENCE = 60.0
"""Seconds until a wait has failed, where the test is not about time: machines are busy."""


def wait_until(true: Callable[[], bool], within: float, what: str) -> None:
    """Return when ``true()`` holds; AssertionError after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(0.05)


# ---- Sources with more time than they have by default: machines that run tests are busy.


def search_patiently(sources: Iterable[RackSource]) -> Search:
    """As :func:`search`, with so many seconds for each source."""

    def patient(source: Any) -> RackSource:
        longer: RackSource = replace(source, timeout=PATIENCE)
        return longer

    return search(map(patient, sources), budget=10 * PATIENCE)
