"""What must happen on time though the application does not ask: knocks, and commits."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Protocol

BEAT = 0.25
"""Seconds between looks at the clock."""


class Beating(Protocol):
    """What is kept going."""

    def _beat(self, now: float) -> None:
        """Do what is due at ``now``, the seconds of `time.monotonic`."""


class Pulse:
    """A thread that lives as long as its consumer, and not a moment of its own will longer.

    It may wait for the application to leave a poll, which is why nothing else waits for it.
    """

    def __init__(self, consumer: Beating, name: str) -> None:
        self._consumer = weakref.ref(consumer)
        self._due = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(
            target=self._run, name=f"rackward-pulse-{name}", daemon=True
        )

    def start(self) -> None:
        """Begin, unless it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def beat(self) -> None:
        """Look at the clock now."""
        self._due.set()

    def stop(self, patience: float = 0.0) -> None:
        """End, and wait ``patience`` seconds for the end."""
        self._stopped = True
        self._due.set()
        if patience and self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(patience)

    def _run(self) -> None:
        while True:
            self._due.wait(BEAT)
            self._due.clear()
            consumer = self._consumer()
            if self._stopped or consumer is None:
                return
            consumer._beat(time.monotonic())
            del consumer
