"""What becomes of a step of the group's, by librdkafka's rules. No broker is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from assignors.confluent import Consumer
from assignors.confluent.events import Change, Step

COOPERATIVE = "leader-rack-aware-cooperative-sticky"
EAGER = "leader-rack-aware-range"


class Told:
    """A consumer in a group of which nothing comes but what the test puts."""

    def __init__(self, strategy: str) -> None:
        self.calls: list[tuple[str, list[int], list[int]]] = []
        self.ends: list[bool] = []
        self.consumer = Consumer(
            {
                "group.id": "g",
                "partition.assignment.strategy": strategy,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self.consumer._on = {
            Change.ASSIGN: self._note("assign"),
            Change.REVOKE: self._note("revoke"),
            Change.LOSE: self._note("lose"),
        }

    def _note(self, kind: str) -> Any:
        def note(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.calls.append((kind, numbers(partitions), numbers(consumer.assignment())))

        return note

    def step(self, change: Change, *partitions: int, everything: bool = False) -> list[int]:
        """Have it done; what is assigned then."""
        places = None if everything else tuple(("t", partition) for partition in partitions)
        self.consumer._inbox.put(Step(change, places, self.ends.append))
        assert self.consumer.poll(0) is None
        return numbers(self.consumer.assignment())


def numbers(partitions: list[TopicPartition]) -> list[int]:
    return [partition.partition for partition in partitions]


@contextmanager
def told(strategy: str) -> Iterator[Told]:
    made = Told(strategy)
    try:
        yield made
    finally:
        made.consumer.close()


def test_cooperative_steps_add_up() -> None:
    with told(COOPERATIVE) as group:
        assert group.step(Change.ASSIGN, 2, 0) == [0, 2]
        assert group.step(Change.ASSIGN) == [0, 2]
        assert group.step(Change.REVOKE, 2) == [0]
        assert group.step(Change.ASSIGN, 1) == [0, 1]
        assert group.step(Change.LOSE, everything=True) == []
        # Callbacks come before the change, as confluent's.
        assert group.calls == [
            ("assign", [0, 2], []),
            ("assign", [], [0, 2]),
            ("revoke", [2], [0, 2]),
            ("assign", [1], [0]),
            ("lose", [0, 1], [0, 1]),
        ]
        assert group.ends == [True] * 5


def test_eager_steps_replace() -> None:
    with told(EAGER) as group:
        assert group.step(Change.ASSIGN, 0, 1) == [0, 1]
        assert group.step(Change.REVOKE, 0, 1) == []
        assert group.step(Change.ASSIGN) == []
        assert group.step(Change.REVOKE, everything=True) == []
        assert group.step(Change.ASSIGN, 1) == [1]
        assert [call[:2] for call in group.calls] == [
            ("assign", [0, 1]),
            ("revoke", [0, 1]),
            ("assign", []),
            ("revoke", []),
            ("assign", [1]),
        ]


def test_nothing_is_taken_from_who_has_nothing() -> None:
    for strategy in (COOPERATIVE, EAGER):
        with told(strategy) as group:
            group.step(Change.REVOKE, 0)
            group.step(Change.LOSE, everything=True)
            assert group.calls == []
            assert group.ends == [True, True]


def test_without_on_lost_on_revoke_is_called() -> None:
    with told(COOPERATIVE) as group:
        del group.consumer._on[Change.LOSE]
        group.step(Change.ASSIGN, 0)
        group.step(Change.LOSE, everything=True)
        assert [call[:2] for call in group.calls] == [("assign", [0]), ("revoke", [0])]


@pytest.mark.parametrize("strategy", [COOPERATIVE, EAGER])
def test_what_the_callback_assigns_stays(strategy: str) -> None:
    with told(strategy) as group:
        consumer = group.consumer
        wanted = [TopicPartition("t", 0, 7)]
        group.consumer._on[Change.ASSIGN] = lambda *_: (
            consumer.incremental_assign(wanted)
            if strategy == COOPERATIVE
            else consumer.assign(wanted)
        )
        assert group.step(Change.ASSIGN, 0, 1) == [0]
        assert consumer.assignment()[0].offset == 7
        # What the application left out is no fault when it goes.
        assert group.step(Change.REVOKE, 0, 1) == []


@pytest.mark.parametrize("strategy", [COOPERATIVE, EAGER])
def test_a_callback_that_raises_is_followed_all_the_same(strategy: str) -> None:
    with told(strategy) as group:

        def fail(*_: object) -> None:
            raise ZeroDivisionError("in a callback")

        group.consumer._on[Change.ASSIGN] = fail
        with pytest.raises(ZeroDivisionError):
            group.step(Change.ASSIGN, 0)
        assert numbers(group.consumer.assignment()) == [0]
        assert group.ends == [True]


@pytest.mark.parametrize(
    ("strategy", "wrong"),
    [
        (COOPERATIVE, lambda consumer: consumer.assign([])),
        (COOPERATIVE, lambda consumer: consumer.unassign()),
        (EAGER, lambda consumer: consumer.incremental_assign([])),
        (EAGER, lambda consumer: consumer.incremental_unassign([])),
    ],
)
def test_the_groups_protocol_says_how_to_assign(
    strategy: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told(strategy) as group:
        wrong(group.consumer)  # Before the first join there is none.
        monkeypatch.setattr(type(group.consumer._membership), "joined_once", True)
        with pytest.raises(KafkaException) as caught:
            wrong(group.consumer)
        assert caught.value.args[0].code() == KafkaError._STATE
