"""kafka-python's log lines of a group member.

To an application the member is part of a confluent consumer, whose lines go to its ``logger`` if it
has one. So those of kafka-python go there too, in the thread that polls. Without a ``logger``, and
while the consumer closes, those below WARNING are dropped, and others are logged as kafka-python
logs them.

kafka-python's loggers belong to the process, and other clients in it must log as before. All lines
of a member come from two threads of its own, so a filter selects them by thread.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from kafka.net.selector import NetworkSelector

Forward = Callable[[logging.LogRecord], bool]
"""Returns whether it has taken the record."""


class MemberLogFilter(logging.Filter):
    """Passes all records, except those of the threads that were added with `add_current_thread`."""

    def __init__(self) -> None:
        super().__init__()
        self._forwards: weakref.WeakKeyDictionary[threading.Thread, Forward] = (
            weakref.WeakKeyDictionary()
        )

    def add_current_thread(self, forward: Forward) -> None:
        """Pass the records of the current thread to ``forward``, until the thread ends."""
        self._forwards[threading.current_thread()] = forward

    def install(self) -> None:
        """Add this filter to all loggers of kafka-python that exist; idempotent."""
        for name in ["kafka", *logging.root.manager.loggerDict]:
            if name == "kafka" or name.startswith("kafka."):
                logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether kafka-python's logger is to log the record."""
        forward = self._forwards.get(threading.current_thread())
        if forward is None:
            return True
        return not forward(record) and record.levelno >= logging.WARNING


MEMBER_LOG_FILTER = MemberLogFilter()
"""The filter of this process."""


class MemberEventLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop. The log lines of its thread go to ``forward``."""

    def __init__(self, forward: Forward, **configs: Any) -> None:
        super().__init__(**configs)
        self._forward = forward

    def run_forever(self) -> None:
        """Run in kafka-python's thread until the loop is closed."""
        MEMBER_LOG_FILTER.add_current_thread(self._forward)
        super().run_forever()
