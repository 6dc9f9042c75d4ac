"""Prices per GB between racks, as rules.

A price table is a file, or the result of a plug-in: packages register a :class:`PriceSource` as an
entry point of the group ``rackward.prices``.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from placement_core import InvalidOptionError, RackPath, RackwardError, common_levels, parse_rack
from placement_core.plugins import is_plugin, load_plugin
from rack_traffic.errors import PriceTableError

GB = 10**9
KINDS = ("consume", "replicate", "produce")
"""Kinds of traffic, in the order in which they are shown."""

DEFAULT_PER_GB = 0.02
"""A usual price between availability zones, both directions together."""

ENTRY_POINT_GROUP = "rackward.prices"
"""The entry point group in which packages register price tables."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """A rule: the price per GB of crossings that match all its other fields.

    ``kind`` is one of KINDS, ``level`` is the level that is crossed (1: the top level of rack
    paths), ``from_rack`` and ``to_rack`` are prefixes of rack paths, such as ``/dc1``; None matches
    everything. With ``both_directions`` the rule also applies from ``to_rack`` to ``from_rack``.
    Raises PriceTableError for invalid values.
    """

    per_gb: float
    cluster: str | None = None
    level: int | None = None
    from_rack: str | None = None
    to_rack: str | None = None
    both_directions: bool = True
    kind: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.per_gb, int | float) and 0 <= self.per_gb < math.inf):
            raise PriceTableError(f"per_gb is {self.per_gb!r}: give a price of 0 or more")
        if self.level is not None and (not isinstance(self.level, int) or self.level < 1):
            raise PriceTableError(
                f"level is {self.level!r}: give 1 for the top level, 2 for the next"
            )
        if self.kind not in (None, *KINDS):
            raise PriceTableError(f"kind is {self.kind!r}: give one of {', '.join(KINDS)}")

    @property
    def specificity(self) -> tuple[bool, int, bool, bool]:
        """Return a sort key: of the rules that match, the one with the largest key applies."""
        levels = sum(len(parse_rack(rack) or ()) for rack in (self.from_rack, self.to_rack))
        return self.kind is not None, levels, self.level is not None, self.cluster is not None


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Rules for crossings; traffic within a rack is free.

    Of the rules that match, one with a kind applies, then the one with the longest rack prefixes,
    then one with a level, then one with a cluster, then the last one. ``source`` says where the
    prices of a preset are published, and when they were looked up.
    """

    rules: tuple[PriceRule, ...] = (PriceRule(DEFAULT_PER_GB),)
    source: str = ""

    def price(
        self, cluster: str, from_rack: str | None, to_rack: str | None, kind: str = "consume"
    ) -> float | None:
        """Return the price per GB of traffic of one of KINDS; None if a rack is unknown, 0 within a
        rack or without a rule."""
        one, other = parse_rack(from_rack), parse_rack(to_rack)
        level = crossed_level(from_rack, to_rack)
        if one is None or other is None or level is None:
            return None
        matching = [
            (rule.specificity, number, float(rule.per_gb))
            for number, rule in enumerate(self.rules)
            if rule.cluster in (None, cluster)
            and rule.kind in (None, kind)
            and rule.level in (None, level)
            and _matches(rule, one, other)
        ]
        return max(matching)[-1] if level and matching else 0.0


_LOOKED_UP = "looked up in public copies on 2026-11-26"
PRESETS: Mapping[str, PriceTable] = {
    "aws": PriceTable(
        (PriceRule(0.02),),
        "Amazon EC2 On-Demand Pricing, Data Transfer: USD 0.01 per GB in each direction between "
        f"Availability Zones of a region, so 0.02 per GB that crosses ({_LOOKED_UP})",
    ),
    "aws-msk": PriceTable(
        (PriceRule(0.02), PriceRule(0.0, kind="replicate")),
        "Amazon MSK Pricing: replication between brokers has no charge; clients as in Amazon EC2 "
        f"On-Demand Pricing, USD 0.01 per GB in each direction ({_LOOKED_UP})",
    ),
    "gcp": PriceTable(
        (PriceRule(0.01),),
        "Google Cloud, Virtual Private Cloud pricing: USD 0.01 per GB that leaves a zone for "
        f"another one of the region; what arrives has no charge ({_LOOKED_UP})",
    ),
    "azure": PriceTable(
        (PriceRule(0.0),),
        "Azure Bandwidth pricing: no charge between Availability Zones, which Microsoft announced "
        f"in May 2024 ({_LOOKED_UP})",
    ),
}
"""Published prices between zones of one region, by name. Contracts and regions may differ."""


