"""What the scenarios are worked out for, one by one."""

from __future__ import annotations

from enum import StrEnum


class Interval(StrEnum):
    """All hours together, or day by day (UTC), or hour by hour."""

    ALL = "all"
    DAY = "day"
    HOUR = "hour"
