"""How often a consumer asks for topics that are not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python.workarounds import seconds_to_wait
from tests.support.kafka_python import Consumers, answer, offline_consumers


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


class Later:
    """Calls that were put off, with the seconds until they are due."""

    def __init__(self, consumer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(
            consumer._coordinator, "_later", lambda after, call: self.calls.append((after, call))
        )


def wants(consumer: Any) -> bool:
    """Whether the consumer asks for metadata of itself now."""
    return bool(consumer._client.cluster.need_update)


@pytest.mark.parametrize(("missing", "seconds"), [(1, 1.0), (100, 1.0), (101, 1.01), (5000, 50.0)])
def test_the_pause_grows_with_what_is_missing(missing: int, seconds: float) -> None:
    assert seconds_to_wait(missing) == pytest.approx(seconds)


def test_it_pauses_once_and_asks_again(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = [f"absent-{number}" for number in range(300)]
    consumer = consumers(Sticky(rack="a"), topics=("t", *absent))
    later = Later(consumer, monkeypatch)
    for _ in range(3):
        answer(consumer, t=[0], **{key: [] for key in absent})
        assert not wants(consumer)
    ((seconds, ask),) = later.calls
    assert seconds == pytest.approx(3.0)
    ask()
    assert wants(consumer)
    answer(consumer, t=[0], **{key: [] for key in absent})
    assert len(later.calls) == 2


def test_nothing_is_put_off_where_nothing_is_missing(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumers(Sticky(rack="a"))
    later = Later(consumer, monkeypatch)
    answer(consumer, t=[0])
    assert not wants(consumer)
    assert later.calls == []


def test_without_the_workaround_it_goes_on_asking(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a", hardened=False), topics=("t", "absent"))
    answer(consumer, t=[0], absent=[])
    assert wants(consumer)
