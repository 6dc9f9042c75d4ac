"""Sums of the pipeline's tables: one pass over each, in bounded memory, to a :class:`Summary`.

The hourly table may have more rows than fit in memory; :class:`RunningSums` keeps one row per key.
The what-if tables have a row per group, scenario and interval. Over several intervals, the cost per
month of a group is the mean of the intervals, weighted by the time that snapshots cover; its
recommended change and its moves are those of the latest interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rack_traffic.output_tables import HOURS_PER_MONTH, SCENARIOS
from rack_traffic.report.model import (
    MIN_HOURS_TO_EXTRAPOLATE,
    Change,
    ClusterHours,
    GroupTotal,
    HourTotal,
    PairTotal,
    RejectedRows,
    ScenarioTotal,
    Summary,
    Traffic,
)

_ROWS_TO_COMPACT = 500_000


class RunningSums:
    """Sums of columns by key columns, computed batch by batch.

    Null is a key like others; a null value is not added. The same batches in the same order give
    exactly the same sums. Memory grows with the number of keys, not of rows.
    """

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = list(keys)
        self._values = list(values)
        self._parts: list[pa.Table] = []
        self._rows = 0
        self._rows_after_compaction = 0

    def add(self, rows: pa.Table) -> None:
        """Add the key and value columns of ``rows``."""
        part = self._sum(rows)
        self._parts.append(part)
        self._rows += part.num_rows
        # The limit doubles with the number of keys, so that the work stays linear in the rows.
        if self._rows > max(_ROWS_TO_COMPACT, 2 * self._rows_after_compaction):
            self._compact()

    def result(self) -> list[dict[str, object]]:
        """Return a row per key: column name to key or sum."""
        if not self._parts:
            return []
        self._compact()
        rows: list[dict[str, object]] = self._parts[0].to_pylist()
        return rows

    def _compact(self) -> None:
        table = self._sum(pa.concat_tables(self._parts))
        self._parts = [table]
        self._rows = self._rows_after_compaction = table.num_rows

    def _sum(self, rows: pa.Table) -> pa.Table:
        summed = rows.group_by(self._keys, use_threads=False).aggregate(
            [(value, "sum") for value in self._values]
        )
        named = [f"{value}_sum" for value in self._values]
        return summed.select([*self._keys, *named]).rename_columns([*self._keys, *self._values])


AS_IS = "as_is"

GroupKey = tuple[str, str]
"""Cluster and group."""


@dataclass(slots=True)
class _ScenarioSum:
    """A group under a scenario, over the intervals added so far."""

    seconds: float = 0.0
    weighed_cost: float = 0.0
    local_bytes: int = 0
    crossing_bytes: int = 0
    unknown_bytes: int = 0
    moves: int = 0
    leader_moves: int = 0
    shared_topics: int = 0
    layout_group: str = ""
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
            # Partitions move once, not in every interval.
            self.latest = row["interval_end"]
            self.moves = row["moves"] or 0
            self.leader_moves = row["leader_moves"] or 0
            self.shared_topics = row["shared_topics"] or 0
            self.layout_group = row["layout_group"] or ""


@dataclass(frozen=True, slots=True)
class WhatIfTotals:
    """Totals per scenario, the number of shared topics and the layout group per group, and the
    time covered."""

    scenarios: tuple[ScenarioTotal, ...]
    layouts: Mapping[GroupKey, tuple[int, str]]
    since: datetime | None
    until: datetime | None


def sum_what_if(batches: Iterable[pa.Table]) -> WhatIfTotals:
    """Return the totals of the table WHAT_IF."""
    sums: dict[str, dict[GroupKey, _ScenarioSum]] = {}
    since: datetime | None = None
    until: datetime | None = None
    for rows in batches:
        for row in rows.to_pylist():
            group = _group_key(row)
            sums.setdefault(row["scenario"] or "", {}).setdefault(group, _ScenarioSum()).add(row)
            start, end = row["interval_start"], row["interval_end"]
            since = start if since is None or start < since else since
            until = end if until is None or end > until else until
    as_is = sums.get(AS_IS, {})
    scenarios = [name for name in SCENARIOS if name in sums]
    scenarios += sorted(set(sums) - set(SCENARIOS))
    return WhatIfTotals(
        tuple(_scenario_total(name, sums[name], as_is) for name in scenarios),
        {group: (each.shared_topics, each.layout_group) for group, each in as_is.items()},
        since,
        until,
    )


def _scenario_total(
    name: str, groups: Mapping[GroupKey, _ScenarioSum], as_is: Mapping[GroupKey, _ScenarioSum]
) -> ScenarioTotal:
    """Return the total of a scenario; a group without it counts with its current cost."""
    unchanged = [as_is[group] for group in sorted(as_is) if group not in groups]
    all_groups = [groups[group] for group in sorted(groups)] + unchanged
    return ScenarioTotal(
        scenario=name,
        groups=len(groups),
        groups_as_is=len(unchanged),
        cost_per_month=sum(each.cost_per_month for each in all_groups),
        local_bytes=sum(each.local_bytes for each in all_groups),
        crossing_bytes=sum(each.crossing_bytes for each in all_groups),
        unknown_bytes=sum(each.unknown_bytes for each in all_groups),
        moves=sum(each.moves for each in groups.values()),
        leader_moves=sum(each.leader_moves for each in groups.values()),
    )


@dataclass(slots=True)
class _RankingSum:
    """A group in the ranking, over the intervals added so far."""

    seconds: float
    now: float
    after: float
    saving: float
    latest: Mapping[str, Any]


def recommended_changes(
    batches: Iterable[pa.Table], layouts: Mapping[GroupKey, tuple[int, str]]
) -> dict[GroupKey, Change]:
    """Return the recommended change of each group in the table RANKING; ``layouts`` are those of
    :class:`WhatIfTotals`."""
    sums: dict[GroupKey, _RankingSum] = {}
    for rows in batches:
        for row in rows.to_pylist():
            key, seconds = _group_key(row), _seconds(row)
            each = sums.setdefault(key, _RankingSum(0.0, 0.0, 0.0, 0.0, row))
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
            shared_topics=layouts.get(key, (0, ""))[0],
            hours=each.seconds / 3600,
            layout_group=layouts.get(key, (0, ""))[1],
        )
        for key, each in sums.items()
    }


def _group_key(row: Mapping[str, Any]) -> GroupKey:
    return row["cluster"] or "", row["group"] or ""


def _seconds(row: Mapping[str, Any]) -> float:
    """Return the covered time of the interval, at least a microsecond, so that no sum is 0."""
    return max((row["hours"] or 0.0) * 3600, 1e-6)


_VALUES = ("bytes", "estimated_bytes", "unsized_offsets", "cost")
_LOCAL, _CROSSING, _UNKNOWN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HourlySums:
    """Sums of the hourly table by pair of racks, by hour, and by group."""

    pairs: tuple[PairTotal, ...] = ()
    hours: tuple[HourTotal, ...] = ()
    groups: dict[GroupKey, Traffic] = field(default_factory=dict)


def sum_hourly(batches: Iterable[pa.Table]) -> HourlySums:
    """Return the sums of the table HOURLY."""
    pairs = RunningSums(("cluster", "kind", "from_rack", "to_rack", "class"), _VALUES)
    hours = RunningSums(("cluster", "kind", "hour", "class"), _VALUES)
    groups = RunningSums(("cluster", "group", "class"), _VALUES)
    for batch in batches:
        rows = batch.append_column("class", _traffic_class(batch["crossed_level"]))
        pairs.add(rows)
        hours.add(rows)
        groups.add(rows.filter(pc.equal(rows["kind"], "consume")))
    return HourlySums(
        tuple(
            PairTotal(cluster, kind, one, other, traffic)
            for (cluster, kind, one, other), traffic in _by_key(
                pairs, "cluster", "kind", "from_rack", "to_rack"
            ).items()
        ),
        tuple(
            HourTotal(cluster, kind, hour, traffic)
            for (cluster, kind, hour), traffic in _by_key(hours, "cluster", "kind", "hour").items()
        ),
        {(key[0], key[1]): traffic for key, traffic in _by_key(groups, "cluster", "group").items()},
    )


def count_rejected_rows(batches: Iterable[pa.Table]) -> tuple[RejectedRows, ...]:
    """Return the number of rejected rows by table and reason, largest first."""
    counts: dict[tuple[str, str], int] = {}
    for batch in batches:
        sums = batch.group_by(["table", "reason"], use_threads=False).aggregate([([], "count_all")])
        for row in sums.to_pylist():
            key = row["table"] or "", row["reason"] or ""
            counts[key] = counts.get(key, 0) + row["count_all"]
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(RejectedRows(table, reason, rows) for (table, reason), rows in ranked)


def summarize(
    hourly: HourlySums,
    what_if: WhatIfTotals | None = None,
    changes: dict[GroupKey, Change] | None = None,
    rejected_rows: tuple[RejectedRows, ...] | None = None,
) -> Summary:
    """Return the summary. Without ``what_if`` it has no scenarios, without ``changes`` no changes.

    A group that has a change but read nothing in the period has no traffic.
    """
    clusters = _cluster_hours(hourly.hours)
    hours_of = {each.cluster: each.hours for each in clusters}
    changes = changes or {}
    groups = [
        _group_total(
            key, hourly.groups.get(key, Traffic()), changes.get(key), hours_of.get(key[0], 0)
        )
        for key in sorted(set(hourly.groups) | set(changes))
    ]
    groups.sort(key=_group_order)
    return Summary(
        clusters=clusters,
        pairs=tuple(sorted(hourly.pairs, key=_pair_order)),
        hours=tuple(sorted(hourly.hours, key=lambda each: (each.cluster, each.kind, each.hour))),
        groups=tuple(groups),
        scenarios=what_if.scenarios if what_if else (),
        rejected_rows=rejected_rows,
        what_if_since=what_if.since if what_if else None,
        what_if_until=what_if.until if what_if else None,
    )


def _group_total(key: GroupKey, traffic: Traffic, change: Change | None, hours: int) -> GroupTotal:
    per_month: float | None = None
    if change is not None:
        per_month = change.cost_per_month_now
    elif hours >= MIN_HOURS_TO_EXTRAPOLATE or traffic.cost == 0:
        per_month = traffic.cost * HOURS_PER_MONTH / hours if hours else 0.0
    return GroupTotal(*key, traffic, per_month, change)


def _group_order(each: GroupTotal) -> tuple[float, float, float, int, str, str]:
    saving = each.change.saving_per_month if each.change else 0.0
    monthly = each.cost_per_month or 0.0
    read = each.traffic
    return -saving, -monthly, -read.cost, -read.bytes, each.cluster, each.group


def _cluster_hours(hours: tuple[HourTotal, ...]) -> tuple[ClusterHours, ...]:
    seen: dict[str, set[datetime]] = {}
    for each in hours:
        seen.setdefault(each.cluster, set()).add(each.hour)
    return tuple(
        ClusterHours(name, len(hours), min(hours), max(hours))
        for name, hours in sorted(seen.items())
    )


def _traffic_class(level: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return _LOCAL, _CROSSING or _UNKNOWN for each ``crossed_level``."""
    known = pc.if_else(
        pc.equal(level, 0), pa.scalar(_LOCAL, pa.int8()), pa.scalar(_CROSSING, pa.int8())
    )
    return pc.if_else(pc.is_null(level), pa.scalar(_UNKNOWN, pa.int8()), known)


