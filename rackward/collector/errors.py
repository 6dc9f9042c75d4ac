"""Errors of the collector."""

from __future__ import annotations

from placement_core import RackwardError


class CollectorError(RackwardError):
    """Snapshots cannot be taken or stored."""


class SourceError(CollectorError, ValueError):
    """The configuration of clusters or of racks is not valid."""


class SinkError(CollectorError, OSError):
    """A snapshot cannot be written."""


class StoppedError(CollectorError):
    """The collector was stopped during a snapshot."""

    def __init__(self) -> None:
        super().__init__("the collector was stopped")
