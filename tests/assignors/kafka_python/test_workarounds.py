"""Who is spared kafka-python's faults, and who asked not to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka.consumer.group
import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import NodeNotReadyError, UnknownBrokerIdError

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python import harden
from tests.support.kafka_python import Consumers, answer, offline_consumers

UNKNOWN = 77


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


def send(consumer: Any) -> Any:
    """Ask a broker that no metadata knows for something."""
    return consumer._client._manager.send(object(), node_id=UNKNOWN)


@pytest.mark.parametrize("strategy", [Sticky, Range])
def test_a_broker_that_metadata_lacks_is_tried_again(consumers: Consumers, strategy: Any) -> None:
    consumer = consumers(strategy(rack="a"))
    answer(consumer, t=[0])
    future = send(consumer)
    assert future.failed()
    assert isinstance(future.exception, NodeNotReadyError)
    assert future.exception.retriable
    assert consumer._coordinator.steady


@pytest.mark.parametrize("strategies", [[Sticky(hardened=False)], [RangePartitionAssignor]])
def test_others_are_as_kafka_python_made_them_until_asked(
    consumers: Consumers, strategies: list[Any]
) -> None:
    consumer = consumers(*strategies)
    answer(consumer, t=[0])
    assert not consumer._coordinator.steady
    with pytest.raises(UnknownBrokerIdError):
        send(consumer)
    harden(consumer)
    once = consumer._client._manager.send
    harden(consumer)
    assert consumer._client._manager.send is once
    assert consumer._coordinator.steady
    assert send(consumer).failed()


def test_one_that_will_not_have_it_decides_for_the_consumer(consumers: Consumers) -> None:
    assert not consumers(Range(), Sticky(hardened=False))._coordinator.steady


def test_one_that_was_made_before_cannot_be_hardened(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka.consumer.group, "ConsumerCoordinator", ConsumerCoordinator)
    with pytest.raises(TypeError, match="before the consumer is made"):
        harden(consumers(RangePartitionAssignor))
