"""Metadata of a test cluster: brokers that lag, and a controller that is slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from rackward.testing import ClusterError, admin

PARTITION = TopicPartition("t", 0)
BROKERS = (Broker(0), Broker(1))
CURRENT = ClusterView(BROKERS, {PARTITION: (0, 1)}, {PARTITION: 0})
LAGGING = ClusterView(BROKERS)


def set_views(monkeypatch: pytest.MonkeyPatch, by_port: dict[int, ClusterView]) -> None:
    """Set the metadata of each broker, because the lag of a real broker cannot be controlled."""

    def read_view(ports: Sequence[int], _topics: Iterable[str] | None) -> ClusterView:
        return by_port[ports[0]]

    monkeypatch.setattr(admin, "read_view", read_view)


def set_responses(monkeypatch: pytest.MonkeyPatch, *responses: dict[str, Any]) -> list[str]:
    """Make brokers send these responses in order; return the list of request names, which grows."""
    remaining, requests = list(responses), []

    def send(request: Any) -> Any:
        requests.append(type(request).__name__)
        response = remaining.pop(0)
        return SimpleNamespace(to_dict=lambda: response)

    @contextmanager
    def connection(_port: int, _timeout: float) -> Iterator[Any]:
        yield SimpleNamespace(send=send)

    monkeypatch.setattr(admin, "_connection", connection)
    return requests


def test_the_view_of_a_lagging_broker_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    set_views(monkeypatch, {1: LAGGING, 2: CURRENT, 3: LAGGING})
    with pytest.raises(ClusterError, match="broker 5 holds no replica of t 0: only 0, 1"):
        admin.move_leaders([1, 2, 3], {PARTITION: 5}, 1.0)


def test_a_partition_that_no_broker_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    set_views(monkeypatch, {1: LAGGING, 2: LAGGING})
    with pytest.raises(ClusterError, match="no partition 0 of t"):
        admin.move_leaders([1, 2], {PARTITION: 1}, 1.0)


def test_a_request_is_repeated_after_a_timeout_of_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    led_by_1 = ClusterView(BROKERS, {PARTITION: (1, 0)}, {PARTITION: 1})
    views = iter([CURRENT])
    monkeypatch.setattr(admin, "read_view", lambda *_: next(views, led_by_1))
    timed_out = {"error_code": 7, "error_message": None}
    requests = set_responses(monkeypatch, timed_out, {"error_code": 0, "responses": []})
    admin.move_leaders([1], {PARTITION: 1}, 1.0)
    assert requests == ["AlterPartitionReassignmentsRequest"] * 2


def test_a_request_is_repeated_while_a_broker_has_no_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def quorum(code: int, high_watermark: int) -> dict[str, Any]:
        log = {"error_code": code, "high_watermark": high_watermark}
        return {"error_code": 0, "topics": [{"partitions": [log]}]}

    set_responses(monkeypatch, {"error_code": 41, "topics": []}, quorum(6, -1), quorum(0, 8))
    assert admin.committed_offset([1, 2]) == 7
