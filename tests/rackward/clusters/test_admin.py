"""Brokers that have not all heard of it yet, and a controller that is slow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from rackward.clusters import ClusterError, admin

PLACE = TopicPartition("t", 0)
KNOWN = ClusterView((Broker(0), Broker(1)), {PLACE: (0, 1)}, {PLACE: 0})
UNHEARD_OF = ClusterView((Broker(0), Broker(1)))


def told(monkeypatch: pytest.MonkeyPatch, by_port: dict[int, ClusterView]) -> None:
    """What brokers answer: how far each is cannot be chosen on a real cluster."""

    def read_view(ports: Sequence[int], _: Iterable[str] | None) -> ClusterView:
        return by_port[ports[0]]

    monkeypatch.setattr(admin, "read_view", read_view)


def test_a_broker_that_lags_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, {1: UNHEARD_OF, 2: KNOWN, 3: UNHEARD_OF})
    with pytest.raises(ClusterError, match="broker 5 holds no replica of t 0: only 0, 1"):
        admin.move_leaders([1, 2, 3], {PLACE: 5}, 1.0)


def test_what_no_broker_knows_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, {1: UNHEARD_OF, 2: UNHEARD_OF})
    with pytest.raises(ClusterError, match="no partition 0 of t"):
        admin.move_leaders([1, 2], {PLACE: 1}, 1.0)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Any]) -> list[str]:
    """Whoever is asked answers so, one after the other; what they are asked for is returned."""
    left, asked = list(answers), []

    def ask(request: Any) -> Any:
        asked.append(type(request).__name__)
        answer = left.pop(0)
        return SimpleNamespace(to_dict=lambda: answer)

    @contextmanager
    def connection(_port: int, _timeout: float) -> Iterator[Any]:
        yield SimpleNamespace(ask=ask)

    monkeypatch.setattr(admin, "_connection", connection)
    return asked


def test_a_controller_that_is_slow_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    led_by_1 = ClusterView((Broker(0), Broker(1)), {PLACE: (1, 0)}, {PLACE: 1})
    views = iter([KNOWN])
    monkeypatch.setattr(admin, "read_view", lambda *_: next(views, led_by_1))
    slow = {"error_code": 7, "error_message": None}
    asked = answering(monkeypatch, slow, {"error_code": 0, "responses": []})
    admin.move_leaders([1], {PLACE: 1}, 1.0)
    assert asked == ["AlterPartitionReassignmentsRequest"] * 2


def test_a_broker_without_a_controller_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def quorum(code: int, mark: int) -> dict[str, Any]:
        log = {"error_code": code, "high_watermark": mark}
        return {"error_code": 0, "topics": [{"partitions": [log]}]}

    answering(monkeypatch, {"error_code": 41, "topics": []}, quorum(6, -1), quorum(0, 8))
    assert admin.committed_offset([1, 2]) == 7
