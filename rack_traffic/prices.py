"""What a GB costs between two racks, by rule; as a plain value and as a column."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement_core import RackPath, common_levels, parse_rack
from rack_traffic.errors import PriceTableError

if TYPE_CHECKING:
    from pyspark.sql import Column

GB = 10**9
DEFAULT_PER_GB = 0.02
"""What large clouds charge between zones, both directions together."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """One row of a price table (the columns of ``schemas.PRICES``)."""

    per_gb: float
    cluster: str | None = None
    level: int | None = None
    from_rack: str | None = None
    to_rack: str | None = None
    both_directions: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.per_gb, int | float) and 0 <= self.per_gb < math.inf):
            raise PriceTableError(f"per_gb is {self.per_gb!r}: give a price of 0 or more")
        if self.level is not None and (not isinstance(self.level, int) or self.level < 1):
            raise PriceTableError(f"level is {self.level!r}: give 1 for the widest, 2 for the next")

    @property
    def rank(self) -> tuple[int, bool, bool]:
        """How particular the rule is; the most particular one of those that match wins."""
        named = sum(len(parse_rack(rack) or ()) for rack in (self.from_rack, self.to_rack))
        return named, self.level is not None, self.cluster is not None


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Rules; of those that are equally particular, the later one wins.

    Within a rack it is free unless no rule could say otherwise: rules are for crossings only.
    """

    rules: tuple[PriceRule, ...] = (PriceRule(DEFAULT_PER_GB),)

    def ranked(self) -> list[PriceRule]:
        """The rules, the one to try first in front."""
        numbered = sorted(enumerate(self.rules), key=lambda each: (each[1].rank, each[0]))
        return [rule for _, rule in reversed(numbered)]

    def price(self, cluster: str, from_rack: str | None, to_rack: str | None) -> float | None:
        """Per GB from one rack to another; None where a rack is not known, 0 within one.

        0 also where no rule matches.
        """
        one, other = parse_rack(from_rack), parse_rack(to_rack)
        level = crossed_level(from_rack, to_rack)
        if one is None or other is None or level is None:
            return None
        if level == 0:
            return 0.0
        for rule in self.ranked():
            if (
                rule.cluster in (None, cluster)
                and rule.level in (None, level)
                and _matches(rule, one, other)
            ):
                return float(rule.per_gb)
        return 0.0


def crossed_level(from_rack: str | None, to_rack: str | None) -> int | None:
    """0 in one rack, else the widest level that is crossed, from 1; None where one is unknown."""
    one, other = parse_rack(from_rack), parse_rack(to_rack)
    if one is None or other is None:
        return None
    return 0 if one == other else common_levels(one, other) + 1


def level_column(from_rack: Column, to_rack: Column) -> Column:
    """:func:`crossed_level` of two columns."""
    from pyspark.sql import functions as F

    one, other = _path(from_rack), _path(to_rack)
    differ = F.filter(
        F.transform(
            F.arrays_zip(one.alias("a"), other.alias("b")),
            lambda pair, i: F.struct(
                i.alias("i"), (~pair["a"].eqNullSafe(pair["b"])).alias("differs")
            ),
        ),
        lambda each: each["differs"],
    )
    return (
        F.when((F.size(one) == 0) | (F.size(other) == 0), F.lit(None).cast("int"))
        .when(one == other, 0)
        .otherwise(F.get(differ, F.lit(0))["i"] + 1)
    )


def price_column(
    table: PriceTable, cluster: Column, from_rack: Column, to_rack: Column, level: Column
) -> Column:
    """:meth:`PriceTable.price` of columns; ``level`` is :func:`level_column` of the racks."""
    from pyspark.sql import functions as F

    price = F.lit(0.0)
    for rule in reversed(table.ranked()):
        conditions = [F.lit(True)]
        if rule.cluster is not None:
            conditions.append(cluster == F.lit(rule.cluster))
        if rule.level is not None:
            conditions.append(level == F.lit(rule.level))
        ways = [(from_rack, to_rack)]
        if rule.both_directions:
            ways.append((to_rack, from_rack))
        conditions.append(
            reduce(
                lambda a, b: a | b,
                (_begins(a, rule.from_rack) & _begins(b, rule.to_rack) for a, b in ways),
            )
        )
        price = F.when(reduce(lambda a, b: a & b, conditions), F.lit(float(rule.per_gb))).otherwise(
            price
        )
    return F.when(level.isNull(), F.lit(None).cast("double")).when(level == 0, 0.0).otherwise(price)


def read_prices(path: Path) -> PriceTable:
    """The table in a CSV file with the columns' names on top, or in a JSON list of objects.

    Raises PriceTableError.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PriceTableError(f"cannot read prices from {path}: {error}") from error
    if path.suffix.lower() == ".json":
        try:
            rows = json.loads(text)
        except ValueError as error:
            raise PriceTableError(f"{path} is no JSON: {error}") from error
    else:
        rows = list(csv.DictReader(text.splitlines()))
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise PriceTableError(f"{path} has to be a list of rules such as {{'per_gb': 0.02}}")
    return parse_prices(rows, str(path))


def parse_prices(rows: Sequence[Mapping[str, Any]], where: str) -> PriceTable:
    """Rules from rows of strings or values; ``where`` names them in errors (PriceTableError)."""
    names = ("per_gb", "cluster", "level", "from_rack", "to_rack", "both_directions")
    rules = []
    for number, row in enumerate(rows, 1):
        if unknown := sorted(set(map(str, row)) - set(names)):
            raise PriceTableError(f"{where}: rule {number} has {unknown}; there is {list(names)}")
        given = {name: row[name] for name in names if row.get(name) not in (None, "")}
        try:
            given["per_gb"] = float(given["per_gb"])
            if "level" in given:
                given["level"] = int(given["level"])
            if "both_directions" in given:
                given["both_directions"] = _truth(given["both_directions"])
            rules.append(PriceRule(**given))
        except KeyError:
            raise PriceTableError(f"{where}: rule {number} has no per_gb") from None
        except (TypeError, ValueError) as error:
            raise PriceTableError(f"{where}: rule {number}: {error}") from error
    if not rules:
        raise PriceTableError(f"{where} has no rule: give at least one, such as per_gb 0.02")
    return PriceTable(tuple(rules))


def _truth(value: object) -> bool:
    told = str(value).strip().lower()
    if told not in ("true", "false"):
        raise PriceTableError(f"both_directions is {value!r}: give true or false")
    return told == "true"


def _matches(rule: PriceRule, one: RackPath, other: RackPath) -> bool:
    ways = [(one, other), (other, one)] if rule.both_directions else [(one, other)]
    return any(_under(a, rule.from_rack) and _under(b, rule.to_rack) for a, b in ways)


def _under(rack: RackPath, prefix: str | None) -> bool:
    path = parse_rack(prefix) or ()
    return rack[: len(path)] == path


def _begins(rack: Column, prefix: str | None) -> Column:
    from pyspark.sql import functions as F

    levels = parse_rack(prefix)
    if levels is None:
        return F.lit(True)
    return F.slice(_path(rack), 1, len(levels)) == F.array(*map(F.lit, levels))


def _path(rack: Column) -> Column:
    """The levels of a rack, an array; empty where it is not known."""
    from pyspark.sql import functions as F

    none = F.array().cast("array<string>")
    return (
        F.when(rack.isNull() | (rack == ""), none)
        .when(rack.startswith("/"), F.filter(F.split(rack, "/"), lambda level: level != ""))
        .otherwise(F.array(rack))
    )
