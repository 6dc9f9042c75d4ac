"""Snapshots held to their contracts: what is set aside, why, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, TimestampNTZType, TimestampType

from rack_traffic.contracts import Contract
from rack_traffic.errors import InputError
from rack_traffic.schemas import SNAPSHOTS

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
