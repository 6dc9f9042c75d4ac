"""Membership in the group of controllers, with a consumer that does not connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kafka
import pytest

from assignors.kafka_python import install, uninstall
from assignors.kafka_python.coordinator import RackAwareCoordinator
from rackward.controller.lease import Lease
from rackward.controller.pending_replicas import PENDING_REPLICAS_TOPIC

PARTITION = kafka.TopicPartition(PENDING_REPLICAS_TOPIC, 0)


class FakeConsumer:
    """Has a coordinator of the class that a KafkaConsumer would construct."""

    def __init__(self, **configs: Any) -> None:
        self.configs = configs
        coordinator: Any = object.__new__(kafka.consumer.group.ConsumerCoordinator)
        coordinator.enable_workarounds = lambda: None
        self._coordinator = coordinator
        self.subscribed: list[str] = []
        self.paused: list[kafka.TopicPartition] = []

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.subscribed, self.listener = topics, listener

    def pause(self, partition: kafka.TopicPartition) -> None:
        self.paused.append(partition)


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeConsumer]]:
    """Replace KafkaConsumer in a process that has not installed our coordinator yet."""
    created: list[FakeConsumer] = []

    def create(**configs: Any) -> FakeConsumer:
        created.append(FakeConsumer(**configs))
        return created[-1]

    installed = kafka.consumer.group.ConsumerCoordinator is RackAwareCoordinator
    uninstall()
    monkeypatch.setattr(kafka, "KafkaConsumer", create)
    yield created
    if installed:
        install()
    else:
        uninstall()


def test_the_consumer_has_a_coordinator_with_workarounds(consumers: list[FakeConsumer]) -> None:
    Lease({"bootstrap.servers": "k:1"}, "host-1")
    (consumer,) = consumers
    assert isinstance(consumer._coordinator, RackAwareCoordinator)
    assert consumer.subscribed == [PENDING_REPLICAS_TOPIC]
    assert consumer.configs["group_id"] == "rackward-controller"
    assert not consumer.configs["enable_auto_commit"]


def test_ownership_follows_the_assignment(consumers: list[FakeConsumer]) -> None:
    lease = Lease({"bootstrap.servers": "k:1"}, "host-1")
    (listener,) = [each.listener for each in consumers]
    assert not lease.owned
    listener.on_partitions_assigned([PARTITION])
    assert lease.owned
    assert not lease.ready, "the records have not been read"
    assert not lease.verify_ownership()
    assert consumers[0].paused == [PARTITION], "no record is returned before the first is read"
    listener.on_partitions_revoked([])
    assert lease.owned
    listener.on_partitions_lost([PARTITION])
    assert not lease.owned
