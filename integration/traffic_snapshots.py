"""A world's snapshots as a collector leaves them, and the tables that a run makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rack_traffic.arrow_schemas import arrow_schema

Rows = dict[str, list[dict[str, Any]]]

BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that is gone before it would have compiled well what it runs."""

BRIEF = ("--conf", f"spark.driver.extraJavaOptions={BRIEF_JAVA}")


def write_snapshots(root: Path, rows: Rows) -> None:
    """``root/<table>/date=.../part.parquet``."""
    for table, given in rows.items():
        schema = arrow_schema(table)
        full: list[dict[str, Any]] = [
            {name: row.get(name) for name in schema.names} for row in given
        ]
        for date in sorted({row["taken_at"].astimezone(UTC).date() for row in given}):
            folder = root / table / f"date={date}"
            folder.mkdir(parents=True)
            mine = [row for row in full if row["taken_at"].astimezone(UTC).date() == date]
            pq.write_table(pa.Table.from_pylist(mine, schema), folder / "part.parquet")


def messages(rows: Rows, at_once: int) -> list[bytes]:
    """The same as messages in order of time, with up to so many snapshots of a table in one."""
    times = sorted({row["taken_at"] for table in rows.values() for row in table})
    found = []
    for start in range(0, len(times), at_once):
        wanted = set(times[start : start + at_once])
        for table, given in rows.items():
            mine = [row for row in given if row["taken_at"] in wanted]
            told = {"table": table, "rows": mine}
            found.append(json.dumps(told, default=lambda time: time.isoformat()).encode())
    return found


def table_rows(folder: Path, columns: list[str], until: datetime | None = None) -> list[str]:
    """The rows of a table, in one order, every digit shown; those of hours before ``until``."""
    read = ds.dataset(folder, format="parquet").to_table(columns).to_pylist()
    wanted = read if until is None else [row for row in read if _utc(row["hour"]) < until]
    return sorted(repr(row) for row in wanted)


def _utc(at: datetime) -> datetime:
    """Spark's files say no zone where they mean UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def count_rows(folder: Path) -> int:
    """How many rows a table has."""
    return int(ds.dataset(folder, format="parquet").count_rows())
