"""Which hours of which cluster a stream may publish: a pure rule of what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Closing:
    """Hours of a cluster to publish: those that begin at [since, until)."""

    cluster: str
    since: datetime
    until: datetime


def closings(
    before: Mapping[str, datetime],
    after: Mapping[str, datetime],
    first: Mapping[str, datetime],
    delay: timedelta,
    longest_gap: timedelta,
) -> list[Closing]:
    """What a batch closes, given the newest time of each cluster before and after it.

    The watermark of a cluster is its newest time less ``delay``; hours that end at or before it are
    closed. A cluster's clock moves its own hours alone. Whenever an hour closes, those before it
    that may still change, since an interval of up to ``longest_gap`` may end after them, are
    published anew, down to the cluster's ``first`` time.
    """
    found = []
    for cluster in sorted(after):
        until = _hour(after[cluster] - delay)
        closed = _hour(before[cluster] - delay) if cluster in before else _hour(first[cluster])
        if until > closed:
            since = max(_hour(first[cluster]), _hour(closed - longest_gap))
            found.append(Closing(cluster, since, until))
    return found


def final_before(newest: datetime, delay: timedelta, longest_gap: timedelta) -> datetime:
    """What is taken before this time comes too late: its hours are not published any more."""
    return _hour(newest - delay) - longest_gap


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)
