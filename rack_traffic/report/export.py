"""Export of a summary as JSON, and as small Parquet tables.

docs/reference/json.md documents the JSON. The tables have the same content, for notebooks and
dashboards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from rack_traffic.atomic_write import write_atomically
from rack_traffic.errors import OutputError
from rack_traffic.prices import KINDS
from rack_traffic.report.bill import team_cents
from rack_traffic.report.findings import Finding, headline, planned_changes, reliability_of
from rack_traffic.report.format import Currency
from rack_traffic.report.model import (
    Change,
    ClusterHours,
    FlowClient,
    FlowPair,
    GroupTotal,
    HourTotal,
    MisplacedMember,
    PairTotal,
    RejectedRows,
    ScenarioTotal,
    Summary,
    Traffic,
)

_COST_DIGITS = 6
_HOUR_DIGITS = 3


def summary_json(
    summary: Summary, findings: tuple[Finding, ...], currency: Currency
) -> dict[str, Any]:
    """Return the values of the JSON document, times as datetimes; costs are rounded to six
    digits."""
    first = min((each.first for each in summary.clusters), default=None)
    until = max((each.last + timedelta(hours=1) for each in summary.clusters), default=None)
    rejected, flows = summary.rejected_rows, summary.flows
    return {
        "period": {"since": first, "until": until},
        "headline": headline(summary, currency).sentence,
        "changes": _rows(planned_changes(summary.parts)),
        "clusters": _rows(summary.clusters),
        "totals": {kind: _row(summary.of_kind(kind)) for kind in KINDS},
        "cost_per_month_now": _value("cost_per_month_now", summary.cost_per_month_now),
        "saving_per_month": _value("saving_per_month", summary.saving_per_month),
        "findings": _rows(findings),
        "pairs": _rows(summary.pairs),
        "hours": _rows(summary.hours),
        "bill": [
            {"team": team, **{kind: cents / 100 for kind, cents in kinds.items()}}
            for team, kinds in team_cents(summary.bill).items()
        ],
        "groups": [_group(each) for each in summary.groups],
        "others": [_group(each) for each in summary.others],
        "scenarios": _rows(summary.scenarios),
        "what_if": {"since": summary.what_if_since, "until": summary.what_if_until},
        "rejected_rows": None if rejected is None else _rows(rejected),
        "flow_pairs": None if flows is None else _rows(flows.pairs),
        "flow_clients": None if flows is None else _rows(flows.clients),
        "misplaced_members": None if flows is None else _rows(flows.misplaced),
    }


def _group(each: GroupTotal) -> dict[str, Any]:
    change = None
    if each.change is not None:
        values = _row(each.change)
        change = {name: values[name] for name in _CHANGE}
    reliability = reliability_of(each.traffic).level
    return {**_row(each), "reliability": reliability, "change": change}


def _rows(values: Sequence[Any]) -> list[dict[str, Any]]:
    return [_row(value) for value in values]


def _row(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass; those of its traffic are among its own."""
    row: dict[str, Any] = {}
    for field in fields(value):
        item = getattr(value, field.name)
        row |= _row(item) if isinstance(item, Traffic) else {field.name: _value(field.name, item)}
    return row


def _value(name: str, value: Any) -> Any:
    if isinstance(value, float) and ("cost" in name or "saving" in name):
        return round(value, _COST_DIGITS)
    if isinstance(value, float) and name == "hours":
        return round(value, _HOUR_DIGITS)
    return value


# ---- Tables.

_TYPES = {int: pa.int64(), float: pa.float64(), datetime: pa.timestamp("us", tz="UTC")}


def _columns(shape: type, *names: str) -> dict[str, pa.DataType]:
    """Return the columns for the fields of a dataclass, or for those with ``names``."""
    columns: dict[str, pa.DataType] = {}
    for name, hint in get_type_hints(shape).items():
        if hint is Traffic:
            columns |= _columns(Traffic)
        else:
            known = [_TYPES[kind] for kind in _TYPES if hint in (kind, kind | None)]
            columns[name] = known[0] if known else pa.string()
    return {name: columns[name] for name in names or columns}


_CHANGE = (
    *("scenario", "text", "cost_per_month_now", "cost_per_month_after", "saving_per_month"),
    *("locality_now", "locality_after", "shared_topics", "hours"),
)
SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    "clusters": _columns(ClusterHours),
    "pairs": _columns(PairTotal),
    "hours": _columns(HourTotal),
    "groups": {
        **{"cluster": pa.string(), "group": pa.string(), **_columns(Traffic)},
        **{"reliability": pa.string(), "cost_per_month": pa.float64()},
        **_columns(Change, *_CHANGE),
    },
    "scenarios": _columns(ScenarioTotal),
    "rejected_rows": _columns(RejectedRows),
    "findings": _columns(Finding),
    "flow_pairs": _columns(FlowPair),
    "flow_clients": _columns(FlowClient),
    "misplaced_members": _columns(MisplacedMember),
}
"""Table name to columns. ``groups`` includes the columns of a change, null if there is none."""


def summary_tables(data: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Return the tables of :data:`SCHEMAS` from the result of :func:`summary_json`."""
    tables = {}
    for name, columns in SCHEMAS.items():
        rows = [{**row, **(row.get("change") or {})} for row in data[name] or ()]
        tables[name] = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
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
