"""From the pipeline's tables to a :class:`Summary`, in one pass and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rack_traffic.report.model import (
    HOURS_PER_MONTH,
    HOURS_TO_EXTRAPOLATE,
    Change,
    ClusterHours,
    GroupTotal,
    HourTotal,
    PairTotal,
    ScenarioTotal,
    SetAside,
    Summary,
    Traffic,
)

# ---- Sums by key over more rows than fit into memory: what is kept grows with the keys alone.

_ROWS_TO_COMPACT = 500_000


class RunningSums:
    """Sums of columns by key columns, fed a batch at a time.

    A null key is a key of its own and a null value adds nothing. Batches in the same order give the
    same sums to the last digit.
    """

    def __init__(self, keys: Sequence[str], values: Sequence[str]) -> None:
        self._keys = list(keys)
        self._values = list(values)
        self._parts: list[pa.Table] = []
        self._waiting = 0
        self._compacted = 0

    def add(self, rows: pa.Table) -> None:
        """Add ``rows``, which have the key and value columns among others."""
        part = self._sum(rows)
        self._parts.append(part)
        self._waiting += part.num_rows
        # Doubling keeps the work in proportion to the rows where nearly all keys differ.
        if self._waiting > max(_ROWS_TO_COMPACT, 2 * self._compacted):
            self._compact()

    def result(self) -> list[dict[str, object]]:
        """A row per key, with the keys and the sums under their columns' names."""
        if not self._parts:
            return []
        self._compact()
        rows: list[dict[str, object]] = self._parts[0].to_pylist()
        return rows

    def _compact(self) -> None:
        table = self._sum(pa.concat_tables(self._parts))
        self._parts = [table]
        self._waiting = self._compacted = table.num_rows

    def _sum(self, rows: pa.Table) -> pa.Table:
        summed = rows.group_by(self._keys, use_threads=False).aggregate(
            [(value, "sum") for value in self._values]
        )
        named = [f"{value}_sum" for value in self._values]
        return summed.select([*self._keys, *named]).rename_columns([*self._keys, *self._values])


# ---- What the what-if tables say of each group and of all: weighed by the lengths of intervals.
#
# A group may have been looked at over several intervals. Its cost per month is then the mean over
# them, each weighed by its length, and the change to make is that of the latest.

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
    """Add up the what-if table (columns of :data:`rack_traffic.report.load.WHAT_IF`)."""
    sums: dict[str, dict[GroupKey, _Sum]] = {}
    since: datetime | None = None
    until: datetime | None = None
    for rows in batches:
        for row in rows.to_pylist():
            group = _what_if_group(row)
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
    """The change per group, from the ranking (:data:`rack_traffic.report.load.RANKING`)."""
    found: dict[GroupKey, _Ranked] = {}
    for rows in batches:
        for row in rows.to_pylist():
            key, seconds = _what_if_group(row), _seconds(row)
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


def _what_if_group(row: Mapping[str, Any]) -> GroupKey:
    return row["cluster"] or "", row["group"] or ""


def _seconds(row: Mapping[str, Any]) -> float:
    """Of the interval; an instant weighs next to nothing, and more than nothing."""
    length: float = (row["interval_end"] - row["interval_start"]).total_seconds()
    return max(length, 1e-6)


_VALUES = ("bytes", "estimated_bytes", "reported_bytes", "unsized_offsets", "cost")
_LOCAL, _CROSSING, _UNKNOWN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HourlySums:
    """The hourly table, added up three ways."""

    pairs: tuple[PairTotal, ...] = ()
    hours: tuple[HourTotal, ...] = ()
    groups: dict[GroupKey, Traffic] = field(default_factory=dict)


def hourly_sums(batches: Iterable[pa.Table]) -> HourlySums:
    """Add up the hourly table (columns of :data:`rack_traffic.report.load.HOURLY`)."""
    pairs = RunningSums(("cluster", "kind", "from_rack", "to_rack", "where"), _VALUES)
    hours = RunningSums(("cluster", "kind", "hour", "where"), _VALUES)
    groups = RunningSums(("cluster", "group", "where"), _VALUES)
    for batch in batches:
        rows = batch.append_column("where", _where(batch["crossed_level"]))
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


