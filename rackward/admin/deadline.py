"""Until when something may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """``seconds`` from the moment it was made; ``clock`` counts seconds."""

    seconds: float
    at: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The deadline ``seconds`` from now."""
        return cls(seconds, clock() + seconds, clock)

    @property
    def remaining(self) -> float:
        """Seconds left, 0 where it has passed."""
        return max(0.0, self.at - self.clock())
