"""What was found a moment ago, so that one start of a consumer asks no source twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

KEPT_SECONDS = 30.0
"""A consumer with two assignors and a reporter asks three times as it starts."""

_MOST = 16


@dataclass(eq=False)
class _Entry:
    question: object
    lock: threading.Lock = field(default_factory=threading.Lock)
    answer: str | None = None
    until: float | None = None
    """None while it has no answer."""


class Memory:
    """Answers to questions that compare equal, for KEPT_SECONDS each; any thread may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: list[_Entry] = []

    def recall(self, question: object, ask: Callable[[], str | None]) -> str | None:
        """The answer to ``question``: what ``ask`` returns, unless it was asked a moment ago.

        Who comes while another asks the same waits for that answer.
        """
        with self._lock:
            now = self._clock()
            fresh = [each for each in self._entries if each.until is None or now < each.until]
            entry = next((each for each in fresh if each.question == question), None)
            if entry is None:
                entry = _Entry(question)
                fresh.append(entry)
            self._entries = fresh[-_MOST:]
        with entry.lock:
            if entry.until is None:
                entry.answer = ask()
                entry.until = self._clock() + KEPT_SECONDS
            return entry.answer
