"""Options of the jobs that need no Spark to be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from rack_traffic.errors import InputError


class Interval(StrEnum):
    """The time that one row of the what-if covers: everything, one UTC day, or one hour."""

    ALL = "all"
    DAY = "day"
    HOUR = "hour"


class FlowFormatName(StrEnum):
    """The formats of `rack_traffic.flow_formats`."""

    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"
    GENERIC = "generic"
    OTLP = "otlp"
    PROMETHEUS = "prometheus"


Endpoints = Mapping[tuple[str, int | None], tuple[str, int]]
"""Address and port (None: any) to cluster and broker."""


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """Input of measured flows.

    ``path`` is the folder of flow records and ``format`` the name of their format, None: it is
    recognised. ``brokers`` has the endpoints of load balancers and NAT. ``rack_of`` returns the
    rack of a client's address, None if it is unknown.
    """

    path: str
    format: FlowFormatName | None
    brokers: Endpoints
    rack_of: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class EstimationOptions:
    """Limits of the estimates.

    max_gap_hours
        The bytes of a longer interval between two snapshots are not distributed over its hours:
        its offsets are counted in ``unsized_offsets``.
    max_bytes_per_second
        If a partition would have been read faster than this, its offsets were set forward, not
        read.

    Raises InputError if a value is not positive.
    """

    max_gap_hours: float = 24.0
    max_bytes_per_second: float = 1e9

    def __post_init__(self) -> None:
        for name in ("max_gap_hours", "max_bytes_per_second"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)!r}: give a positive number")

    @property
    def max_gap(self) -> timedelta:
        """``max_gap_hours`` as a timedelta."""
        return timedelta(hours=self.max_gap_hours)

    @property
    def max_gap_us(self) -> int:
        """``max_gap_hours`` in microseconds."""
        return int(self.max_gap_hours * 3.6e9)
