"""Handling of rebalance events by the rules of librdkafka, without brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assignors.confluent import Consumer
from assignors.confluent.assignment import RebalanceCallback
from assignors.confluent.config import COOPERATIVE
from assignors.confluent.config import RANGE as EAGER
from assignors.confluent.events import RebalanceEvent, RebalanceKind

ASSIGN, REVOKE, LOST = RebalanceKind.ASSIGN, RebalanceKind.REVOKE, RebalanceKind.LOST
BOTH_PROTOCOLS = pytest.mark.parametrize("strategy", [COOPERATIVE, EAGER])


class Group:
    """A consumer that rebalances only when the test adds an event.

    ``calls`` has kind, partitions and assignment of each callback; ``handled`` has the results of
    the events.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.calls: list[tuple[str, list[int], list[int]]] = []
        self.handled: list[bool] = []
        self.consumer = consumer
        self.callbacks = consumer._assignment.callbacks
        self.callbacks.update({kind: self._recorder(kind.value) for kind in RebalanceKind})

    def _recorder(self, kind: str) -> RebalanceCallback:
        def record(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.calls.append((kind, numbers(partitions), numbers(consumer.assignment())))

        return record

    def rebalance(self, kind: RebalanceKind, *partitions: int, all_of: bool = False) -> list[int]:
        """Handle an event, and return the assignment after it."""
        keys = None if all_of else tuple(("t", partition) for partition in partitions)
        self.consumer._events.put(RebalanceEvent(kind, keys, self.handled.append))
        assert self.consumer.poll(0) is None
        return numbers(self.consumer.assignment())


def numbers(partitions: list[TopicPartition]) -> list[int]:
    return [partition.partition for partition in partitions]


@contextmanager
def group_of(strategy: str) -> Iterator[Group]:
    consumer = Consumer(
        {
            "group.id": "g",
            "partition.assignment.strategy": strategy,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        yield Group(consumer)
    finally:
        consumer.close()


def test_cooperative_rebalances_are_incremental() -> None:
    with group_of(COOPERATIVE) as group:
        assert group.rebalance(ASSIGN, 2, 0) == [0, 2]
        assert group.rebalance(ASSIGN) == [0, 2]
        assert group.rebalance(REVOKE, 2) == [0]
        assert group.rebalance(ASSIGN, 1) == [0, 1]
        assert group.rebalance(LOST, all_of=True) == []
        # Callbacks are called before the change, as in confluent's client.
        assert group.calls == [
            ("assign", [0, 2], []),
            ("assign", [], [0, 2]),
            ("revoke", [2], [0, 2]),
            ("assign", [1], [0]),
            ("lost", [0, 1], [0, 1]),
        ]
        assert group.handled == [True] * 5


def test_eager_rebalances_replace_the_assignment() -> None:
    with group_of(EAGER) as group:
        assert group.rebalance(ASSIGN, 0, 1) == [0, 1]
        assert group.rebalance(REVOKE, 0, 1) == []
        assert group.rebalance(ASSIGN) == []
        assert group.rebalance(REVOKE, all_of=True) == []
        assert group.rebalance(ASSIGN, 1) == [1]
        assert [call[:2] for call in group.calls] == [
            ("assign", [0, 1]),
            ("revoke", [0, 1]),
            ("assign", []),
            ("revoke", []),
            ("assign", [1]),
        ]


@BOTH_PROTOCOLS
def test_without_partitions_nothing_is_revoked(strategy: str) -> None:
    with group_of(strategy) as group:
        group.rebalance(REVOKE, 0)
        group.rebalance(LOST, all_of=True)
        assert group.calls == []
        assert group.handled == [True, True]


def test_without_on_lost_on_revoke_is_called() -> None:
    with group_of(COOPERATIVE) as group:
        del group.callbacks[LOST]
        group.rebalance(ASSIGN, 0)
        group.rebalance(LOST, all_of=True)
        assert [call[:2] for call in group.calls] == [("assign", [0]), ("revoke", [0])]


@BOTH_PROTOCOLS
def test_an_assignment_by_the_callback_is_kept(strategy: str) -> None:
    with group_of(strategy) as group:
        consumer = group.consumer
        wanted = [TopicPartition("t", 0, 7)]
        group.callbacks[ASSIGN] = lambda *_: (
            consumer.incremental_assign(wanted)
            if strategy == COOPERATIVE
            else consumer.assign(wanted)
        )
        assert group.rebalance(ASSIGN, 0, 1) == [0]
        assert consumer.assignment()[0].offset == 7
        # The partition that the callback left out can be revoked too.
        assert group.rebalance(REVOKE, 0, 1) == []


@BOTH_PROTOCOLS
def test_after_a_callback_that_raises_the_partitions_are_assigned(strategy: str) -> None:
    with group_of(strategy) as group:

        def fail(*_: object) -> None:
            raise ZeroDivisionError("in a callback")

        group.callbacks[ASSIGN] = fail
        with pytest.raises(ZeroDivisionError):
            group.rebalance(ASSIGN, 0)
        assert numbers(group.consumer.assignment()) == [0]
        assert group.handled == [True]


@pytest.mark.parametrize(
    ("strategy", "call"),
    [
        (COOPERATIVE, lambda consumer: consumer.assign([])),
        (COOPERATIVE, lambda consumer: consumer.unassign()),
        (EAGER, lambda consumer: consumer.incremental_assign([])),
        (EAGER, lambda consumer: consumer.incremental_unassign([])),
    ],
)
def test_calls_of_the_other_rebalance_protocol_are_refused(
    strategy: str, call: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with group_of(strategy) as group:
        call(group.consumer)  # Before the first join the group has no protocol.
        monkeypatch.setattr(type(group.consumer._member), "has_joined", True)
        with pytest.raises(KafkaException) as caught:
            call(group.consumer)
        assert caught.value.args[0].code() == KafkaError._STATE