def crossed_level(from_rack: str | None, to_rack: str | None) -> int | None:
    """Return 0 within a rack, else the topmost level that differs, from 1; None if unknown."""
    one, other = parse_rack(from_rack), parse_rack(to_rack)
    if one is None or other is None:
        return None
    return 0 if one == other else common_levels(one, other) + 1


class PriceSource(Protocol):
    """Returns a price table, for example that of a contract.

    Any class with this method is one; it does not have to inherit from this one.
    """

    def price_table(self) -> PriceTable:
        """Return the table. Called once per command. Raises RackwardError if there is none."""
        ...


def load_prices(name: str, properties: Mapping[str, str] | None = None) -> PriceTable:
    """Return the table of PRESETS, of a plug-in (an entry point or ``module:Class``) or of a file.

    A plug-in is constructed by :func:`placement_core.plugins.load_plugin`. A file whose name is
    also that of a preset or a plug-in is read as ``./NAME``. Raises PriceTableError and
    InvalidOptionError.
    """
    if name in PRESETS or not is_plugin(name, ENTRY_POINT_GROUP):
        if properties:
            raise InvalidOptionError(
                f"prices {name!r} has no properties: give a plug-in, or leave out "
                f"{', '.join(sorted(properties))}"
            )
        return PRESETS.get(name) or read_prices(Path(name))
    source: PriceSource = load_plugin(
        "price table", name, properties or {}, {}, ENTRY_POINT_GROUP, "price_table"
    )
    try:
        table: object = source.price_table()
    except RackwardError as error:
        raise PriceTableError(f"price table {name!r}: {error}") from error
    except Exception as error:
        # A plug-in may raise anything. All of it is reported in one line with its name.
        raise PriceTableError(
            f"price table {name!r} failed with {type(error).__name__}: {error}"
        ) from error
    if not isinstance(table, PriceTable):
        raise PriceTableError(
            f"price table {name!r} returned {type(table).__name__}: return a PriceTable"
        )
    return table


def read_prices(path: Path) -> PriceTable:
    """Return the table in a CSV file with a header, or in a JSON file with a list of objects.

    Raise PriceTableError.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PriceTableError(f"cannot read prices from {path}: {error}") from error
    if path.suffix.lower() == ".json":
        try:
            rows = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PriceTableError(f"{path} is not valid JSON: {error}") from error
    else:
        rows = list(csv.DictReader(text.splitlines()))
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise PriceTableError(f"{path} must be a list of rules such as {{'per_gb': 0.02}}")
    if not rows:
        raise PriceTableError(f"{path} has no rules: give at least one, such as per_gb 0.02")
    return PriceTable(tuple(_rule(row, f"{path}: rule {n}") for n, row in enumerate(rows, 1)))


def _rule(row: Mapping[str, Any], where: str) -> PriceRule:
    """Return a rule from texts or values. Raise PriceTableError, which begins with ``where``."""
    names = ("per_gb", "kind", "cluster", "level", "from_rack", "to_rack", "both_directions")
    if unknown := sorted(set(map(str, row)) - set(names)):
        raise PriceTableError(f"{where} has unknown fields {unknown}: the fields are {list(names)}")
    given = {name: row[name] for name in names if row.get(name) not in (None, "")}
    if "per_gb" not in given:
        raise PriceTableError(f"{where} has no per_gb")
    parsers: dict[str, Callable[[Any], object]]
    parsers = {"per_gb": float, "level": int, "both_directions": _parse_bool}
    try:
        given |= {name: parse(given[name]) for name, parse in parsers.items() if name in given}
        return PriceRule(**given)
    except (TypeError, ValueError) as error:
        raise PriceTableError(f"{where}: {error}") from error


def _parse_bool(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise PriceTableError(f"both_directions is {value!r}: give true or false")
    return text == "true"


def _matches(rule: PriceRule, one: RackPath, other: RackPath) -> bool:
    directions = [(one, other), (other, one)] if rule.both_directions else [(one, other)]
    return any(
        _has_prefix(a, rule.from_rack) and _has_prefix(b, rule.to_rack) for a, b in directions
    )


def _has_prefix(rack: RackPath, prefix: str | None) -> bool:
    path = parse_rack(prefix) or ()
    return rack[: len(path)] == path
