"""Errors of the pipeline and of the report."""

from __future__ import annotations

from placement_core import RackwardError


class TrafficError(RackwardError):
    """Base class: the pipeline or the report cannot continue."""


class MissingPackageError(TrafficError, ImportError):
    """An optional package is not installed. ``extra`` is what to install."""

    def __init__(self, package: str, extra: str = "rackward[spark]") -> None:
        super().__init__(f"{package} is not installed: pip install '{extra}'")


class SparkError(TrafficError):
    """Spark cannot be started or reached, its version or that of Java is not supported, or a job
    failed."""


class InputError(TrafficError, ValueError):
    """A table is missing, is unreadable or lacks columns, or an option is invalid."""


class OutputError(TrafficError, OSError):
    """The report cannot be written."""


class PriceTableError(TrafficError, ValueError):
    """A price table cannot be read, or has an invalid rule."""
