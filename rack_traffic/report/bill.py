"""The bill of a period: its cost to the cent, by kind and team, and in the columns of FOCUS.

The cost of reads belongs to the owner of the group, and that of writes and their replication to the
owner of the topic. All amounts of a bill add up: the rounded total is divided among the kinds, that
of a kind among the teams, and that of a team among its lines, each time by largest remainders.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from fractions import Fraction
from operator import attrgetter
from pathlib import Path

from rack_traffic.errors import InputError
from rack_traffic.prices import GB
from rack_traffic.report.format import Currency
from rack_traffic.report.model import BillLine, Summary

NO_TEAM = "(none)"
"""The team of what no rule assigns to one."""

PATTERNS = ("group", "topic", "client_id", "principal")


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """A team, and the patterns (``*`` matches any characters) by name, of PATTERNS."""

    team: str
    patterns: Mapping[str, str]

    def matches(self, kind: str, values: Mapping[str, str | None]) -> bool:
        """Return whether all patterns match. A value that is not known matches none.

        Reads belong to the reader: a rule with a topic alone does not match them.
        """
        return (kind != "consume" or self.patterns.keys() != {"topic"}) and all(
            (value := values.get(name)) is not None and fnmatchcase(value, pattern)
            for name, pattern in self.patterns.items()
        )


def team_of(owners: Iterable[OwnerRule], kind: str, values: Mapping[str, str | None]) -> str:
    """Return the team that pays for traffic with these ``values`` of PATTERNS: that of the first
    rule that matches."""
    return next((rule.team for rule in owners if rule.matches(kind, values)), NO_TEAM)


def read_owners(path: Path) -> list[OwnerRule]:
    """Return the rules in a CSV file with the columns ``team`` and PATTERNS. Raise InputError."""
    try:
        reader = csv.DictReader(path.read_text().splitlines())
        rows, names = list(reader), reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read owners from {path}: {error}") from error
    if "team" not in names or not {*names} <= {"team", *PATTERNS}:
        raise InputError(f"{path}: the columns are team and, optionally, {', '.join(PATTERNS)}")
    rules = []
    for number, row in enumerate(rows, 1):
        patterns = {name: row[name] for name in PATTERNS if row.get(name)}
        if not (row["team"] and patterns) or None in row:
            raise InputError(f"{path}: rule {number} needs a team and at least one pattern")
        rules.append(OwnerRule(row["team"], patterns))
    return rules


def split_cents(cents: int, amounts: Sequence[Fraction]) -> list[int]:
    """Divide ``cents`` into a part for each of ``amounts``, by largest remainders.

    ``cents`` must be their sum in cents, rounded up or down. Each part is its amount rounded up or
    down; of equal remainders, the first are rounded up.
    """
    parts = [math.floor(each * 100) for each in amounts]
    missing = cents - sum(parts)
    by_remainder = sorted(range(len(parts)), key=lambda each: parts[each] - amounts[each] * 100)
    for number in by_remainder[:missing]:
        parts[number] += 1
    return parts


def in_cents(lines: Iterable[BillLine]) -> tuple[BillLine, ...]:
    """Return the lines with ``cents``, by kind and team."""
    ordered = sorted(lines, key=lambda line: (line.kind, line.team))
    whole = round(sum(Fraction(line.cost) for line in ordered) * 100)
    return tuple(_divide(whole, ordered, ("kind", "team")))


def _divide(cents: int, lines: Sequence[BillLine], keys: Sequence[str]) -> list[BillLine]:
    if not keys:
        parts = split_cents(cents, [Fraction(line.cost) for line in lines])
        return [replace(line, cents=part) for line, part in zip(lines, parts, strict=True)]
    groups: dict[str, list[BillLine]] = {}
    for line in lines:
        groups.setdefault(attrgetter(keys[0])(line), []).append(line)
    amounts = [sum((Fraction(line.cost) for line in each), Fraction(0)) for each in groups.values()]
    divided = zip(split_cents(cents, amounts), groups.values(), strict=True)
    return [line for part, each in divided for line in _divide(part, each, keys[1:])]


def team_cents(bill: Iterable[BillLine]) -> dict[str, dict[str, int]]:
    """Return team to kind to cents, the highest sum first and NO_TEAM last."""
    teams: dict[str, dict[str, int]] = {}
    for line in bill:
        kinds = teams.setdefault(line.team, {})
        kinds[line.kind] = kinds.get(line.kind, 0) + line.cents
    ordered = sorted(teams.items(), key=lambda e: (e[0] == NO_TEAM, -sum(e[1].values()), e[0]))
    return dict(ordered)


# ---- FOCUS: the FinOps Open Cost and Usage Specification.

FOCUS_COLUMNS = (
    *("AvailabilityZone", "BilledCost", "BillingCurrency", "ChargeCategory", "ChargeDescription"),
    *("ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ResourceId"),
    *("ResourceType", "ServiceCategory", "ServiceName", "SubAccountId", "Tags"),
    "x_DestinationAvailabilityZone",
)
_CURRENCY_CODES = {"$": "USD", "€": "EUR", "£": "GBP"}
_DESCRIPTIONS = {
    "consume": "Reads of consumers across racks",
    "produce": "Writes of producers across racks",
    "replicate": "Replication across racks",
}


def focus_csv(summary: Summary, currency: Currency) -> str:
    """Return the bill in columns of FOCUS 1.2, as CSV: what crossed from one rack to another.

    A charge covers the hours of its cluster. FOCUS's columns about accounts, contracts, prices and
    SKUs are left out, because nothing here knows them: a provider's bill has them.
    """
    hours = {each.cluster: each for each in summary.clusters}
    file = io.StringIO()
    writer = csv.DictWriter(file, FOCUS_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line in summary.bill:
        if not line.bytes:
            continue
        is_read = line.kind == "consume"
        writer.writerow(
            {
                "AvailabilityZone": line.from_rack,
                "BilledCost": cents_text(line.cents),
                "BillingCurrency": _CURRENCY_CODES.get(currency.sign, currency.sign),
                "ChargeCategory": "Usage",
                "ChargeDescription": _DESCRIPTIONS[line.kind],
                "ChargePeriodEnd": _iso(hours[line.cluster].last + timedelta(hours=1)),
                "ChargePeriodStart": _iso(hours[line.cluster].first),
                "ConsumedQuantity": line.bytes / GB,
                "ConsumedUnit": "GB",
                "ResourceId": f"{line.cluster}/{(line.group if is_read else line.topic) or ''}",
                "ResourceType": "Consumer group" if is_read else "Topic",
                "ServiceCategory": "Networking",
                "ServiceName": "Apache Kafka",
                "SubAccountId": line.cluster,
                "Tags": json.dumps({"team": line.team, "topic": line.topic}),
                "x_DestinationAvailabilityZone": line.to_rack,
            }
        )
    return file.getvalue()


def cents_text(cents: int) -> str:
    """Return an amount such as ``1234.50``."""
    return f"{cents // 100}.{cents % 100:02d}"


def _iso(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
