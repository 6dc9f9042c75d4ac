"""Hours put together into spans that are few enough for bars."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rack_traffic.report.model import HourTotal, Traffic

MOST_BARS = 180
_SPANS = (1, 3, 6, 12, 24, 7 * 24, 28 * 24)
# A Monday, so that weeks begin with one.
_ORIGIN = datetime(1969, 12, 29, tzinfo=UTC)


def span_hours(hours: Iterable[datetime], most: int = MOST_BARS) -> int:
    """The shortest span, in hours, of which at most ``most`` cover ``hours``."""
    found = list(hours)
    if not found:
        return 1
    length = (max(found) - min(found)) // timedelta(hours=1) + 1
    return next((span for span in _SPANS if length <= span * most), _SPANS[-1])


def bucketed(hours: Iterable[HourTotal], span: int) -> dict[datetime, Traffic]:
    """Traffic by the beginning of its span, in order; a span without an hour is not there."""
    found: dict[datetime, Traffic] = {}
    for each in hours:
        start = each.hour - (each.hour - _ORIGIN) % timedelta(hours=span)
        found[start] = found.get(start, Traffic()) + each.traffic
    return dict(sorted(found.items()))


def span_text(span: int) -> str:
    """Such as "hour", "6 hours", "day"."""
    if span == 1:
        return "hour"
    if span < 24:
        return f"{span} hours"
    if span == 24:
        return "day"
    return "week" if span == 7 * 24 else f"{span // (7 * 24)} weeks"