def set_aside_counts(batches: Iterable[pa.Table]) -> tuple[SetAside, ...]:
    """Rows set aside, by table and reason, most first."""
    counts: dict[tuple[str, str], int] = {}
    for batch in batches:
        counted = batch.group_by(["table", "reason"], use_threads=False).aggregate(
            [([], "count_all")]
        )
        for row in counted.to_pylist():
            key = row["table"] or "", row["reason"] or ""
            counts[key] = counts.get(key, 0) + row["count_all"]
    ranked = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return tuple(SetAside(table, reason, rows) for (table, reason), rows in ranked)


def summarise(
    hourly: HourlySums,
    what_if: WhatIfTotals | None = None,
    changes: dict[GroupKey, Change] | None = None,
    set_aside: tuple[SetAside, ...] | None = None,
) -> Summary:
    """Everything together. Without a what-if there are no scenarios, and without a ranking no
    changes; a group that was ranked and read nothing in the period is there with no traffic."""
    clusters = _cluster_hours(hourly.hours)
    measured = {each.cluster: each.hours for each in clusters}
    changes = changes or {}
    groups = [
        _group(key, hourly.groups.get(key, Traffic()), changes.get(key), measured.get(key[0], 0))
        for key in sorted(set(hourly.groups) | set(changes))
    ]
    groups.sort(key=_rank)
    return Summary(
        clusters=clusters,
        pairs=tuple(sorted(hourly.pairs, key=_pair_order)),
        hours=tuple(sorted(hourly.hours, key=lambda each: (each.cluster, each.kind, each.hour))),
        groups=tuple(groups),
        scenarios=what_if.scenarios if what_if else (),
        set_aside=set_aside,
        whatif_from=what_if.since if what_if else None,
        whatif_until=what_if.until if what_if else None,
    )


def _group(key: GroupKey, traffic: Traffic, change: Change | None, hours: int) -> GroupTotal:
    per_month: float | None = None
    if change is not None:
        per_month = change.cost_per_month_now
    elif hours >= HOURS_TO_EXTRAPOLATE or traffic.cost == 0:
        per_month = traffic.cost * HOURS_PER_MONTH / hours if hours else 0.0
    return GroupTotal(*key, traffic, per_month, change)


def _rank(each: GroupTotal) -> tuple[float, float, float, int, str, str]:
    saving = each.change.saving_per_month if each.change else 0.0
    monthly = each.cost_per_month or 0.0
    read = each.traffic
    return -saving, -monthly, -read.cost, -read.bytes, each.cluster, each.group


def _cluster_hours(hours: tuple[HourTotal, ...]) -> tuple[ClusterHours, ...]:
    seen: dict[str, set[datetime]] = {}
    for each in hours:
        seen.setdefault(each.cluster, set()).add(each.hour)
    return tuple(
        ClusterHours(name, len(found), min(found), max(found))
        for name, found in sorted(seen.items())
    )


def _where(level: pa.ChunkedArray) -> pa.ChunkedArray:
    """0 in one rack, 1 across racks, 2 where a rack is not known."""
    known = pc.if_else(
        pc.equal(level, 0), pa.scalar(_LOCAL, pa.int8()), pa.scalar(_CROSSING, pa.int8())
    )
    return pc.if_else(pc.is_null(level), pa.scalar(_UNKNOWN, pa.int8()), known)


def _by_key(sums: RunningSums, *keys: str) -> dict[tuple[Any, ...], Traffic]:
    found: dict[tuple[Any, ...], Traffic] = {}
    for row in sums.result():
        key = tuple(_plain(name, row[name]) for name in keys)
        found[key] = found.get(key, Traffic()) + _traffic(row)
    return found


def _plain(name: str, value: Any) -> Any:
    """Racks that are not known are None, however that was written; other names are never None."""
    return value or None if name.endswith("_rack") else "" if value is None else value


def _traffic(row: dict[str, Any]) -> Traffic:
    where, size = row["where"], row["bytes"] or 0
    return Traffic(
        local_bytes=size if where == _LOCAL else 0,
        crossing_bytes=size if where == _CROSSING else 0,
        unknown_bytes=size if where == _UNKNOWN else 0,
        estimated_bytes=row["estimated_bytes"] or 0,
        reported_bytes=row["reported_bytes"] or 0,
        unsized_offsets=row["unsized_offsets"] or 0,
        cost=row["cost"] or 0.0,
    )


def _pair_order(each: PairTotal) -> tuple[str, str, bool, str, bool, str]:
    one, other = each.from_rack, each.to_rack
    return each.cluster, each.kind, one is None, one or "", other is None, other or ""
