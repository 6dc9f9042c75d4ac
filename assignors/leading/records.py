"""The last assignment of each group, for as long as somebody may ask for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from assignors.leading.assignment import Assignment


def _now() -> datetime:
    return datetime.now(UTC)


class Records:
    """What one assignor has assigned; any thread may ask.

    Nothing is worked out before somebody asks. Of the ``MOST`` groups assigned last, the last
    assignment is kept, with the members and leaders that it was made of.
    """

    MOST = 16

    def __init__(self, now: Callable[[], datetime] = _now) -> None:
        self.now = now
        self._lock = threading.Lock()
        self._last: dict[str, Assignment] = {}

    def keep(self, made: Assignment) -> Assignment:
        """Remember it in the place of the group's last; returns it with its number."""
        with self._lock:
            before = self._last.pop(made.group, None)
            numbered = replace(made, number=1 if before is None else before.number + 1)
            self._last[made.group] = numbered
            if len(self._last) > self.MOST:
                del self._last[next(iter(self._last))]
        return numbered

    def last(self, group: str | None = None) -> Assignment | None:
        """The last assignment of ``group``, or of any; None before there is one."""
        with self._lock:
            if group is not None:
                return self._last.get(group)
            return next(reversed(self._last.values()), None)

    def all(self) -> tuple[Assignment, ...]:
        """The last of each group, the latest at the end."""
        with self._lock:
            return tuple(self._last.values())
