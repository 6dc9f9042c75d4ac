"""How sure a figure is, in words that mean the same wherever they stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from rack_traffic.report.model import GroupTotal, Summary, Traffic, total
from rack_traffic.report.wording import count

Level = Literal["exact", "good", "fair", "rough", "none"]

EXACT_FROM = 0.95
GOOD_UP_TO = 0.05
FAIR_UP_TO = 0.25

WORDS: dict[Level, str] = {
    "exact": "exact",
    "good": "measured",
    "fair": "partly known",
    "rough": "rough",
    "none": "no data",
}
EXPLAINED: dict[Level, str] = {
    "exact": "clients reported at least 95 % of the bytes exactly",
    "good": "measured from committed offsets; at most 5 % estimated or of unknown rack",
    "fair": "at most 25 % estimated or of unknown rack",
    "rough": "more than 25 % estimated or of unknown rack",
    "none": "nothing was read in the period",
}


@dataclass(frozen=True, slots=True)
class Reliability:
    """A level, and the shares of bytes that it is from."""

    level: Level
    exact: float
    estimated: float
    unknown: float

    @property
    def words(self) -> str:
        """For people."""
        return WORDS[self.level]


def of(traffic: Traffic) -> Reliability:
    """How sure the bytes and the cost of ``traffic`` are."""
    size = traffic.bytes
    if not size:
        return Reliability("none", 0.0, 0.0, 0.0)
    exact = traffic.reported_bytes / size
    estimated = traffic.estimated_bytes / size
    unknown = traffic.unknown_bytes / size
    doubtful = estimated + unknown
    level: Level = "rough"
    if exact >= EXACT_FROM and doubtful <= GOOD_UP_TO:
        level = "exact"
    elif doubtful <= GOOD_UP_TO:
        level = "good"
    elif doubtful <= FAIR_UP_TO:
        level = "fair"
    return Reliability(level, exact, estimated, unknown)


def of_groups(groups: Iterable[GroupTotal]) -> Reliability:
    """The same of all that several groups read."""
    return of(total(each.traffic for each in groups))


def gaps(summary: Summary) -> str | None:
    """How many hours between a cluster's first and last are missing; None where none is."""
    spans = {
        each.cluster: ((each.last - each.first) // timedelta(hours=1) + 1, each.hours)
        for each in summary.clusters
    }
    gappy = {name: (span, span - seen) for name, (span, seen) in spans.items() if span > seen}
    if not gappy:
        return None
    name, (span, missing) = max(gappy.items(), key=lambda each: (each[1][1], each[0]))
    text = f"{count(missing, 'hour')} of {span:,} {'is' if missing == 1 else 'are'} missing"
    if len(spans) == 1:
        return text
    others = f" (fewer or as many in {count(len(gappy) - 1, 'other')})" if len(gappy) > 1 else ""
    return f"{text} in cluster {name}{others}"
