"""Validation of snapshot rows: which rows are rejected, and why.

A rejected row is written to the table ``rejected_rows`` with its reason; it never stops a run. A
table that lacks a column, or has one of the wrong type, is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

from rack_traffic.errors import InputError
from rack_traffic.schemas import SNAPSHOTS


@dataclass(frozen=True, slots=True)
class TableRules:
    """What makes a row of ``table`` valid.

    ``required`` columns are never null. ``invalid_if`` maps a reason to the SQL condition of the
    rows that are rejected for it; a null condition is false.
    """

    table: str
    required: tuple[str, ...]
    invalid_if: Mapping[str, str]

    @property
    def reasons(self) -> dict[str, str]:
        """Reason to condition; the first condition that holds is reported."""
        missing = {f"{name} is missing": f"`{name}` is null" for name in self.required}
        return missing | dict(self.invalid_if)


_CLUSTER = {"cluster is empty": "cluster = ''"}
# No snapshot is older than 2020. A clock that is years ahead would stretch an interval over all
# of that time.
_TAKEN_AT = {"taken_at is out of range": "taken_at < '2020-01-01' or taken_at >= '2200-01-01'"}
_PARTITION = {"topic is empty": "topic = ''", "partition is negative": "partition < 0"}

RULES: dict[str, TableRules] = {
    each.table: each
    for each in (
        TableRules(
            "brokers",
            ("cluster", "broker", "taken_at"),
            _CLUSTER | _TAKEN_AT | {"broker is negative": "broker < 0"},
        ),
        TableRules(
            "partitions",
            (
                "cluster",
                "topic",
                "partition",
                "replicas",
                "start_offset",
                "end_offset",
                "taken_at",
            ),
            _CLUSTER
            | _TAKEN_AT
            | _PARTITION
            | {
                "start_offset is negative": "start_offset < 0",
                "end_offset is below start_offset": "end_offset < start_offset",
                "size_bytes is negative": "size_bytes < 0",
                "replicas is empty": "size(replicas) = 0",
            },
        ),
        TableRules(
            "members",
            ("cluster", "group", "state", "taken_at"),
            _CLUSTER
            | _TAKEN_AT
            | {
                "member_id is empty": "member_id = ''",
                "assignment has a negative partition": (
                    "exists(assignment, each -> exists(each.partitions, number -> number < 0))"
                ),
            },
        ),
        TableRules(
            "commits",
            ("cluster", "group", "topic", "partition", "committed_offset", "taken_at"),
            _CLUSTER
            | _TAKEN_AT
            | _PARTITION
            | {"committed_offset is negative": "committed_offset < 0"},
        ),
    )
}
"""Name of a snapshot table to its rules."""


@dataclass(frozen=True, slots=True)
class ValidatedTable:
    """The rows of a snapshot table.

    ``valid`` has the columns of the table's schema, ``rejected`` those of
    ``schemas.REJECTED_ROWS``. ``marked`` has all rows, with the reason for which a row is rejected
    in the column ``_reason`` (null for valid rows).
    """

    table: str
    valid: DataFrame
    rejected: DataFrame
    marked: DataFrame


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The number of rows of a table, and of its rejected rows by reason."""

    rows: int
    rejected: dict[str, int]


_REASON = "_reason"


def validate(rows: DataFrame, rules: TableRules) -> ValidatedTable:
    """Divide ``rows`` into valid and rejected ones. Raise InputError like :func:`cast_columns`."""
    typed = cast_columns(rows, rules.table)
    reasons = [F.when(F.expr(condition), F.lit(why)) for why, condition in rules.reasons.items()]
    marked = typed.withColumn(_REASON, F.coalesce(*reasons))
    rejected = marked.filter(F.col(_REASON).isNotNull()).select(
        F.lit(rules.table).alias("table"),
        F.col(_REASON).alias("reason"),
        F.to_json(F.struct(*typed.columns)).alias("row"),
    )
    valid = marked.filter(F.col(_REASON).isNull()).drop(_REASON)
    return ValidatedTable(rules.table, valid, rejected, marked)


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


def count_rows(tables: Sequence[ValidatedTable]) -> dict[str, RowCounts]:
    """Return the counts of each table by its name; one job that evaluates the rules only."""
    marked = [
        each.marked.select(F.lit(each.table).alias("table"), F.col(_REASON)) for each in tables
    ]
    counted = reduce(DataFrame.union, marked).groupBy("table", _REASON).count().collect()
    totals = dict.fromkeys((each.table for each in tables), 0)
    rejected: dict[str, dict[str, int]] = {name: {} for name in totals}
    for row in sorted(counted, key=lambda row: row[_REASON] or ""):
        totals[row["table"]] += row["count"]
        if row[_REASON] is not None:
            rejected[row["table"]][row[_REASON]] = row["count"]
    return {name: RowCounts(rows, rejected[name]) for name, rows in totals.items()}


def _can_cast(source: DataType, target: DataType) -> bool:
    if isinstance(source, NumericType) and isinstance(target, NumericType):
        return True
    if isinstance(source, TimestampNTZType) and isinstance(target, TimestampType):
        return True
    # simpleString() leaves out nullability, which differs between writers and does not matter.
    return source.simpleString() == target.simpleString()
