"""What the what-if tables say of each group and of all: weighed by the lengths of intervals.

A group may have been looked at over several intervals. Its cost per month is then the mean over
them, each weighed by its length, and the change to make is that of the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from rack_traffic.report.model import Change, ScenarioTotal

AS_IS = "as_is"
SCENARIO_ORDER = (
    AS_IS,
    "apache_range",
    "apache_cooperative_sticky",
    "rackward_range",
    "rackward_cooperative_sticky",
    "rackward_after_leader_layout",
    "follower_fetching",
)

GroupKey = tuple[str, str]
"""Cluster and group."""


@dataclass(slots=True)
class _Sum:
    """A group under a scenario, over its intervals so far."""

    seconds: float = 0.0
    weighed_cost: float = 0.0
    local_bytes: int = 0
    crossing_bytes: int = 0
    unknown_bytes: int = 0
    moves: int = 0
    leader_moves: int = 0
    shared_topics: int = 0
    latest: datetime | None = None

    @property
    def cost_per_month(self) -> float:
        return self.weighed_cost / self.seconds if self.seconds else 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        seconds = _seconds(row)
        self.seconds += seconds
        self.weighed_cost += seconds * (row["cost_per_month"] or 0.0)
        self.local_bytes += row["local_bytes"] or 0
        self.crossing_bytes += row["crossing_bytes"] or 0
        self.unknown_bytes += row["unknown_bytes"] or 0
        if self.latest is None or row["interval_end"] >= self.latest:
            # Moves are made once, not once per interval.
            self.latest = row["interval_end"]
            self.moves = row["moves"] or 0
            self.leader_moves = row["leader_moves"] or 0
            self.shared_topics = row["shared_topics"] or 0


@dataclass(frozen=True, slots=True)
class WhatIfTotals:
    """Totals per scenario, in order; topics shared with others per group; the time looked at."""

    scenarios: tuple[ScenarioTotal, ...]
    shared_topics: Mapping[GroupKey, int]
    since: datetime | None
    until: datetime | None


def what_if_totals(batches: Iterable[pa.Table]) -> WhatIfTotals:
    """Add up the what-if table (columns of :data:`rack_traffic.report.tables.WHAT_IF`)."""
    sums: dict[str, dict[GroupKey, _Sum]] = {}
    since: datetime | None = None
    until: datetime | None = None
    for rows in batches:
        for row in rows.to_pylist():
            group = _group(row)
            sums.setdefault(row["scenario"] or "", {}).setdefault(group, _Sum()).add(row)
            start, end = row["interval_start"], row["interval_end"]
            since = start if since is None or start < since else since
            until = end if until is None or end > until else until
    as_is = sums.get(AS_IS, {})
    named = [name for name in SCENARIO_ORDER if name in sums]
    named += sorted(set(sums) - set(SCENARIO_ORDER))
    return WhatIfTotals(
        tuple(_total(name, sums[name], as_is) for name in named),
        {group: each.shared_topics for group, each in as_is.items() if each.shared_topics},
        since,
        until,
    )


def _total(
    name: str, groups: Mapping[GroupKey, _Sum], as_is: Mapping[GroupKey, _Sum]
) -> ScenarioTotal:
    left = [as_is[group] for group in sorted(as_is) if group not in groups]
    everyone = [groups[group] for group in sorted(groups)] + left
    return ScenarioTotal(
        scenario=name,
        groups=len(groups),
        groups_as_is=len(left),
        cost_per_month=sum(each.cost_per_month for each in everyone),
        local_bytes=sum(each.local_bytes for each in everyone),
        crossing_bytes=sum(each.crossing_bytes for each in everyone),
        unknown_bytes=sum(each.unknown_bytes for each in everyone),
        moves=sum(each.moves for each in groups.values()),
        leader_moves=sum(each.leader_moves for each in groups.values()),
    )


@dataclass(slots=True)
class _Ranked:
    """A group's changes over its intervals so far."""

    seconds: float
    now: float
    after: float
    saving: float
    latest: Mapping[str, Any]


def changes(
    batches: Iterable[pa.Table], shared_topics: Mapping[GroupKey, int]
) -> dict[GroupKey, Change]:
    """The change per group, from the ranking (:data:`rack_traffic.report.tables.RANKING`)."""
    found: dict[GroupKey, _Ranked] = {}
    for rows in batches:
        for row in rows.to_pylist():
            key, seconds = _group(row), _seconds(row)
            each = found.setdefault(key, _Ranked(0.0, 0.0, 0.0, 0.0, row))
            each.seconds += seconds
            each.now += seconds * (row["cost_per_month_now"] or 0.0)
            each.after += seconds * (row["cost_per_month_after"] or 0.0)
            each.saving += seconds * (row["saving_per_month"] or 0.0)
            if row["interval_end"] > each.latest["interval_end"]:
                each.latest = row
    return {
        key: Change(
            cost_per_month_now=each.now / each.seconds,
            cost_per_month_after=each.after / each.seconds,
            saving_per_month=each.saving / each.seconds,
            locality_now=each.latest["locality_now"],
            locality_after=each.latest["locality_after"],
            scenario=each.latest["scenario"] or "",
            text=each.latest["change"] or "",
            shared_topics=shared_topics.get(key, 0),
        )
        for key, each in found.items()
    }


def _group(row: Mapping[str, Any]) -> GroupKey:
    return row["cluster"] or "", row["group"] or ""


def _seconds(row: Mapping[str, Any]) -> float:
    """Of the interval; an instant weighs next to nothing, and more than nothing."""
    length: float = (row["interval_end"] - row["interval_start"]).total_seconds()
    return max(length, 1e-6)
