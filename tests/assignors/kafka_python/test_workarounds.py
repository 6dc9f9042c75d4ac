"""Metadata that lacks brokers or topics, and which consumers have the workarounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kafka.consumer.group
import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import NodeNotReadyError, UnknownBrokerIdError

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python import enable_workarounds
from tests.support.kafka_python import Consumers, receive_metadata

UNKNOWN_BROKER = 77


def send(consumer: Any) -> Any:
    """Send a request to a broker that is missing from the metadata."""
    return consumer._client._manager.send(object(), node_id=UNKNOWN_BROKER)


# Which consumers have the workarounds, shown by an unknown broker.


@pytest.mark.parametrize("strategy", [Sticky, Range])
def test_a_request_to_an_unknown_broker_fails_with_a_retriable_error(
    consumers: Consumers, strategy: Any
) -> None:
    consumer = consumers(strategy(rack="a"))
    receive_metadata(consumer, t=[0])
    future = send(consumer)
    assert future.failed()
    assert isinstance(future.exception, NodeNotReadyError)
    assert future.exception.retriable
    assert consumer._coordinator.workarounds_enabled


@pytest.mark.parametrize("strategies", [[Sticky(workarounds=False)], [RangePartitionAssignor]])
def test_without_workarounds_until_they_are_enabled(
    consumers: Consumers, strategies: list[Any]
) -> None:
    consumer = consumers(*strategies)
    receive_metadata(consumer, t=[0])
    assert not consumer._coordinator.workarounds_enabled
    with pytest.raises(UnknownBrokerIdError):
        send(consumer)
    enable_workarounds(consumer)
    replaced = consumer._client._manager.send
    enable_workarounds(consumer)
    assert consumer._client._manager.send is replaced
    assert consumer._coordinator.workarounds_enabled
    assert send(consumer).failed()


def test_one_assignor_without_workarounds_decides_for_the_consumer(consumers: Consumers) -> None:
    assert not consumers(Range(), Sticky(workarounds=False))._coordinator.workarounds_enabled


def test_a_consumer_constructed_before_install_is_refused(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka.consumer.group, "ConsumerCoordinator", ConsumerCoordinator)
    with pytest.raises(TypeError, match=r"call assignors\.kafka_python\.install\(\) before"):
        enable_workarounds(consumers(RangePartitionAssignor))


# Topics that do not exist.


class ScheduledCalls:
    """Records calls of the coordinator's ``call_later``: seconds and method."""

    def __init__(self, consumer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(
            consumer._coordinator,
            "call_later",
            lambda seconds, method: self.calls.append((seconds, method)),
        )


def plans_metadata_request(consumer: Any) -> bool:
    return bool(consumer._client.cluster.need_update)


@pytest.mark.parametrize(("missing", "expected"), [(1, 1.0), (100, 1.0), (101, 1.01), (300, 3.0)])
def test_next_metadata_request_depends_on_missing_topics(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, missing: int, expected: float
) -> None:
    absent = {f"absent-{number}": list[int]() for number in range(missing)}
    consumer = consumers(Sticky(rack="a"), topics=("t", *absent))
    scheduled = ScheduledCalls(consumer, monkeypatch)
    for _ in range(3):
        receive_metadata(consumer, t=[0], **absent)
        assert not plans_metadata_request(consumer)
    ((seconds, retry),) = scheduled.calls
    assert seconds == pytest.approx(expected)
    retry()
    assert plans_metadata_request(consumer)
    receive_metadata(consumer, t=[0], **absent)
    assert len(scheduled.calls) == 2


def test_nothing_is_scheduled_if_no_topic_is_missing(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumers(Sticky(rack="a"))
    scheduled = ScheduledCalls(consumer, monkeypatch)
    receive_metadata(consumer, t=[0])
    assert not plans_metadata_request(consumer)
    assert scheduled.calls == []


def test_without_the_workaround_metadata_is_requested_at_once(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a", workarounds=False), topics=("t", "absent"))
    receive_metadata(consumer, t=[0], absent=[])
    assert plans_metadata_request(consumer)
