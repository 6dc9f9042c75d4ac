"""Export of a summary as JSON, and as small Parquet tables.

``JSON_FORMAT`` documents the JSON in the help of the command. The tables have the same content, for
notebooks and dashboards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rack_traffic.atomic_write import write_atomically
from rack_traffic.errors import OutputError
from rack_traffic.output_tables import KINDS
from rack_traffic.report.findings import Finding, reliability_of
from rack_traffic.report.format import Currency
from rack_traffic.report.headline import headline, planned_changes
from rack_traffic.report.model import Change, GroupTotal, Summary, Traffic

JSON_FORMAT = """\
{"schema_version": 1, "command": "traffic report",
 "period": {"since", "until"}, "headline",
 "changes": [{"cluster", "groups": [...], "scenario", "text",
              "saving_per_month"}],
 "clusters": [{"cluster", "hours", "first", "last"}],
 "totals": {kind: TRAFFIC}, "cost_per_month_now", "saving_per_month",
 "findings": [{"priority": act|check|info, "subject": traffic|changes|data,
               "headline", "detail", "reliability", "saving_per_month"}],
 "pairs": [{"cluster", "kind", "from_rack", "to_rack", ...TRAFFIC}],
 "hours": [{"cluster", "kind", "hour", ...TRAFFIC}],
 "groups": [{"cluster", "group", ...TRAFFIC, "reliability", "cost_per_month",
             "change": null or {"scenario", "text", "cost_per_month_now",
               "cost_per_month_after", "saving_per_month", "locality_now",
               "locality_after", "shared_topics", "hours"}}],
 "scenarios": [{"scenario", "groups", "groups_as_is", "cost_per_month",
                "local_bytes", "crossing_bytes", "unknown_bytes", "moves",
                "leader_moves"}],
 "what_if": {"since", "until"},
 "rejected_rows": null or [{"table", "reason", "rows"}]}
TRAFFIC is "local_bytes", "crossing_bytes", "unknown_bytes",
 "estimated_bytes", "unsized_offsets", "cost".
