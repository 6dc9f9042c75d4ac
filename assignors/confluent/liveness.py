"""Whether the application still polls, told without a word of Python at each poll.

An application that polls runs in C alone. Now and then a knock is left in the queue that it polls;
if it polls, the knock is answered. An application has not polled since the oldest unanswered
knock was left, so one that is older than ``max.poll.interval.ms`` says that it stopped; this is
never too early, and late by no more than the time between knocks.
"""

from __future__ import annotations

import threading


class Liveness:
    """Knocks and answers; times are seconds of one clock. Thread-safe."""

    def __init__(self, max_poll_interval: float) -> None:
        self.longest = max_poll_interval
        self.every = min(1.0, max_poll_interval / 10)
        self._seen = 0.0
        self._knocked: float | None = None
        self._lock = threading.Lock()

    def answered(self, now: float) -> None:
        """The application polled, or begins to count as one that should."""
        with self._lock:
            self._seen = now
            self._knocked = None

    def knocks(self, now: float) -> None:
        """A knock is about to be left in the queue."""
        with self._lock:
            self._knocked = now

    def knocked(self, now: float) -> None:
        """The knock is in the queue, unless it was answered already."""
        with self._lock:
            if self._knocked is not None:
                self._knocked = now

    @property
    def waiting(self) -> bool:
        """Whether a knock is in the queue."""
        return self._knocked is not None

    def should_knock(self, now: float) -> bool:
        """Whether it is time for another knock."""
        with self._lock:
            return self._knocked is None and now - self._seen >= self.every

    def overdue(self, now: float) -> float | None:
        """The seconds by which the application is late, or None."""
        with self._lock:
            late = None if self._knocked is None else now - self._knocked - self.longest
            return late if late is not None and late > 0 else None
