"""Validation of snapshot rows: which rows are rejected, and why.

A rejected row is written to the table ``rejected_rows`` with its reason; it never stops a run. A
table that lacks a column, or has one of the wrong type, is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

from rack_traffic.errors import InputError
from rack_traffic.schemas import SNAPSHOTS

REQUIRED = (
    *("cluster", "group", "state", "broker", "topic", "partition", "replicas"),
    *("start_offset", "end_offset", "committed_offset", "port", "taken_at"),
)
"""Columns that are never null, in every table that has them."""

_INVALID = {
    "cluster": {"cluster is empty": "cluster = ''"},
    # No snapshot is older than 2020. A clock that is years ahead would stretch an interval over
    # all of that time.
    "taken_at": {"taken_at is out of range": "taken_at < '2020-01-01' or taken_at >= '2200-01-01'"},
    "broker": {"broker is negative": "broker < 0"},
    "topic": {"topic is empty": "topic = ''"},
    "partition": {"partition is negative": "partition < 0"},
    "start_offset": {"start_offset is negative": "start_offset < 0"},
    "end_offset": {"end_offset is below start_offset": "end_offset < start_offset"},
    "size_bytes": {"size_bytes is negative": "size_bytes < 0"},
    "replicas": {"replicas is empty": "size(replicas) = 0"},
    "member_id": {"member_id is empty": "member_id = ''"},
    "assignment": {
        "assignment has a negative partition": (
            "exists(assignment, each -> exists(each.partitions, number -> number < 0))"
        )
    },
    "port": {"port is not in 1 to 65535": "port not between 1 and 65535"},
    "committed_offset": {"committed_offset is negative": "committed_offset < 0"},
}
"""Column to the SQL condition of invalid rows by reason, in every table that has the column."""


REASON = "_reason"
"""The column of ``ValidatedTable.marked`` with the reason."""


@dataclass(frozen=True, slots=True)
class ValidatedTable:
    """The rows of a table of snapshots, or of flow records.

    ``valid`` has the columns of the table's schema, ``rejected`` those of
    ``schemas.REJECTED_ROWS``. ``marked`` has all rows, with the reason for which a row is rejected
    in the column REASON (null for valid rows).
    """

    table: str
    valid: DataFrame
    rejected: DataFrame
    marked: DataFrame


def validate(rows: DataFrame, table: str) -> ValidatedTable:
    """Divide the rows of a snapshot table into valid and rejected ones. Raise InputError like
    :func:`cast_columns`."""
    typed = cast_columns(rows, table)
    columns = typed.columns
    conditions = {f"{name} is missing": f"`{name}` is null" for name in REQUIRED if name in columns}
    for name, invalid in _INVALID.items():
        if name in columns:
            conditions |= invalid
    marked = typed.withColumn(REASON, first_reason(conditions))
    return divide(marked, table, columns, F.struct(*columns))


def first_reason(conditions: Mapping[str, str]) -> Column:
    """Return the first reason whose condition of SQL holds, else null. A null condition is
    false."""
    none = F.lit(None).cast("string")
    return F.coalesce(none, *(F.when(F.expr(sql), F.lit(why)) for why, sql in conditions.items()))


def divide(
    marked: DataFrame, table: str, columns: Sequence[str], rejected: Column | str
) -> ValidatedTable:
    """Divide rows by the column REASON; ``rejected`` is the struct to keep of a rejected row."""
    reason = F.col(REASON)
    return ValidatedTable(
        table,
        marked.filter(reason.isNull()).select(*columns),
        marked.filter(reason.isNotNull()).select(
            F.lit(table).alias("table"), reason.alias("reason"), F.to_json(rejected).alias("row")
        ),
        marked,
    )


def cast_columns(rows: DataFrame, table: str) -> DataFrame:
    """Return ``rows`` with the columns of that snapshot table, in its types; drop other columns.

    Numbers may be narrower or wider; a number that is out of range becomes null. Raise InputError
    if a column is missing, or has another type.
    """
    schema = SNAPSHOTS[table]
    types = {each.name: each.dataType for each in rows.schema}
    if missing := [name for name in schema.names if name not in types]:
        raise InputError(f"the table {table} has no column {missing}: it needs {schema.names}")
    for each in schema:
        if not _can_cast(types[each.name], each.dataType):
            raise InputError(
                f"{table}.{each.name} has the type {types[each.name].simpleString()}: "
                f"it must be {each.dataType.simpleString()}"
            )
    return rows.select(
        *(F.col(f"`{each.name}`").try_cast(each.dataType).alias(each.name) for each in schema)
    )


@dataclass(slots=True)
class RowCounts:
    """The number of rows of a table, and of its rejected rows by reason."""

    rows: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


def count_rows(tables: Collection[ValidatedTable]) -> dict[str, RowCounts]:
    """Return the counts of each table by its name; one job that evaluates the rules only."""
    counts = {each.table: RowCounts() for each in tables}
    marked = [each.marked.select(F.lit(each.table).alias("table"), REASON) for each in tables]
    counted = reduce(DataFrame.union, marked).groupBy("table", REASON).count().collect()
    for row in sorted(counted, key=lambda row: row[REASON] or ""):
        of_table = counts[row["table"]]
        of_table.rows += row["count"]
        if row[REASON] is not None:
            of_table.rejected[row[REASON]] = row["count"]
    return counts


def _can_cast(source: DataType, target: DataType) -> bool:
    if isinstance(source, NumericType) and isinstance(target, NumericType):
        return True
    if isinstance(source, TimestampNTZType) and isinstance(target, TimestampType):
        return True
    # simpleString() leaves out nullability, which differs between writers and does not matter.
    return source.simpleString() == target.simpleString()