kind is consume, replicate or produce. Unknown racks are null.
Times are UTC; "first" and "last" are the beginnings of hours, "until" is
the end of one."""

_COST_DIGITS = 6


def summary_json(
    summary: Summary, findings: tuple[Finding, ...], currency: Currency
) -> dict[str, Any]:
    """Return the values of the JSON document; costs are rounded to six digits."""
    first = min((each.first for each in summary.clusters), default=None)
    until = max((each.last + timedelta(hours=1) for each in summary.clusters), default=None)
    return {
        "period": {"since": _time(first), "until": _time(until)},
        "headline": headline(summary, currency).sentence,
        "changes": [
            {
                "cluster": each.cluster,
                "groups": list(each.groups),
                "scenario": each.scenario,
                "text": each.text,
                "saving_per_month": _cost(each.saving_per_month),
            }
            for each in planned_changes(summary.groups)
        ],
        "clusters": [
            {
                "cluster": each.cluster,
                "hours": each.hours,
                "first": _time(each.first),
                "last": _time(each.last),
            }
            for each in summary.clusters
        ],
        "totals": {kind: _traffic(summary.of_kind(kind)) for kind in KINDS},
        "cost_per_month_now": _cost(summary.cost_per_month_now),
        "saving_per_month": _cost(summary.saving_per_month),
        "findings": [
            {
                "priority": each.priority,
                "subject": each.subject,
                "headline": each.headline,
                "detail": each.detail,
                "reliability": each.reliability,
                "saving_per_month": _cost(each.saving_per_month),
            }
            for each in findings
        ],
        "pairs": [
            {
                "cluster": each.cluster,
                "kind": each.kind,
                "from_rack": each.from_rack,
                "to_rack": each.to_rack,
                **_traffic(each.traffic),
            }
            for each in summary.pairs
        ],
        "hours": [
            {
                "cluster": each.cluster,
                "kind": each.kind,
                "hour": _time(each.hour),
                **_traffic(each.traffic),
            }
            for each in summary.hours
        ],
        "groups": [_group(each) for each in summary.groups],
        "scenarios": [
            {
                "scenario": each.scenario,
                "groups": each.groups,
                "groups_as_is": each.groups_as_is,
                "cost_per_month": _cost(each.cost_per_month),
                "local_bytes": each.local_bytes,
                "crossing_bytes": each.crossing_bytes,
                "unknown_bytes": each.unknown_bytes,
                "moves": each.moves,
                "leader_moves": each.leader_moves,
            }
            for each in summary.scenarios
        ],
        "what_if": {"since": _time(summary.what_if_since), "until": _time(summary.what_if_until)},
        "rejected_rows": None
        if summary.rejected_rows is None
        else [
            {"table": each.table, "reason": each.reason, "rows": each.rows}
            for each in summary.rejected_rows
        ],
    }


def _group(each: GroupTotal) -> dict[str, Any]:
    return {
        "cluster": each.cluster,
        "group": each.group,
        **_traffic(each.traffic),
        "reliability": reliability_of(each.traffic).level,
        "cost_per_month": _cost(each.cost_per_month),
        "change": None if each.change is None else _change(each.change),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "scenario": change.scenario,
        "text": change.text,
        "cost_per_month_now": _cost(change.cost_per_month_now),
        "cost_per_month_after": _cost(change.cost_per_month_after),
        "saving_per_month": _cost(change.saving_per_month),
        "locality_now": change.locality_now,
        "locality_after": change.locality_after,
        "shared_topics": change.shared_topics,
        "hours": round(change.hours, 3),
    }


def _traffic(traffic: Traffic) -> dict[str, Any]:
    return {
        "local_bytes": traffic.local_bytes,
        "crossing_bytes": traffic.crossing_bytes,
        "unknown_bytes": traffic.unknown_bytes,
        "estimated_bytes": traffic.estimated_bytes,
        "unsized_offsets": traffic.unsized_offsets,
        "cost": _cost(traffic.cost),
    }


def _cost(amount: float | None) -> float | None:
    return None if amount is None else round(amount, _COST_DIGITS)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


_TEXT, _LONG, _REAL = pa.string(), pa.int64(), pa.float64()
_TIME = pa.timestamp("us", tz="UTC")
_TRAFFIC = {
    "local_bytes": _LONG,
    "crossing_bytes": _LONG,
    "unknown_bytes": _LONG,
    "estimated_bytes": _LONG,
    "unsized_offsets": _LONG,
    "cost": _REAL,
}
_CHANGE = {
    "scenario": _TEXT,
    "text": _TEXT,
    "cost_per_month_now": _REAL,
    "cost_per_month_after": _REAL,
    "saving_per_month": _REAL,
    "locality_now": _REAL,
    "locality_after": _REAL,
    "shared_topics": _LONG,
    "hours": _REAL,
}
SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    "clusters": {"cluster": _TEXT, "hours": _LONG, "first": _TIME, "last": _TIME},
    "pairs": {"cluster": _TEXT, "kind": _TEXT, "from_rack": _TEXT, "to_rack": _TEXT, **_TRAFFIC},
    "hours": {"cluster": _TEXT, "kind": _TEXT, "hour": _TIME, **_TRAFFIC},
    "groups": {
        "cluster": _TEXT,
        "group": _TEXT,
        **_TRAFFIC,
        "reliability": _TEXT,
        "cost_per_month": _REAL,
        **_CHANGE,
    },
    "scenarios": {
        "scenario": _TEXT,
        "groups": _LONG,
        "groups_as_is": _LONG,
        "cost_per_month": _REAL,
        "local_bytes": _LONG,
        "crossing_bytes": _LONG,
        "unknown_bytes": _LONG,
        "moves": _LONG,
        "leader_moves": _LONG,
    },
    "rejected_rows": {"table": _TEXT, "reason": _TEXT, "rows": _LONG},
    "findings": {
        "priority": _TEXT,
        "subject": _TEXT,
        "headline": _TEXT,
        "detail": _TEXT,
        "reliability": _TEXT,
        "saving_per_month": _REAL,
    },
}
"""Table name to columns. ``groups`` includes the columns of a change, null if there is none."""


def summary_tables(data: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Return the tables of :data:`SCHEMAS` from the result of :func:`summary_json`."""
    tables = {}
    for name, columns in SCHEMAS.items():
        rows = [{**row, **(row.get("change") or {})} for row in data[name] or ()]
        schema = pa.schema(list(columns.items()))
        tables[name] = pa.table([_column(rows, *each) for each in columns.items()], schema=schema)
    return tables


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write each table atomically to ``folder/NAME.parquet``. Raise OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            with write_atomically(folder / f"{name}.parquet") as file:
                pq.write_table(table, file)
    except OSError as error:
        raise OutputError(f"cannot write tables to {folder}: {error.strerror or error}") from error


def _column(rows: Sequence[Mapping[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    values = [row.get(name) for row in rows]
    if kind == _TIME:
        values = [None if each is None else datetime.fromisoformat(each) for each in values]
    return pa.array(values, kind)
