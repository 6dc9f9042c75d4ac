"""Measured flows in the report, beside the estimate of the same hours."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rack_traffic.output_tables import OUTPUT_TABLES
from rack_traffic.report.export import summary_json
from rack_traffic.report.format import Currency
from rack_traffic.report.load import Period, find_tables, read_summary
from rack_traffic.report.model import FlowClient, FlowPair, MisplacedMember, Summary
from rack_traffic.report.page import PageOptions, render_page
from rack_traffic.snapshot_tables import arrow_types
from tests.support.traffic_report import NOW, START, UNTRUSTED_NAME, Sample, hourly_row

SECOND = START + timedelta(hours=1)


def flow(client: str, kind: str, size: int, one: str | None, other: str | None, **more: Any) -> Any:
    row = {"cluster": "main", "client": client, "kind": kind, "bytes": size, "groups": 0}
    return row | {"from_rack": one, "to_rack": other, "hour": START, "opposite_bytes": 9} | more


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
    schema = pa.schema(list(arrow_types(OUTPUT_TABLES["flows_hourly"]).items()))
    write_deltalake(tmp_path / "flows_hourly", pa.Table.from_pylist(rows, schema))
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
