"""How long to wait for a follower, and how long to leave one alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from placement_core.errors import InvalidOptionError


@dataclass(frozen=True, slots=True)
class NearestPolicy:
    """When to give up a follower, and when to try it again. All in seconds.

    back_off, most_back_off
        For which a follower that failed is left alone: the first for its first failure, twice as
        long for each that follows it without an answer between, up to the second. It must be in
        sync as well, in metadata that is younger than the failure.
    patience
        Beyond ``fetch_max_wait_ms``, for which a follower may leave a fetch unanswered until the
        leader is read instead: a broker that hangs closes no connection.
    refresh
        Between two requests for metadata, which says what replicas are in sync. This is what
        bounds for how long a follower is read that has fallen out of sync, and after what time
        one that is back is read again. Brokers take a replica out of sync after 30 s by default.

    Raises InvalidOptionError for values out of range.
    """

    back_off: float = 1.0
    most_back_off: float = 60.0
    patience: float = 3.0
    refresh: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        self._check("back_off", least=0.1)
        self._check("most_back_off", least=self.back_off)
        self._check("patience", least=0.1)
        self._check("refresh", least=0.1)

    def _check(self, name: str, least: float) -> None:
        seconds = getattr(self, name)
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (number and least <= seconds < math.inf):
            raise InvalidOptionError(f"{name} is {seconds!r}: give seconds, {least:g} or more")

    def left_alone(self, failures: int) -> float:
        """Seconds for which a follower is left alone that has failed so often in a row."""
        # Capped before the power: 2.0 ** 1024 raises.
        return min(self.back_off * 2.0 ** min(failures - 1, 64), self.most_back_off)


DEFAULT_NEAREST = NearestPolicy()
"""Gives a follower up within seconds, and asks for metadata twice a minute."""
