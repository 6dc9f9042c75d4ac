"""Snapshots and client reports as messages of a topic."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from assignors.traffic_reports import TrafficCounter, TrafficReport, report_messages
from rack_traffic.snapshot_tables import CLIENT_REPORTS, SNAPSHOT_TABLES
from rackward.collector.client_reports import MAX_BYTES, report_rows
from rackward.collector.topic_sink import to_messages, to_values
from tests.support.traffic_frames import AT, snapshot


def test_messages_of_a_snapshot() -> None:
    messages = list(to_messages(snapshot()))
    assert [key for key, _ in messages] == [
        b"east/brokers",
        b"east/partitions",
        b"east/members",
        b"east/commits",
    ]
    for key, value in messages:
        message = json.loads(value)
        assert message["table"] == key.decode().partition("/")[2]
        for row in message["rows"]:
            assert list(row) == list(SNAPSHOT_TABLES[message["table"]])
    members = json.loads(messages[2][1])["rows"]
    assert members[0]["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert members[0]["taken_at"] == "2026-11-21T12:00:00.123Z"
    assert members[1]["member_id"] is None


def test_messages_are_limited_in_size() -> None:
    rows = snapshot(partitions=500).tables["commits"]
    values = list(to_values("commits", rows, max_bytes=2000))
    assert len(values) > 10
    assert max(map(len, values)) <= 2000
    numbers = [row["partition"] for value in values for row in json.loads(value)["rows"]]
    assert numbers == list(range(500))
    # A row that is larger than the limit has a message of its own.
    assert len(list(to_values("commits", rows[:3], max_bytes=10))) == 3
    assert list(to_values("commits", [])) == []


def report(**changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "cluster": None,
        "group": "billing",
        "member_id": "m",
        "topic": "orders",
        "partition": 3,
        "from_rack": "a",
        "to_rack": None,
        "bytes": 10,
        "from_at": "2026-11-21T12:00:00.000Z",
        "to_at": "2026-11-21T12:01:00.000Z",
    }
    return row | changes


def message(*rows: object) -> bytes:
    return json.dumps({"table": "client_reports", "rows": list(rows)}).encode()


def test_reports_become_rows() -> None:
    rows, faults = report_rows(message(report(), report(cluster="west", bytes=0)), "east")
    assert faults == []
    assert [row[0] for row in rows] == ["east", "west"]
    assert dict(zip(CLIENT_REPORTS, rows[0], strict=True)) == {
        **report(),
        "cluster": "east",
        "from_at": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "to_at": datetime(2026, 11, 21, 12, 1, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"group": None}, "without group"),
        ({"topic": 7}, "topic is not of type text"),
        ({"partition": -1}, "partition is not of type int"),
        ({"partition": 2**31}, "partition is not of type int"),
        ({"partition": True}, "partition is not of type int"),
        ({"bytes": 2**63}, "bytes is not of type long"),
        ({"bytes": 1.5}, "bytes is not of type long"),
        ({"from_at": "yesterday"}, "from_at is not of type time"),
        ({"from_at": "2026-11-21T12:00:00"}, "from_at is not of type time"),
        ({"to_at": "2026-11-21T12:00:00Z"}, "is not after its from_at"),
    ],
)
def test_invalid_rows_become_faults(changes: dict[str, object], fault: str) -> None:
    rows, faults = report_rows(message(report(), report(**changes), 3), "east")
    assert len(rows) == 1
    assert fault in faults[0]
    assert faults[1] == "a row that is not an object"


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"table": "commits", "rows": []}',
        b'{"table": "client_reports"}',
        b" " * (MAX_BYTES + 1),
    ],
)
def test_invalid_messages_become_faults(value: bytes | None) -> None:
    rows, faults = report_rows(value, "east")
    assert rows == []
    assert len(faults) == 1


def test_reports_of_consumers_are_read() -> None:
    fetched = {
        ("orders", 1, "a"): 150,
        ("orders", 1, "b"): 7,
        ("orders", 0, None): 1,
        ("orders", 2, "c"): 0,
    }
    later = AT + timedelta(seconds=60)
    message = TrafficReport(AT, later, fetched)
    values = report_messages(message, cluster=None, group="billing", member_id="m", to_rack="b")
    rows = []
    for value in values:
        good, bad = report_rows(value, "east")
        assert bad == []
        rows += good
    records = [dict(zip(CLIENT_REPORTS, row, strict=True)) for row in rows]
    assert [
        (row["topic"], row["partition"], row["from_rack"], row["bytes"]) for row in records
    ] == [
        ("orders", 0, None, 1),
        ("orders", 1, "a", 150),
        ("orders", 1, "b", 7),
        # Assigned, without traffic.
        ("orders", 2, "c", 0),
    ]
    assert {
        (row["cluster"], row["group"], row["member_id"], row["to_rack"]) for row in records
    } == {("east", "billing", "m", "b")}
    assert {row["to_at"] for row in records} == {later.replace(microsecond=123000)}


def test_large_reports_are_several_messages() -> None:
    counter = TrafficCounter(AT)
    for partition in range(2500):
        counter.add(("orders", partition), "a", 1)
    message = counter.take_report(AT + timedelta(seconds=1), [])
    assert message is not None
    values = list(report_messages(message, cluster="east", group="g", member_id="m", to_rack=None))
    assert [len(report_rows(value, "")[0]) for value in values] == [1000, 1000, 500]
    assert max(map(len, values)) < MAX_BYTES