def _by_key(sums: RunningSums, *keys: str) -> dict[tuple[Any, ...], Traffic]:
    traffic: dict[tuple[Any, ...], Traffic] = {}
    for row in sums.result():
        key = tuple(_key_value(name, row[name]) for name in keys)
        traffic[key] = traffic.get(key, Traffic()) + _traffic(row)
    return traffic


def _key_value(name: str, value: Any) -> Any:
    """Return None for an unknown rack, null or empty; an empty string for other nulls."""
    return value or None if name.endswith("_rack") else "" if value is None else value


def _traffic(row: dict[str, Any]) -> Traffic:
    traffic_class, size = row["class"], row["bytes"] or 0
    return Traffic(
        local_bytes=size if traffic_class == _LOCAL else 0,
        crossing_bytes=size if traffic_class == _CROSSING else 0,
        unknown_bytes=size if traffic_class == _UNKNOWN else 0,
        estimated_bytes=row["estimated_bytes"] or 0,
        unsized_offsets=row["unsized_offsets"] or 0,
        cost=row["cost"] or 0.0,
    )


def _pair_order(each: PairTotal) -> tuple[str, str, bool, str, bool, str]:
    one, other = each.from_rack, each.to_rack
    return each.cluster, each.kind, one is None, one or "", other is None, other or ""
