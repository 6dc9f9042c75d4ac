"""When the next snapshot of a cluster is due."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from rackward.collector.errors import SourceError

LONGEST_BACK_OFF = 600.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Every ``interval`` seconds, and up to ``jitter`` (a share of it) later.

    Times are on a grid of the clock, seconds since 1970, so that a collector that is started
    again goes on in step, and one that is too slow leaves a time out in place of falling
    behind. The jitter keeps clusters, and collectors, from asking all at once; it comes out of
    ``rng``. Raises SourceError where a value is out of range.
    """

    interval: float
    jitter: float
    rng: random.Random

    def __post_init__(self) -> None:
        if not 0 < self.interval < math.inf:
            raise SourceError(f"the interval is {self.interval!r} s: give a positive number")
        if not 0 <= self.jitter <= 1:
            raise SourceError(f"the jitter is {self.jitter!r}: give a share from 0 to 1")

    def first(self, now: float, last: float | None) -> float:
        """When to begin: now, unless the snapshot at ``last`` is no interval old."""
        if last is None or not 0 <= now - last < self.interval:
            return now
        return self.after(now)

    def after(self, now: float, failures: int = 0) -> float:
        """The next time after one that was done, or has failed ``failures`` times on end.

        Failures double the interval up to ten minutes (or the interval, if that is longer).
        """
        late = self.rng.uniform(0, self.jitter * self.interval)
        if failures > 1:
            longest = max(self.interval, LONGEST_BACK_OFF)
            return now + min(self.interval * 2.0 ** min(failures - 1, 60), longest) + late
        ticks = math.floor(now / self.interval) + 1
        return ticks * self.interval + late
