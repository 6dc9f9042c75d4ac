"""Throttles where brokers hear of a change one after another."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from placement_core import TopicPartition
from placement_core.moves import Move
from rackward.admin import AdminConnection, TooOldError, UnreachableError, throttles
from rackward.admin.deadline import Deadline
from rackward.admin.throttles import ReplicationThrottle

MOVE = Move(TopicPartition("t", 0), (0,), (0, 1))


class Brokers:
    """Answers as brokers do, of whom each has yet to be asked so often until it hears of a change.

    ``nearest`` is who answers where nobody is named; ``away`` does not answer at all.
    """

    timeout = 1.0

    def __init__(self, *lags: int, away: int | None = None) -> None:
        self.nearest, self.away = 0, away
        self._lags = list(lags)
        self._late = [0 for _ in lags]
        self._now: dict[tuple[int, str], dict[str, str]] = {}
        self._before: list[dict[tuple[int, str], dict[str, str]]] = [{} for _ in lags]

    def deadline(self) -> Deadline:
        return Deadline.after(self.timeout)

    def ask(self, _: str, request: Any, *, node: int | None = None, deadline: Any = None) -> Any:
        broker = self.nearest if node is None else node
        if broker == self.away:
            assert deadline is None or deadline.seconds <= 1.0
            raise UnreachableError("nothing listens there")
        match type(request).__name__:
            case "MetadataRequest":
                known = [
                    SimpleNamespace(node_id=each, rack=None, host="h", port=1)
                    for each in range(len(self._lags))
                ]
                return SimpleNamespace(topics=[], brokers=known, cluster_id="c")
            case "DescribeClusterRequest":
                raise TooOldError("not this one")
            case "IncrementalAlterConfigsRequest":
                return self._change(request)
        return self._tell(broker, request)

    def _change(self, request: Any) -> Any:
        self._before = [self._heard(each) for each in range(len(self._lags))]
        self._late = list(self._lags)
        self._now = {place: dict(values) for place, values in self._now.items()}
        for each in request.resources:
            values = self._now.setdefault((each.resource_type, each.resource_name), {})
            for change in each.configs:
                values.pop(change.name, None)
                if change.value is not None:
                    values[change.name] = change.value
        return SimpleNamespace(responses=[])

    def _heard(self, broker: int) -> dict[tuple[int, str], dict[str, str]]:
        return self._before[broker] if self._late[broker] else self._now

    def _tell(self, broker: int, request: Any) -> Any:
        heard = self._heard(broker)
        self._late[broker] = max(0, self._late[broker] - 1)
        return SimpleNamespace(
            results=[
                SimpleNamespace(
                    error_code=0,
                    resource_name=each.resource_name,
                    configs=[
                        SimpleNamespace(name=key, value=value, config_source=3)
                        for key, value in heard.get(
                            (each.resource_type, each.resource_name), {}
                        ).items()
                    ],
                )
                for each in request.resources
            ]
        )


def throttle_of(brokers: Brokers) -> ReplicationThrottle:
    return ReplicationThrottle(cast("AdminConnection", brokers))


def test_what_was_set_is_found_at_whichever_broker_is_asked() -> None:
    brokers = Brokers(0, 3, 5)
    throttle = throttle_of(brokers)
    throttle.engage(50)
    throttle.cover([MOVE])
    brokers.nearest = 2
    assert [mark.ours for mark in throttle.found().marks] == [50]
    assert len(throttle.left(["t"])) == 2
    assert throttle.lift()


def test_a_broker_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttles, "_KNOWN_SECONDS", 0.2)
    brokers = Brokers(0, 0, 2, away=1)
    throttle = throttle_of(brokers)
    throttle.engage(50)
    brokers.nearest = 2
    assert throttle.found().marks
