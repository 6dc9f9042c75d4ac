"""Snapshots as messages of a topic."""

from __future__ import annotations

import json

from rack_traffic.snapshot_tables import SNAPSHOT_TABLES
from rackward.collector.topic_sink import to_messages, to_values
from tests.support.traffic_frames import snapshot


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
