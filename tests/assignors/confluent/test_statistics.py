"""Completing librdkafka's statistics."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from assignors.confluent.events import PartitionKey, Position, RebalanceKind
from assignors.confluent.statistics import Statistics, complete_statistics

CGRP = {
    "state": "up",
    "stateage": 900,
    "join_state": "steady",
    "rebalance_age": 700,
    "rebalance_cnt": 3,
    "rebalance_reason": "rebalance in progress",
    "assignment_size": 2,
}


def complete(
    statistics: Any, committed: dict[PartitionKey, Position] | None = None, **options: bool
) -> Any:
    text = statistics if isinstance(statistics, str) else json.dumps(statistics)
    options = {"read_committed": True, **options}
    return json.loads(complete_statistics(text, CGRP, committed or {}, **options))


def of_partition(fields: Any, topic: str = "t", partition: str = "0") -> dict[str, Any]:
    return {"topics": {topic: {"partitions": {partition: fields}}}}


@pytest.mark.parametrize(
    "statistics",
    [
        {},
        {"topics": {}},
        {"topics": None},
        {"topics": []},
        {"topics": {"t": None}},
        {"topics": {"t": {}}},
        {"topics": {"t": {"partitions": [1]}}},
        of_partition(None),
        of_partition(7),
        # Offsets that librdkafka has fetched itself, of partitions that the member does not know.
        of_partition({"committed_offset": 3, "consumer_lag": 4}, partition="1"),
        of_partition({"committed_offset": 3, "consumer_lag": 4}, topic="other"),
        of_partition({"committed_offset": -1001}, partition="-1"),
        {"name": "rdkafka#consumer-1", "brokers": {"b": {"rtt": {"avg": 1.5}}}, "new": [None, {}]},
    ],
)
def test_everything_else_stays(statistics: dict[str, Any]) -> None:
    after = complete(statistics, {("t", 0): Position(4)})
    assert after == {**statistics, "cgrp": CGRP}


@pytest.mark.parametrize("text", ["", "{", "no JSON", '{"a": "\x01"', "[]", "3", "null", '"t"'])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert complete_statistics(text, CGRP, {}, read_committed=True) == text


@pytest.mark.parametrize(
    ("handling", "is_stable", "is_joining", "state"),
    [
        (None, False, False, "init"),
        (None, False, True, "wait-join"),
        (None, True, False, "steady"),
        (RebalanceKind.ASSIGN, False, True, "wait-assign-call"),
        (RebalanceKind.REVOKE, False, True, "wait-unassign-call"),
        (RebalanceKind.LOST, False, False, "wait-unassign-call"),
    ],
)
def test_the_state_of_the_join(
    handling: RebalanceKind | None, is_stable: bool, is_joining: bool, state: str
) -> None:
    coordinator = SimpleNamespace(
        coordinator_id=1, rebalance_reason="", rebalance_in_progress=lambda: is_joining
    )
    member: Any = SimpleNamespace(
        coordinator=coordinator, is_subscribed=True, is_stable=is_stable, closing=False
    )
    assignment: Any = SimpleNamespace(
        handling=handling, rebalances=1, last_rebalance=None, owned=None
    )
    committer: Any = SimpleNamespace(committed=dict)
    configuration: Any = SimpleNamespace(kafka_python={"isolation_level": "read_committed"})
    statistics = Statistics(configuration, member, assignment, committer)
    group = json.loads(statistics.complete("{}"))["cgrp"]
    assert (group["state"], group["join_state"]) == ("up", state)
