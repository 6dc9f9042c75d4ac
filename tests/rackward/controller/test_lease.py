"""Membership in the group of controllers, with a consumer that does not connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import kafka
import pytest
from kafka.errors import CommitFailedError

from assignors.kafka_python import install, uninstall
from assignors.kafka_python.coordinator import RackAwareCoordinator
from rackward.controller.lease import HEARTBEAT_SECONDS, Lease, LeaseLostError
from rackward.topics.pending_replicas import PENDING_REPLICAS_TOPIC
from tests.support.waiting import Clock

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
        self.polls = self.commits = 0
        self.on_poll: Callable[[], object] = lambda: None
        self.refuses = False

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self.subscribed, self.listener = topics, listener

    def pause(self, partition: kafka.TopicPartition) -> None:
        self.paused.append(partition)

    def poll(self, timeout_ms: int) -> dict[object, object]:  # noqa: ARG002
        self.polls += 1
        self.on_poll()
        return {}

    def commit(self, offsets: object, timeout_ms: int) -> None:  # noqa: ARG002
        self.commits += 1
        if self.refuses:
            raise CommitFailedError

    def offsets(self, partitions: list[Any], timeout_ms: int) -> dict[Any, int]:  # noqa: ARG002
        return dict.fromkeys(partitions, 0)

    beginning_offsets = end_offsets = offsets

    def position(self, partition: object, timeout_ms: int) -> int:  # noqa: ARG002
        return 0

    def ignore(self, partition: object) -> None:
        """Do nothing."""

    seek_to_beginning = resume = ignore


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeConsumer]]:
    """Replace KafkaConsumer in a process that has not installed rackward's coordinator yet."""
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


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def lease(consumers: list[FakeConsumer], now: Clock) -> Lease:
    """A lease that is owned and ready, and has been polled."""
    lease = Lease({"bootstrap.servers": "k:1"}, "host-1", now)
    consumers[0].listener.on_partitions_assigned([PARTITION])
    lease.poll(0)
    assert lease.ready
    return lease


def test_a_change_has_half_of_the_session_from_before_the_commit(lease: Lease, now: Clock) -> None:
    with lease.fenced("a change") as deadline:
        assert deadline.remaining == 5.0
        # The process is suspended here.
        now.now += 5.0
        assert deadline.remaining == 0.0
    with lease.fenced("a change") as deadline:
        assert deadline.remaining == 5.0


def test_each_change_is_confirmed_by_the_coordinator(
    lease: Lease, consumers: list[FakeConsumer]
) -> None:
    for number in range(1, 4):
        with lease.fenced("a change"):
            assert consumers[0].commits == number
    consumers[0].refuses = True
    with pytest.raises(LeaseLostError), lease.fenced("a change"):
        pytest.fail("the change is made")
    assert not lease.owned
    with pytest.raises(LeaseLostError), lease.fenced("a change"):
        pytest.fail("the change is made")
    assert consumers[0].commits == 4, "the coordinator is not asked again"


@pytest.mark.parametrize("kept", [True, False], ids=["while it is kept", "in the commit"])
def test_a_plan_is_out_of_date_once_the_lease_was_lost(
    lease: Lease, consumers: list[FakeConsumer], now: Clock, kept: bool
) -> None:
    """Also if this controller has it again, with all records, when the change is due."""
    listener = consumers[0].listener

    def rebalance() -> None:
        listener.on_partitions_revoked([PARTITION])
        listener.on_partitions_assigned([PARTITION])

    now.now += HEARTBEAT_SECONDS
    if kept:
        consumers[0].on_poll = rebalance
    else:
        consumers[0].refuses = True
        with suppress(LeaseLostError), lease.fenced("a change"):
            pass
        consumers[0].refuses = False
        listener.on_partitions_assigned([PARTITION])
    lease.heartbeat()
    assert lease.ready
    assert lease.verify_ownership()
    with pytest.raises(LeaseLostError), lease.fenced("a change"):
        pytest.fail("the change is made")
    consumers[0].on_poll = lambda: None
    lease.poll(0)
    with lease.fenced("a change"):
        pass


def test_the_lease_is_kept_while_the_controller_works(
    lease: Lease, consumers: list[FakeConsumer], now: Clock
) -> None:
    polls = consumers[0].polls
    assert not lease.heartbeat()
    assert consumers[0].polls == polls, "it was polled a moment ago"
    for _ in range(300):
        now.now += HEARTBEAT_SECONDS
        assert lease.heartbeat()
    assert consumers[0].polls == polls + 300
    consumers[0].refuses = True
    now.now += HEARTBEAT_SECONDS
    assert not lease.heartbeat()
    assert not lease.owned
