"""assign, unassign, incremental_assign and incremental_unassign, by hand and in callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException
from confluent_kafka import TopicPartition as At

from integration.support.confluent import (
    Callbacks,
    Consumers,
    new_group,
    places,
    read,
    read_records,
    where,
)
from integration.support.topics import new_name

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def refused(code: int, act: Callable[..., Any], *arguments: Any) -> None:
    with pytest.raises(KafkaException) as caught:
        act(*arguments)
    assert caught.value.args[0].code() == code


def offsets(consumer: Any) -> dict[int, int]:
    return {each.partition: each.offset for each in consumer.assignment()}


def test_by_hand_without_a_subscription(consumers: Consumers, filled: str) -> None:
    consumer = consumers({"enable.auto.commit": False})
    assert consumer.unassign() is None
    assert consumer.assign([At(filled, 0, 8)]) is None
    assert offsets(consumer) == {0: 8}
    assert consumer.incremental_assign([At(filled, 2, 9)]) is None
    assert offsets(consumer) == {0: 8, 2: 9}
    assert where(read_records(consumer, 3)) == [(0, 8), (0, 9), (2, 9)]
    refused(KafkaError._CONFLICT, consumer.incremental_assign, [At(filled, 0)])
    assert consumer.incremental_unassign([At(filled, 0)]) is None
    refused(KafkaError._INVALID_ARG, consumer.incremental_unassign, [At(filled, 0)])
    assert offsets(consumer) == {2: 9}
    # assign replaces; without an offset it starts at what is committed, or at the reset.
    assert consumer.assign([At(filled, 1)]) is None
    assert offsets(consumer) in ({1: OFFSET_INVALID}, {1: OFFSET_STORED})
    assert where(read_records(consumer, 10)) == [(1, n) for n in range(10)]
    assert consumer.unassign() is None
    assert consumer.assignment() == []
    assert consumer.poll(0.3) is None
    # It is in no group, for all that it has a group's name.
    assert consumer.memberid() is None
    assert consumer.assign([]) is None


def test_wrong_partitions(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    calls = (
        consumer.assign,
        consumer.incremental_assign,
        consumer.incremental_unassign,
    )
    for act in calls:
        for wrong in (None, 1, "a string", (At(filled, 0),), [1], [(filled, 0)]):
            with pytest.raises(TypeError):
                act(wrong)
    refused(KafkaError._INVALID_ARG, consumer.assign, [At(filled, 2), At(filled, 2)])
    refused(KafkaError._INVALID_ARG, consumer.assign, [At(filled, 2, -77)])
    assert consumer.assignment() == []
    # What is not there is waited for.
    consumer.assign([At(new_name("missing"), 0), At(filled, 44), At(filled, 0, 9)])
    assert where(read_records(consumer, 1)) == [(0, 9)]
    assert consumer.poll(0.3) is None


def test_on_assign_says_where_to_start(consumers: Consumers, filled: str) -> None:
    def start_at_seven(consumer: Any, partitions: list[At]) -> None:
        for each in partitions:
            each.offset = 7
        consumer.assign(partitions)
        assert offsets(consumer) == {0: 7, 1: 7, 2: 7}
        assert consumer.memberid()

    consumer = consumers()
    consumer.subscribe([filled], on_assign=start_at_seven)
    assert where(read_records(consumer, 9)) == [(p, n) for p in range(3) for n in (7, 8, 9)]


def test_on_assign_takes_some_or_nothing(consumers: Consumers, filled: str) -> None:
    some, nothing = consumers(), consumers()
    called = []

    def take_none(consumer: Any, _: object) -> None:
        consumer.unassign()
        called.append(consumer)

    some.subscribe([filled], on_assign=lambda consumer, given: consumer.assign(given[:1]))
    nothing.subscribe([filled], on_assign=take_none)
    assert where(read_records(some, 10)) == [(0, n) for n in range(10)]
    assert some.poll(0.3) is None
    assert len(some.assignment()) == 1
    assert read(nothing, until=lambda _: called, what="on_assign") == []
    assert nothing.poll(0.3) is None
    assert nothing.assignment() == []


def test_incremental_in_the_callbacks(consumers: Consumers, filled: str) -> None:
    group = new_group()
    held: list[set[tuple[str, int]]] = []

    def take(consumer: Any, partitions: list[At]) -> None:
        for each in partitions:
            each.offset = 8
        consumer.incremental_assign(partitions)

    def give(consumer: Any, partitions: list[At]) -> None:
        held.append(places(consumer.assignment()))
        consumer.incremental_unassign(partitions)
        held.append(places(consumer.assignment()))

    one, other = (consumers(group=group, cooperative=True) for _ in range(2))
    one.subscribe([filled], on_assign=take, on_revoke=give)
    assert where(read_records(one, 6)) == [(p, n) for p in range(3) for n in (8, 9)]
    others = Callbacks()
    other.subscribe([filled], **others.all)
    read(one, other, until=lambda _: other.assignment(), what="the other has something")
    assert held[0] == {(filled, p) for p in range(3)}
    assert held[1] == held[0] - places(other.assignment()) == places(one.assignment())


def test_of_the_wrong_kind(consumers: Consumers, filled: str) -> None:
    eager, cooperative = consumers(), consumers(cooperative=True)
    for consumer in (eager, cooperative):
        consumer.subscribe([filled])
    read(
        eager,
        cooperative,
        until=lambda _: eager.assignment() and cooperative.assignment(),
        what="an assignment each",
    )
    refused(KafkaError._STATE, eager.incremental_assign, [])
    refused(KafkaError._STATE, eager.incremental_unassign, [At(filled, 0)])
    refused(KafkaError._STATE, cooperative.assign, [At(filled, 0)])
    refused(KafkaError._STATE, cooperative.unassign)
    refused(KafkaError._CONFLICT, cooperative.incremental_assign, [At(filled, 0)])
    assert len(eager.assignment()) == len(cooperative.assignment()) == 3


def test_by_hand_in_a_group(consumers: Consumers, filled: str) -> None:
    eager, cooperative = consumers(), consumers(cooperative=True)
    for consumer in (eager, cooperative):
        consumer.subscribe([filled])
    read(
        eager,
        cooperative,
        until=lambda _: eager.assignment() and cooperative.assignment(),
        what="an assignment each",
    )
    eager.assign([At(filled, 1, 5)])
    assert offsets(eager) == {1: 5}
    assert where(read_records(eager, 5))[-1] == (1, 9)
    cooperative.incremental_unassign([At(filled, 0), At(filled, 1)])
    cooperative.incremental_assign([At(filled, 0, 9)])
    assert offsets(cooperative).keys() == {0, 2}
    # Both are members still.
    assert eager.memberid()
    assert cooperative.memberid()


def test_from_a_subscription_to_by_hand_and_back(consumers: Consumers, filled: str) -> None:
    consumer = consumers({"enable.auto.commit": False})
    consumer.subscribe([filled])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    consumer.unsubscribe()
    read(consumer, until=lambda _: not consumer.assignment(), what="nothing assigned")
    consumer.assign([At(filled, 1, 6)])
    assert where(read_records(consumer, 4)) == [(1, n) for n in range(6, 10)]
    consumer.unassign()
    consumer.subscribe([filled])
    read(consumer, until=lambda _: len(consumer.assignment()) == 3, what="an assignment")
