"""What can go wrong with the pipeline: each error says what to do."""

from __future__ import annotations

from placement_core import RackwardError


class TrafficError(RackwardError):
    """The pipeline could not do what was asked of it."""


class MissingSparkError(TrafficError, ImportError):
    """PySpark, or a package that it needs, is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'rackward[spark]'")


class UnfitJavaError(TrafficError):
    """There is no Java that this Spark runs on."""


class InputError(TrafficError, ValueError):
    """A table of snapshots is missing, or does not have the columns that it has to have."""


class PriceTableError(TrafficError, ValueError):
    """A price table cannot be read, or has a rule that cannot be meant."""
