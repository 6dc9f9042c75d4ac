"""A log that peers cannot fill."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType

INTERVAL_SECONDS = 10.0


class SparingLog:
    """Lets one line of each kind through in ``interval`` seconds, and counts the others.

    ``kind`` is one of a few words of the caller's own, never anything that a peer chose.
    """

    def __init__(
        self,
        logger: logging.Logger,
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._interval = interval
        self._clock = clock
        self._silent_until: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def warn(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Log the text as a warning, with ``error``'s traceback, unless it is too soon."""
        now = self._clock()
        if now < self._silent_until.get(kind, now):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._silent_until[kind] = now + self._interval
        unsaid = self._unsaid.pop(kind, 0)
        more = f" ({unsaid} more like it were not logged)" if unsaid else ""
        self._logger.warning("%s%s", text, more, exc_info=_trace(error))


Trace = tuple[type[BaseException], BaseException, TracebackType | None]


def _trace(error: BaseException | None) -> Trace | None:
    return None if error is None else (type(error), error, error.__traceback__)
