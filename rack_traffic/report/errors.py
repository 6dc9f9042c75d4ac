"""What can go wrong with a report: each error says what to do."""

from __future__ import annotations

from rack_traffic.errors import TrafficError


class ReportError(TrafficError):
    """A report cannot be made of what was given."""


class ReportInputError(ReportError, ValueError):
    """A table cannot be read, or lacks columns, or an option cannot be meant."""


class ReportOutputError(ReportError, OSError):
    """The page or the tables cannot be written."""
