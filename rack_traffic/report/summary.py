"""From the pipeline's tables to a :class:`Summary`, in one pass and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
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
    SetAside,
    Summary,
    Traffic,
)
from rack_traffic.report.running_sums import RunningSums
from rack_traffic.report.what_if_totals import GroupKey, WhatIfTotals

_VALUES = ("bytes", "estimated_bytes", "reported_bytes", "unsized_offsets", "cost")
_LOCAL, _CROSSING, _UNKNOWN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HourlySums:
    """The hourly table, added up three ways."""

    pairs: tuple[PairTotal, ...] = ()
    hours: tuple[HourTotal, ...] = ()
    groups: dict[GroupKey, Traffic] = field(default_factory=dict)


def hourly_sums(batches: Iterable[pa.Table]) -> HourlySums:
    """Add up the hourly table (columns of :data:`rack_traffic.report.tables.HOURLY`)."""
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
