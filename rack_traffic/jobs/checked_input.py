"""The snapshots of a run, held to their contracts, with what was set aside on record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from rack_traffic.contracts import CONTRACTS
from rack_traffic.jobs.store import read_snapshots
from rack_traffic.pipeline import Snapshots
from rack_traffic.quality import Checked, Counts, check, counted
from rack_traffic.schemas import SET_ASIDE


@dataclass(frozen=True, slots=True)
class CheckedInput:
    """The tables of a run; ``snapshots`` are the rows that keep their contracts."""

    snapshots: Snapshots
    checked: dict[str, Checked]

    def counts(self) -> dict[str, Counts]:
        """Rows and rows set aside per table: one pass over each."""
        return {table: counted(each) for table, each in self.checked.items()}

    def aside(self, spark: SparkSession, counts: dict[str, Counts]) -> DataFrame:
        """The rows of SET_ASIDE; only tables that have some, as ``counts`` says, are read."""
        broken = [self.checked[name].aside for name, each in counts.items() if each.set_aside]
        return reduce(DataFrame.unionByName, broken, spark.createDataFrame([], SET_ASIDE))


def checked_input(
    spark: SparkSession, root: str, since: datetime | None, until: datetime | None
) -> CheckedInput:
    """The snapshots under ``root`` taken at [since, until). Raises InputError."""
    tables = {name: read_snapshots(spark, root, name, since, until) for name in CONTRACTS}
    return hold(tables)


def hold(tables: dict[str, DataFrame | None]) -> CheckedInput:
    """Tables held to their contracts; None for an optional one that is absent."""
    checked = {
        name: check(rows, CONTRACTS[name]) for name, rows in tables.items() if rows is not None
    }
    return CheckedInput(Snapshots(**{name: each.good for name, each in checked.items()}), checked)
