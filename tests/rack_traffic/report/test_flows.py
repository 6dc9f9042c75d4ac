"""Measured flows in the report, beside the estimate of the same hours."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rack_traffic.report.export import summary_json
from rack_traffic.report.format import Currency
from rack_traffic.report.load import Period, find_tables, read_summary
from rack_traffic.report.model import FlowClient, FlowPair, MisplacedMember, Summary
from rack_traffic.report.page import PageOptions, render_page
from rack_traffic.tables import NO_GROUP, OUTPUT_TABLES, columns_schema
from tests.support.traffic_report import (
    NOW,
    PRICE,
    START,
    UNTRUSTED_NAME,
    Sample,
    hourly_row,
    ranking_row,
    what_if_rows,
)

SECOND = START + timedelta(hours=1)


def flow(client: str, kind: str, size: int, one: str | None, other: str | None, **more: Any) -> Any:
    row = {"cluster": "main", "client": client, "kind": kind, "bytes": size, "groups": 0}
    return row | {"from_rack": one, "to_rack": other, "hour": START, "opposite_bytes": 9} | more


def write(folder: Path, table: str, rows: list[Any]) -> None:
    schema = columns_schema(OUTPUT_TABLES[table])
    write_deltalake(folder / table, pa.Table.from_pylist(rows, schema))


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    sample = Sample()
    # There are no flows in the second hour, nor of the cluster web.
    sample.rows["hourly"] = [
        hourly_row(START, 100, "a", "b"),
        hourly_row(START, 20, "a", "b", topic="payments"),
        hourly_row(SECOND, 1_000, "a", "b"),
        hourly_row(START, 5_000, "a", "b", cluster="web"),
        hourly_row(START, 7, "b", "b"),
    ]
    sample.write(tmp_path, ["hourly"])
    member = {"group": "billing", "groups": 1, "rack_source": "member"}
    rows = [
        flow("10.0.0.1", "consume", 90, "a", "b", **member, network_rack="b"),
        flow("10.0.0.2", "consume", 30, "a", "b", **member, network_rack="c"),
        flow("10.0.0.2", "produce", 4, "b", "a", **member, network_rack="c"),
        flow("10.0.0.3", "consume", 50, "a", None),
        flow("10.0.0.3", "produce", 60, None, "a"),
        flow(UNTRUSTED_NAME, "produce", 70, "c", "a", network_rack="c", rack_source="mapping"),
        # No snapshot says whether it is in a group.
        flow("10.0.0.4", "produce", 80, "c", "a", groups=None),
        flow("10.0.0.9", "replicate", 500, "a", "c", groups=None, rack_source="broker"),
    ]
    write(tmp_path, "flows_hourly", rows)
    return read_summary(find_tables(str(tmp_path), {}), Period())


def test_measured_bytes_beside_the_estimate(summary: Summary) -> None:
    assert summary.flows is not None
    assert summary.flows.hours == 1
    assert summary.flows.pairs == (
        FlowPair("main", "consume", "a", "b", 120, 120),
        FlowPair("main", "consume", "a", None, 50, 0),
        FlowPair("main", "consume", "b", "b", 0, 7),
        FlowPair("main", "produce", "b", "a", 4, 0),
        FlowPair("main", "produce", "c", "a", 150, 0),
        FlowPair("main", "produce", None, "a", 60, 0),
        FlowPair("main", "replicate", "a", "c", 500, 0),
    )
    assert summary.flows.clients == (
        FlowClient("main", "10.0.0.3", None, 50, 60),
        FlowClient("main", UNTRUSTED_NAME, "c", 0, 70),
    )
    assert summary.flows.misplaced == (
        MisplacedMember("main", "billing", "10.0.0.2", "b", "c", 34),
    )
    document = summary_json(summary, (), Currency())
    assert document["flow_clients"][0]["written_bytes"] == 60


def test_the_page_shows_measured_flows(summary: Summary) -> None:
    page = render_page(summary, (), PageOptions(NOW))
    assert "Members with another rack than their network" in page
    assert '<th scope="row">10.0.0.3 (main)</th><td>unknown</td>' in page
    assert UNTRUSTED_NAME not in page
    assert "&lt;/script&gt;&lt;img" in page


LARGE = 10**12
MEASURED = {"source": "measured"}


@pytest.fixture
def covered(tmp_path: Path) -> Summary:
    """Reads of the first hour are measured; nothing else is."""
    sample = Sample()
    sample.rows["what_if"] = list(what_if_rows("main", "billing", 5 * LARGE, 2, "rackward_range"))
    sample.rows["ranking"] = [ranking_row("main", "billing", 5 * LARGE, 2, "rackward_range")]
    sample.rows["hourly"] = [
        hourly_row(START, 3 * LARGE, "a", "b", **MEASURED),
        hourly_row(START, 1, "b", "a", topic=None, **MEASURED),
        hourly_row(START, LARGE, "a", "c", group=None, topic=None, **MEASURED),
        hourly_row(START, LARGE, "a", "b", group="new", topic=None, **MEASURED),
        hourly_row(START, 70, "c", "a", kind="produce", group=None, source="assumed"),
        hourly_row(SECOND, LARGE, "a", "b"),
    ]
    sample.write(tmp_path, ["hourly", "what_if", "ranking"])
    write(tmp_path, "replaced_hourly", [
        hourly_row(START, LARGE, "a", "b"),
        hourly_row(START, 7, None, "b", group="new", unsized_offsets=3),
    ])  # fmt: skip
    write(tmp_path, "flows_hourly", [
        flow("10.0.0.1", "consume", 3 * LARGE, "a", "b", group="billing", groups=1),
        flow("10.0.0.1", "consume", 1, "b", "a", group="billing", groups=1),
        flow("10.0.0.2", "consume", LARGE, "a", "b", group="new", groups=1),
        flow("10.0.0.3", "consume", LARGE, "a", "c"),
    ])  # fmt: skip
    return read_summary(find_tables(str(tmp_path), {}), Period(), [])


def test_costs_are_those_of_measured_bytes(covered: Summary) -> None:
    read = {(each.from_rack, each.to_rack): each.traffic for each in covered.pairs}
    both = read["a", "b"]
    assert (both.crossing_bytes, both.measured_bytes) == (5 * LARGE, 4 * LARGE)
    assert both.unsized_offsets == 0
    assert both.cost == pytest.approx(100.0)
    assert read["a", "c"].measured_bytes == LARGE
    assert read["c", "a"].assumed_bytes == 70
    groups = {each.group: each for each in covered.parts}
    assert groups["billing"].traffic.crossing_bytes == 4 * LARGE + 1
    assert groups[NO_GROUP].traffic.cost == pytest.approx(20.0)
    assert sum(each.traffic.cost for each in groups.values()) == pytest.approx(120.0)
    assert [each.group for each in covered.groups] == ["billing", "new"]
    assert sum(line.cents for line in covered.bill) == 12_000


def test_costs_of_changes_are_in_proportion(covered: Summary) -> None:
    """The estimate of billing is twice 20.00, and 80.00 are measured and estimated."""
    groups = {each.group: each for each in covered.parts}
    change = groups["billing"].change
    assert change is not None
    (estimated,) = [ranking_row("main", "billing", 5 * LARGE, 2, "rackward_range")]
    for name in ("cost_per_month_now", "cost_per_month_after", "saving_per_month"):
        assert getattr(change, name) == pytest.approx(2 * estimated[name]), name
    as_is = next(each for each in covered.scenarios if each.scenario == "as_is")
    assert as_is.cost_per_month == pytest.approx(change.cost_per_month_now)
    # The estimate of the other group has no cost: it is extrapolated from two hours.
    assert groups["new"].change is None
    assert groups["new"].cost_per_month == pytest.approx(LARGE * PRICE * 730 / 2)
    assert covered.cost_per_month_now == pytest.approx(
        2 * estimated["cost_per_month_now"] + 2 * LARGE * PRICE * 365 + 70 * PRICE * 365
    )


def test_measured_hours_are_marked(covered: Summary) -> None:
    assert covered.flows is not None
    assert (covered.flows.hours, covered.flows.measured_hours) == (1, 1)
    # The replaced estimate, and not that of the second hour, which no flows cover.
    assert [(each.bytes, each.estimated_bytes) for each in covered.flows.pairs] == [
        (4 * LARGE, LARGE),
        (LARGE, 0),
        (1, 0),
        (0, 7),
        (0, 70),
    ]
    page = render_page(covered, (), PageOptions(NOW))
    assert "83.3 % measured, the rest estimated" in page
    assert "In 1 hour records of every broker cover the whole hour" in page
    assert "00:00: 5.00 TB across racks (100 % measured)" in page
