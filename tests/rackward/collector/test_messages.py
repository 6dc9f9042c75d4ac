from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from assignors.traffic_reports import Tally, report_messages
from rack_traffic.snapshot_tables import CLIENT_REPORTS, SNAPSHOT_TABLES
from rackward.collector.client_reports import MOST_BYTES, report_rows
from rackward.collector.topic_sink import messages_of, values_of
from tests.support.snapshots import AT, snapshot


def test_a_snapshot_is_messages_of_its_tables() -> None:
    found = list(messages_of(snapshot()))
    assert [key for key, _ in found] == [
        b"east/brokers",
        b"east/partitions",
        b"east/members",
        b"east/commits",
    ]
    for key, value in found:
        message = json.loads(value)
        assert message["table"] == key.decode().partition("/")[2]
        for row in message["rows"]:
            assert list(row) == list(SNAPSHOT_TABLES[message["table"]])
    members = json.loads(found[2][1])["rows"]
    assert members[0]["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert members[0]["taken_at"] == "2026-11-21T12:00:00.123Z"
    assert members[1]["member_id"] is None


def test_messages_stay_below_their_limit_and_lose_nothing() -> None:
    rows = snapshot(partitions=500).tables["commits"]
    values = list(values_of("commits", rows, most_bytes=2000))
    assert len(values) > 10
    assert max(map(len, values)) <= 2000
    numbers = [row["partition"] for value in values for row in json.loads(value)["rows"]]
    assert numbers == list(range(500))
    # A row that is larger than the limit goes alone: it cannot be cut.
    assert len(list(values_of("commits", rows[:3], most_bytes=10))) == 3
    assert list(values_of("commits", [])) == []


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
    ("changes", "told"),
    [
        ({"group": None}, "without group"),
        ({"topic": 7}, "topic is no text"),
        ({"partition": -1}, "partition is no int"),
        ({"partition": 2**31}, "partition is no int"),
        ({"partition": True}, "partition is no int"),
        ({"bytes": 2**63}, "bytes is no long"),
        ({"bytes": 1.5}, "bytes is no long"),
        ({"from_at": "yesterday"}, "from_at is no time"),
        ({"from_at": "2026-11-21T12:00:00"}, "from_at is no time"),
        ({"to_at": "2026-11-21T12:00:00Z"}, "ends before it begins"),
    ],
)
def test_rows_that_make_no_sense_are_set_aside(changes: dict[str, object], told: str) -> None:
    rows, faults = report_rows(message(report(), report(**changes), 3), "east")
    assert len(rows) == 1
    assert told in faults[0]
    assert faults[1] == "a row that is no object"


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
        b" " * (MOST_BYTES + 1),
    ],
)
def test_messages_that_are_no_reports_are_set_aside(value: bytes | None) -> None:
    rows, faults = report_rows(value, "east")
    assert rows == []
    assert len(faults) == 1


def test_what_consumers_write_is_what_the_collector_reads() -> None:
    tally = Tally(AT)
    tally.add(("orders", 1), "a", 100)
    tally.add(("orders", 1), "a", 50)
    tally.add(("orders", 1), "b", 7)
    tally.add(("orders", 0), None, 1)
    later = AT + timedelta(seconds=60)
    told = tally.take(later, [(("orders", 1), "a"), (("orders", 2), "c")])
    assert told is not None
    values = report_messages(told, cluster=None, group="billing", member_id="m", to_rack="b")
    rows = []
    for value in values:
        good, bad = report_rows(value, "east")
        assert bad == []
        rows += good
    columns = list(CLIENT_REPORTS)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [(row["topic"], row["partition"], row["from_rack"], row["bytes"]) for row in found] == [
        ("orders", 0, None, 1),
        ("orders", 1, "a", 150),
        ("orders", 1, "b", 7),
        # Held and quiet, which is worth knowing.
        ("orders", 2, "c", 0),
    ]
    assert {(row["cluster"], row["group"], row["member_id"], row["to_rack"]) for row in found} == {
        ("east", "billing", "m", "b")
    }
    assert {row["to_at"] for row in found} == {later.replace(microsecond=123000)}


def test_a_tally_starts_again_with_each_report() -> None:
    tally = Tally(AT)
    assert tally.take(AT + timedelta(seconds=1), []) is None
    tally.add(("orders", 0), "a", 5)
    second = tally.take(AT + timedelta(seconds=2), [])
    assert second is not None
    assert (second.from_at, second.to_at) == (AT + timedelta(seconds=1), AT + timedelta(seconds=2))
    assert second.fetched == {("orders", 0, "a"): 5}
    tally.add(("orders", 0), "a", 5)
    # The clock was set back: no time can be given for these bytes.
    assert tally.take(AT, []) is None
    assert tally.take(AT + timedelta(seconds=1), []) is None


def test_large_reports_are_several_messages() -> None:
    tally = Tally(AT)
    for partition in range(2500):
        tally.add(("orders", partition), "a", 1)
    told = tally.take(AT + timedelta(seconds=1), [])
    assert told is not None
    values = list(report_messages(told, cluster="east", group="g", member_id="m", to_rack=None))
    assert [len(report_rows(value, "")[0]) for value in values] == [1000, 1000, 500]
    assert max(map(len, values)) < MOST_BYTES
