"""Log lines of a group's leader: each warning once, with group and generation, and sanitised.

Member ids, topics, racks and client ids are sent by peers, and errors quote them. Each of them
passes `sanitize`, `format_list` or `format_error` before it becomes part of a line: a name with a
line break must not look like a line of its own, and one of 32 KB must not fill the log.
"""

from __future__ import annotations

import logging
import traceback
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from assignors.consumer_protocol import NO_GENERATION

log = logging.getLogger("rackward.assignors")


class LogOnce:
    """Log each distinct warning once, not at every rebalance.

    The last thousand causes are remembered, by their hash.
    """

    MAX_CAUSES = 1000

    def __init__(self) -> None:
        self._logged: OrderedDict[int, None] = OrderedDict()

    def log(
        self,
        cause: Hashable,
        message: str,
        *values: object,
        level: int = logging.WARNING,
        traceback_of: BaseException | None = None,
    ) -> None:
        """Log ``message % values`` unless a message was logged for this ``cause`` before.

        ``traceback_of`` adds where the error was raised, without its text, which may quote what a
        peer sent.
        """
        key = hash(cause)
        if key in self._logged:
            self._logged.move_to_end(key)
            return
        self._logged[key] = None
        if len(self._logged) > self.MAX_CAUSES:
            self._logged.popitem(last=False)
        if traceback_of is not None:
            message += "\n%s"
            values += (format_traceback(traceback_of),)
        log.log(level, message, *values)

    def reset(self, cause: Hashable) -> None:
        """Forget ``cause``, so that it is logged again when it returns."""
        self._logged.pop(hash(cause), None)


class GroupContext(NamedTuple):
    """Group id and generation, for log lines."""

    group: str = ""
    generation: int = NO_GENERATION

    def __str__(self) -> str:
        return f"group={sanitize(self.group) or 'unknown'} generation={self.generation}"


def sanitize(text: str, max_length: int = 64) -> str:
    """Return untrusted ``text`` for a log line: what is not printable escaped, and cut."""
    cut = text[: max_length + 1]
    plain = cut if cut.isprintable() else cut.encode("unicode_escape").decode()
    return plain if len(plain) <= max_length else f"{plain[: max_length - 3]}..."


def format_error(error: BaseException | None, max_length: int = 200) -> str:
    """Return type and text of ``error``, sanitised: it may quote a broker or another member."""
    return sanitize(repr(error), max_length)


def format_traceback(error: BaseException) -> str:
    """Return the lines of code at which ``error`` was raised, without its text."""
    return "".join(traceback.format_tb(error.__traceback__)).rstrip()


def format_list(items: Sequence[object], max_items: int = 10) -> str:
    """Return the first ``max_items`` of ``items``, each sanitised, and the number of the others."""
    listed = ", ".join(sanitize(str(item)) for item in items[:max_items])
    rest = len(items) - max_items
    return listed if rest <= 0 else f"{listed} and {rest} more"
