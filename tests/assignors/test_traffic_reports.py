"""Counted bytes, and the messages that carry them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

from assignors.traffic_reports import TrafficCounter, TrafficReport, report_messages

AT = datetime(2026, 11, 21, 13, 0, tzinfo=UTC)


def test_a_traffic_counter_starts_again_after_each_report() -> None:
    counter = TrafficCounter(AT)
    assert counter.take_report(AT + timedelta(seconds=1), []) is None
    counter.add(("orders", 0), "a", 5)
    second = counter.take_report(AT + timedelta(seconds=2), [])
    assert second is not None
    assert (second.from_at, second.to_at) == (AT + timedelta(seconds=1), AT + timedelta(seconds=2))
    assert second.fetched == {("orders", 0, "a"): 5}
    counter.add(("orders", 0), "a", 5)
    # The clock was set back, so these bytes have no valid period.
    assert counter.take_report(AT, []) is None
    assert counter.take_report(AT + timedelta(seconds=1), []) is None


def test_bytes_are_added_by_partition_and_rack_and_idle_partitions_are_listed() -> None:
    counter = TrafficCounter(AT)
    counter.add(("orders", 1), "a", 100)
    counter.add(("orders", 1), "a", 50)
    counter.add(("orders", 1), "b", 7)
    counter.add(("orders", 0), None, 1)
    later = AT + timedelta(seconds=60)
    report = counter.take_report(
        later, [(("orders", 1), "c"), (("orders", 2), "c"), (("payments", 1), None)]
    )
    assert report == TrafficReport(
        AT,
        later,
        {
            ("orders", 1, "a"): 150,
            ("orders", 1, "b"): 7,
            ("orders", 0, None): 1,
            ("orders", 2, "c"): 0,
            ("payments", 1, None): 0,
        },
    )
    # No time has passed.
    counter.add(("orders", 1), "a", 1)
    assert counter.take_report(later, []) is None


def test_messages_are_complete_and_in_order_of_partitions_and_racks() -> None:
    start = AT.astimezone(timezone(timedelta(hours=2))) + timedelta(microseconds=123999)
    fetched = {("u", 0, "a"): 1, ("t", 10, "a"): 2, ("t", 2, "B"): 3, ("t", 2, None): 4}
    report = TrafficReport(start, AT + timedelta(seconds=60), fetched)
    (value,) = report_messages(report, cluster="east", group="g", member_id="m", to_rack="b")
    assert b" " not in value
    message = json.loads(value)
    assert message["table"] == "client_reports"
    assert [
        (row["topic"], row["partition"], row["from_rack"], row["bytes"]) for row in message["rows"]
    ] == [("t", 2, None, 4), ("t", 2, "B", 3), ("t", 10, "a", 2), ("u", 0, "a", 1)]
    assert message["rows"][0] == {
        "cluster": "east",
        "group": "g",
        "member_id": "m",
        "topic": "t",
        "partition": 2,
        "from_rack": None,
        "to_rack": "b",
        "bytes": 4,
        "from_at": "2026-11-21T13:00:00.123Z",
        "to_at": "2026-11-21T13:01:00.000Z",
    }


def test_a_message_has_at_most_a_thousand_rows() -> None:
    for rows, expected in ((0, []), (1000, [1000]), (1001, [1000, 1])):
        report = TrafficReport(AT, AT, {("t", number, "a"): 1 for number in range(rows)})
        values = report_messages(report, cluster=None, group="g", member_id="m", to_rack=None)
        assert [len(json.loads(value)["rows"]) for value in values] == expected
