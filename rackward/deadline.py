"""A point in time by which an operation has to be done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """Expires ``seconds`` after it was created, on a monotonic ``clock``; see `after`."""

    seconds: float
    expires_at: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """Return the deadline ``seconds`` from now."""
        return cls(seconds, clock() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left; 0 once it has expired."""
        return max(0.0, self.expires_at - self.clock())

    @property
    def remaining_ms(self) -> int:
        """Milliseconds left, at least 1, as the ``timeout_ms`` of Kafka's requests."""
        return max(1, int(self.remaining * 1000))
