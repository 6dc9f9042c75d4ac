"""The bill: by hand for two published prices, teams to the cent, owners, and FOCUS's columns."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from rack_traffic.errors import InputError
from rack_traffic.pipeline import priced_hours
from rack_traffic.prices import GB, PRESETS
from rack_traffic.report.bill import (
    NO_TEAM,
    OwnerRule,
    focus_csv,
    in_cents,
    read_owners,
    split_cents,
    team_cents,
    team_of,
)
from rack_traffic.report.format import Currency
from rack_traffic.report.load import Period, read_summary
from rack_traffic.report.model import BillLine
from rack_traffic.report.page import PageOptions, render_page
from rack_traffic.schemas import PARTITION_HOURS
from rack_traffic.writers import parse_writers

HOUR = datetime(2026, 3, 2, 10, tzinfo=UTC)


def owners_in(folder: Path) -> list[OwnerRule]:
    (folder / "owners.csv").write_text(
        "team,group,topic,client_id,principal\npayments,bill*,,,\npayments,,orders,,\n"
        "data,,,spark-*,\n"
    )
    return read_owners(folder / "owners.csv")


@pytest.mark.parametrize(
    ("preset", "rows"),
    [
        # Prices per GB: consume and produce 0.02, replicate 0.02 (aws) or 0 (aws-msk).
        # produce: 900 GB of orders to rack a, of which 30 % from b and 10 % from c cross:
        #   360 GB * 0.02 = 7.20, of payments, which owns the topic.
        # replicate: 900 GB from a to b and 900 GB from a to c: 1800 GB * 0.02 = 36.00, or 0.
        # consume: billing 450 GB from a to b * 0.02 = 9.00, and 450 GB in a, which is free;
        #   fraud, which nobody owns, 123.456789012 GB from a to c * 0.02 = 2.46913578.
        # aws: 7.20 + 36.00 + 11.46913578 = 54.66913578. aws-msk: 18.66913578.
        (
            "aws",
            [
                ["payments", "9.00", "36.00", "7.20", "52.20"],
                ["(none)", "2.47", "0.00", "0.00", "2.47"],
                ["Total", "11.47", "36.00", "7.20", "54.67"],
            ],
        ),
        (
            "aws-msk",
            [
                ["payments", "9.00", "0.00", "7.20", "16.20"],
                ["(none)", "2.47", "0.00", "0.00", "2.47"],
                ["Total", "11.47", "0.00", "7.20", "18.67"],
            ],
        ),
    ],
)
def test_a_bill_by_hand_equals_the_page(
    spark: SparkSession, tmp_path: Path, preset: str, rows: list[list[str]]
) -> None:
    hours = spark.createDataFrame(
        [
            ("c", "produce", None, "orders", 0, HOUR, None, "a", 900 * GB, 0, 0),
            ("c", "replicate", None, "orders", 0, HOUR, "a", "b", 900 * GB, 0, 0),
            ("c", "replicate", None, "orders", 0, HOUR, "a", "c", 900 * GB, 0, 0),
            ("c", "consume", "billing", "orders", 0, HOUR, "a", "b", 450 * GB, 0, 0),
            ("c", "consume", "billing", "orders", 0, HOUR, "a", "a", 450 * GB, 0, 0),
            ("c", "consume", "fraud", "orders", 0, HOUR, "a", "c", 123_456_789_012, 0, 0),
        ],
        PARTITION_HOURS,
    )
    priced = priced_hours(hours, PRESETS[preset], parse_writers(["a=60,b=30,c=10"]))
    write_deltalake(tmp_path / "hourly", priced.toArrow())
    paths = {"hourly": str(tmp_path / "hourly")}
    summary = read_summary(paths, Period(), owners_in(tmp_path))
    page = render_page(summary, (), PageOptions(HOUR))
    section = page[page.index('<section id="bill"') : page.index('<section id="groups"')]
    assert "assumed: a 60.0\u00a0%, b 30.0\u00a0%, c 10.0\u00a0%" in section
    cells = [re.findall(r'(?:"row"|"n")>\$?([^<]+)</t', row) for row in section.split("<tr>")[2:]]
    assert cells == rows
    charges = list(csv.DictReader(focus_csv(summary, Currency()).splitlines()))
    assert sum(Fraction(each["BilledCost"]) for each in charges) == Fraction(rows[-1][-1])
    (read,) = [each for each in charges if each["ResourceId"] == "c/fraud"]
    assert read == {
        "AvailabilityZone": "a",
        "BilledCost": "2.47",
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "ChargeDescription": "Reads of consumers across racks",
        "ChargePeriodEnd": "2026-03-02T11:00:00Z",
        "ChargePeriodStart": "2026-03-02T10:00:00Z",
        "ConsumedQuantity": "123.456789012",
        "ConsumedUnit": "GB",
        "ResourceId": "c/fraud",
        "ResourceType": "Consumer group",
        "ServiceCategory": "Networking",
        "ServiceName": "Apache Kafka",
        "SubAccountId": "c",
        "Tags": '{"team": "(none)", "topic": "orders"}',
        "x_DestinationAvailabilityZone": "c",
    }
    # Without owners there is one row: the total.
    whole = read_summary(paths, Period())
    assert [sum(kinds.values()) for kinds in team_cents(whole.bill).values()] == [
        round(Fraction(rows[-1][-1]) * 100)
    ]


def test_the_first_rule_that_matches_applies(tmp_path: Path) -> None:
    owners = owners_in(tmp_path)
    read = {"group": "billing-2", "topic": "logs"}
    assert team_of(owners, "consume", read) == "payments"
    # Reads of an owned topic belong to the reader.
    assert team_of(owners, "consume", {"group": "fraud", "topic": "orders"}) == NO_TEAM
    assert team_of(owners, "produce", {"group": None, "topic": "orders"}) == "payments"
    # Client ids are of measured flows.
    flow = {"group": None, "topic": "logs", "client_id": "spark-7"}
    assert team_of(owners, "produce", flow) == "data"
    assert team_of(owners, "produce", {"group": None, "topic": "logs"}) == NO_TEAM


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "columns are team"),
        ("group,topic\na,b\n", "columns are team"),
        ("team,grp\na,b\n", "columns are team"),
        ("team,group\na,\n", "rule 1 needs a team"),
        ("team,group\n,x\n", "rule 1 needs a team"),
        ("team,group\na,x\nb,x,y\n", "rule 2 needs a team"),
    ],
)
def test_invalid_owners_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "owners.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_owners(tmp_path / "owners.csv")


KINDS = st.sampled_from(["consume", "produce", "replicate"])
COSTS = st.floats(0, 1e7) | st.sampled_from([0.005, 0.015, 1 / 3, 0.1, 2.675])


@given(st.lists(st.tuples(KINDS, st.sampled_from("xyz"), COSTS), max_size=40))
def test_teams_add_up_to_the_rounded_total(amounts: list[tuple[str, str, float]]) -> None:
    lines = [
        BillLine("c", kind, None, None, "a", "b", team, 1, cost) for kind, team, cost in amounts
    ]
    bill = in_cents(lines)
    whole = sum((Fraction(cost) for _, _, cost in amounts), Fraction(0))
    teams = team_cents(bill)
    assert sum(sum(kinds.values()) for kinds in teams.values()) == round(whole * 100)
    of_kind: Counter[str] = Counter()
    for line in bill:
        of_kind[line.kind] += line.cents
        assert line.cents >= 0
    for kind, cents in of_kind.items():
        exact = [Fraction(line.cost) * 100 for line in lines if line.kind == kind]
        assert -1 < cents - sum(exact, Fraction(0)) < 1


@given(st.lists(st.fractions(0, 1000, max_denominator=10**6), min_size=1), st.booleans())
def test_largest_remainders_are_rounded_up(amounts: list[Fraction], up: bool) -> None:
    whole = sum(amounts, Fraction(0)) * 100
    cents = math.ceil(whole) if up else math.floor(whole)
    parts = split_cents(cents, amounts)
    assert sum(parts) == cents
    errors = [part - amount * 100 for part, amount in zip(parts, amounts, strict=True)]
    assert all(-1 < error < 1 or error == 1 for error in errors)
