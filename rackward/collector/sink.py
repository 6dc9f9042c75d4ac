"""Where snapshots go."""

from __future__ import annotations

from typing import Protocol

from rackward.collector.snapshot import Snapshot


class Sink(Protocol):
    """Keeps snapshots; may be given them by several threads at once."""

    def last(self, cluster: str) -> float | None:
        """When the latest snapshot of ``cluster`` that is kept was taken, in seconds since 1970.

        None where there is none, or the sink cannot tell.
        """

    def write(self, snapshot: Snapshot) -> bool:
        """Take ``snapshot``; whether it, and all of this cluster before it, are kept for good.

        Raises SinkError where it cannot be kept.
        """

    def flush(self) -> None:
        """Keep for good whatever was taken. Raises SinkError."""

    def close(self) -> None:
        """Let go of what is open, after the write that is under way; again: nothing.

        What is written afterwards raises SinkError. What was not flushed is lost.
        """
