"""Flow records beside the audit: rates, costs and who is in no group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from rack_traffic.flow_snapshot import CountedFlows
from rack_traffic.prices import PriceTable
from rack_traffic.tables import FLOWS_HOURLY, columns_schema
from rackward.groups.audit_report import MeasuredKind, MisplacedAddress, UngroupedClient
from rackward.groups.measured import measured_traffic
from tests.support.group_audits import audit_report

SINCE = datetime(2026, 11, 14, 10, 30, tzinfo=UTC)
SECONDS = 3600


def flow(kind: str, one: str | None, other: str | None, rate: int, **more: Any) -> dict[str, Any]:
    row = {"cluster": "x", "kind": kind, "client": "10.0.0.1", "groups": 1, "group": "g"}
    row |= {"from_rack": one, "to_rack": other, "hour": SINCE, "opposite_bytes": 5}
    return row | {"bytes": rate * SECONDS, "rack_source": "member"} | more


def test_kinds_are_measured_beside_the_estimate() -> None:
    alone = {"client": "10.0.0.2", "group": None, "groups": 0, "rack_source": "mapping"}
    rows = [
        flow("consume", "a", "a", 1000, network_rack="c"),
        flow("consume", "b", "a", 2000, network_rack="a"),
        flow("consume", "b", None, 500, rack_source=None),
        flow("consume", "a", "b", 4000, **alone),
        flow("produce", "b", "a", 100, **alone),
    ]
    schema = columns_schema(FLOWS_HOURLY)
    counted = CountedFlows(
        pa.Table.from_pylist(rows, schema),
        SINCE,
        SINCE + timedelta(seconds=SECONDS),
        {"bytes is negative": 2, "start is out of range": 1},
    )
    report = audit_report()
    measured = measured_traffic(counted, report, PriceTable())
    assert report.writes is not None
    # Per month, of a byte per second.
    price = 730 * 3600 * 0.02e-9
    now, writes = report.totals.now, report.writes
    assert measured.kinds == (
        MeasuredKind("consume", 7500, 6000, 500, round(6000 * price, 4), now.crossing, now.cost),
        MeasuredKind("replicate", 0, 0, 0, 0, None, writes.replication_cost),
        MeasuredKind("produce", 100, 100, 0, round(100 * price, 4), writes.crossing, writes.cost),
    )
    assert measured.clients == (UngroupedClient("10.0.0.2", "b", 4000, 100),)
    assert measured.misplaced == (MisplacedAddress("g", "10.0.0.1", "a", "c", 1000),)
    assert measured.rejected == 3
