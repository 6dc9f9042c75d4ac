"""Snapshots held to their contracts: what is set aside, why, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, TimestampNTZType, TimestampType

from rack_traffic.errors import InputError
from rack_traffic.schemas import SNAPSHOTS

# ---- What rows of snapshots have to keep to, table by table.


@dataclass(frozen=True, slots=True)
class Contract:
    """What makes a row of ``table`` usable.

    ``required`` columns are never null. ``broken`` maps a reason to the SQL condition of the rows
    that are set aside for it; a condition that is null is not met. ``optional`` tables may be
    absent from an input.
    """

    table: str
    required: tuple[str, ...]
    broken: Mapping[str, str]
    optional: bool = False

    @property
    def reasons(self) -> dict[str, str]:
        """Reason to condition, the one that is told first in front."""
        missing = {f"{name} is missing": f"`{name}` is null" for name in self.required}
        return missing | dict(self.broken)


# 2020 is before any snapshot of ours, and a clock that is
# years ahead would stretch an interval over all of them.
_NAMED = {"cluster is empty": "cluster = ''"}
_TIMED = {"taken_at is out of range": "taken_at < '2020-01-01' or taken_at >= '2200-01-01'"}
_TOPIC = {"topic is empty": "topic = ''", "partition is negative": "partition < 0"}

CONTRACTS: dict[str, Contract] = {
    each.table: each
    for each in (
        Contract(
            "brokers",
            ("cluster", "broker", "taken_at"),
            _NAMED | _TIMED | {"broker is negative": "broker < 0"},
        ),
        Contract(
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
            _NAMED
            | _TIMED
            | _TOPIC
            | {
                "start_offset is negative": "start_offset < 0",
                "end_offset is below start_offset": "end_offset < start_offset",
                "size_bytes is negative": "size_bytes < 0",
                "there is no replica": "size(replicas) = 0",
            },
        ),
        Contract(
            "members",
            ("cluster", "group", "state", "taken_at"),
            _NAMED
            | _TIMED
            | {
                "a member has no id": "member_id = ''",
                "a partition is assigned by a negative number": (
                    "exists(assignment, each -> exists(each.partitions, number -> number < 0))"
                ),
            },
        ),
        Contract(
            "commits",
            ("cluster", "group", "topic", "partition", "committed_offset", "taken_at"),
            _NAMED | _TIMED | _TOPIC | {"committed_offset is negative": "committed_offset < 0"},
        ),
        Contract(
            "client_reports",
            ("cluster", "group", "member_id", "topic", "partition", "bytes", "from_at", "to_at"),
            _NAMED
            | _TOPIC
            | {
                "from_at is out of range": "from_at < '2020-01-01' or from_at >= '2200-01-01'",
                "to_at is not after from_at": "to_at <= from_at",
                "the report is longer than a day": "to_at > from_at + interval 1 day",
                "bytes is negative": "bytes < 0",
            },
            optional=True,
        ),
    )
}
"""The contract of every snapshot table."""


_REASON = "_reason"


@dataclass(frozen=True, slots=True)
class Checked:
    """A table's rows, apart: ``good`` ones as its schema has them, and those set ``aside``.

    ``aside`` has the columns of ``schemas.SET_ASIDE``. ``judged`` is every row with the reason it
    was set aside for, null where it was not; :func:`counted` counts it.
    """

    table: str
    good: DataFrame
    aside: DataFrame
    judged: DataFrame


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows a table had, and how many of them were set aside, by reason."""

    rows: int
    set_aside: dict[str, int]


def conform(rows: DataFrame, table: str) -> DataFrame:
    """``rows`` with the columns of that snapshot table, in its types; others are dropped.

    Raises InputError where a column is missing, or of a type that cannot be meant: numbers may
    be narrower or wider, nothing else differs.
    """
    schema = SNAPSHOTS[table]
    given = {each.name: each.dataType for each in rows.schema}
    missing = [name for name in schema.names if name not in given]
    if missing:
        raise InputError(f"the table {table} has no column {missing}: it needs {schema.names}")
    for each in schema:
        if not _may_pass(given[each.name], each.dataType):
            raise InputError(
                f"{table}.{each.name} is {given[each.name].simpleString()}: "
                f"it has to be {each.dataType.simpleString()}"
            )
    return rows.select(
        *(F.col(f"`{each.name}`").try_cast(each.dataType).alias(each.name) for each in schema)
    )


def check(rows: DataFrame, contract: Contract) -> Checked:
    """``rows`` (of any origin) held to ``contract``. Raises InputError as :func:`conform` does."""
    conformed = conform(rows, contract.table)
    told = [F.when(F.expr(met), F.lit(why)) for why, met in contract.reasons.items()]
    judged = conformed.select("*", F.coalesce(*told).alias(_REASON))
    aside = judged.filter(F.col(_REASON).isNotNull()).select(
        F.lit(contract.table).alias("table"),
        F.col(_REASON).alias("reason"),
        F.to_json(F.struct(*conformed.columns)).alias("row"),
    )
    return Checked(
        contract.table, judged.filter(F.col(_REASON).isNull()).drop(_REASON), aside, judged
    )


def counted(checked: Checked) -> Counts:
    """One pass over the table that counts; nothing else is computed."""
    found = checked.judged.groupBy(_REASON).count().collect()
    aside = {row[_REASON]: row["count"] for row in found if row[_REASON] is not None}
    return Counts(sum(row["count"] for row in found), dict(sorted(aside.items())))


def _may_pass(given: DataType, wanted: DataType) -> bool:
    if isinstance(given, NumericType) and isinstance(wanted, NumericType):
        return True
    if isinstance(given, TimestampNTZType) and isinstance(wanted, TimestampType):
        return True
    # Nullability differs from writer to writer and means nothing here.
    return given.simpleString() == wanted.simpleString()
