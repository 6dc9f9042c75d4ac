"""Time as an argument."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

_SHORTEST = 0.1
_GROWTH = 1.5
_STEPS = 20


@dataclass(frozen=True, slots=True)
class Timing:
    """``now`` counts seconds from any moment on; ``sleep`` lets so many of them pass."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def pauses(self, longest: float) -> Iterator[float]:
        """Seconds to sleep between looks: short at first, since much is done at once."""
        return (min(longest, _SHORTEST * _GROWTH ** min(turn, _STEPS)) for turn in count())
