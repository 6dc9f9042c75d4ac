"""Adding up what was fetched, between two reports."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Report:
    """Bytes per (topic, partition, broker's rack) that were fetched from one time to another.

    A rack is None where the broker does not say its own. A partition that was held, and of
    which nothing was fetched, is there with 0 bytes: that it was quiet is known as well.
    """

    from_at: datetime
    to_at: datetime
    fetched: Mapping[tuple[str, int, str | None], int]


class Tally:
    """Counts from ``now`` on; for several threads at once."""

    def __init__(self, now: datetime) -> None:
        self._since = now
        self._fetched: dict[tuple[str, int, str | None], int] = {}
        self._lock = threading.Lock()

    def add(self, place: Place, from_rack: str | None, count: int) -> None:
        """``count`` bytes of ``place`` came from a broker in ``from_rack``."""
        key = (*place, from_rack)
        with self._lock:
            self._fetched[key] = self._fetched.get(key, 0) + count

    def take(self, now: datetime, held: Iterable[tuple[Place, str | None]]) -> Report | None:
        """What was added since the last time, and start again from ``now``.

        ``held`` are the partitions that the consumer has now, with their leaders' racks. None
        where there is nothing to tell, or the clock was set back.
        """
        with self._lock:
            fetched, self._fetched = self._fetched, {}
            since, self._since = self._since, now
        told = {(topic, partition) for topic, partition, _ in fetched}
        quiet = {(*place, rack): 0 for place, rack in held if place not in told}
        if not (fetched or quiet) or now <= since:
            return None
        return Report(since, now, fetched | quiet)
