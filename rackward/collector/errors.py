"""What can go wrong with collecting: each error says what to do."""

from __future__ import annotations

from placement_core import RackwardError


class CollectorError(RackwardError):
    """Snapshots could not be taken, or not be kept."""


class SourceError(CollectorError, ValueError):
    """The clusters, or the racks of clients, are not described in a way that can be used."""


class SinkError(CollectorError, OSError):
    """A snapshot could not be written."""


class StoppedError(CollectorError):
    """The collector was told to stop: what was under way is given up."""

    def __init__(self) -> None:
        super().__init__("the collector was told to stop")
