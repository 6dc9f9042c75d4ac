"""A summary as small Parquet tables, for notebooks and dashboards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rack_traffic.report.errors import ReportOutputError

_TEXT, _LONG, _REAL = pa.string(), pa.int64(), pa.float64()
_TIME = pa.timestamp("us", tz="UTC")
_TRAFFIC = {
    "local_bytes": _LONG,
    "crossing_bytes": _LONG,
    "unknown_bytes": _LONG,
    "estimated_bytes": _LONG,
    "reported_bytes": _LONG,
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
}
SCHEMAS: Mapping[str, Mapping[str, pa.DataType]] = {
    "clusters": {"cluster": _TEXT, "hours": _LONG, "first": _TIME, "last": _TIME},
    "pairs": {"cluster": _TEXT, "kind": _TEXT, "from_rack": _TEXT, "to_rack": _TEXT, **_TRAFFIC},
    "hours": {"cluster": _TEXT, "kind": _TEXT, "hour": _TIME, **_TRAFFIC},
    "groups": {
        "cluster": _TEXT,
        "group": _TEXT,
        **_TRAFFIC,
        "sure": _TEXT,
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
    "set_aside": {"table": _TEXT, "reason": _TEXT, "rows": _LONG},
    "findings": {
        "weight": _TEXT,
        "headline": _TEXT,
        "detail": _TEXT,
        "sure": _TEXT,
        "saving_per_month": _REAL,
    },
}
"""Table to columns. ``groups`` has a change's columns beside its own, null where there is none."""


def summary_tables(shape: Mapping[str, Any]) -> dict[str, pa.Table]:
    """The tables of :data:`SCHEMAS` from what :func:`~.json_shape.summary_json` returns."""
    tables = {}
    for name, columns in SCHEMAS.items():
        rows = [{**row, **(row.get("change") or {})} for row in shape[name] or ()]
        schema = pa.schema(list(columns.items()))
        tables[name] = pa.table([_column(rows, *each) for each in columns.items()], schema=schema)
    return tables


def write_tables(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write each table to ``folder/NAME.parquet``, whole or not at all.

    Raises ReportOutputError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            unfinished = folder / f".{name}.parquet.{os.getpid()}"
            try:
                pq.write_table(table, unfinished)
                unfinished.replace(folder / f"{name}.parquet")
            finally:
                unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise ReportOutputError(
            f"cannot write tables to {folder}: {error.strerror or error}"
        ) from error


def _column(rows: Sequence[Mapping[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    values = [row.get(name) for row in rows]
    if kind == _TIME:
        values = [None if each is None else datetime.fromisoformat(each) for each in values]
    return pa.array(values, kind)
