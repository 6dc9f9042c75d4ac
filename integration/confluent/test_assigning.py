"""assign, unassign, incremental_assign and incremental_unassign, in callbacks and outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    TopicPartition,
)

from integration.support.confluent import (
    Callbacks,
    Consumers,
    new_group,
    partition_keys,
    partition_offsets,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.topics import new_name

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


def assert_refused(code: int, method: Callable[..., Any], *arguments: Any) -> None:
    assert raised_code(method, *arguments) == code


def offsets(consumer: Any) -> dict[int, int]:
    return {each.partition: each.offset for each in consumer.assignment()}


def test_manual_assignment_without_a_subscription(consumers: Consumers, filled: str) -> None:
    consumer = consumers({"enable.auto.commit": False})
    assert consumer.unassign() is None
    assert consumer.assign([TopicPartition(filled, 0, 8)]) is None
    assert offsets(consumer) == {0: 8}
    assert consumer.incremental_assign([TopicPartition(filled, 2, 9)]) is None
    assert offsets(consumer) == {0: 8, 2: 9}
    assert partition_offsets(read_records(consumer, 3)) == [(0, 8), (0, 9), (2, 9)]
    assert_refused(KafkaError._CONFLICT, consumer.incremental_assign, [TopicPartition(filled, 0)])
    assert consumer.incremental_unassign([TopicPartition(filled, 0)]) is None
    assert_refused(
        KafkaError._INVALID_ARG, consumer.incremental_unassign, [TopicPartition(filled, 0)]
    )
    assert offsets(consumer) == {2: 9}
    # assign replaces. Without an offset, reading starts at the committed offset or the reset.
    assert consumer.assign([TopicPartition(filled, 1)]) is None
    assert offsets(consumer) in ({1: OFFSET_INVALID}, {1: OFFSET_STORED})
    assert partition_offsets(read_records(consumer, 10)) == [(1, n) for n in range(10)]
    assert consumer.unassign() is None
    assert consumer.assignment() == []
    assert consumer.poll(0.3) is None
    # A group id alone does not make it a member.
    assert consumer.memberid() is None
    assert consumer.assign([]) is None


def test_invalid_partitions_are_refused(consumers: Consumers, filled: str) -> None:
    consumer = consumers()
    calls = (
        consumer.assign,
        consumer.incremental_assign,
        consumer.incremental_unassign,
    )
    for method in calls:
        for wrong in (None, 1, "a string", (TopicPartition(filled, 0),), [1], [(filled, 0)]):
            with pytest.raises(TypeError):
                method(wrong)
    assert_refused(
        KafkaError._INVALID_ARG,
        consumer.assign,
        [TopicPartition(filled, 2), TopicPartition(filled, 2)],
    )
    assert_refused(KafkaError._INVALID_ARG, consumer.assign, [TopicPartition(filled, 2, -77)])
    assert consumer.assignment() == []
    # Partitions that do not exist are accepted.
    consumer.assign(
        [
            TopicPartition(new_name("missing"), 0),
            TopicPartition(filled, 44),
            TopicPartition(filled, 0, 9),
        ]
    )
    assert partition_offsets(read_records(consumer, 1)) == [(0, 9)]
    assert consumer.poll(0.3) is None


def test_on_assign_may_set_start_offsets(consumers: Consumers, filled: str) -> None:
    def start_at_seven(consumer: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = 7
        consumer.assign(partitions)
        assert offsets(consumer) == {0: 7, 1: 7, 2: 7}
        assert consumer.memberid()

    consumer = consumers()
    consumer.subscribe([filled], on_assign=start_at_seven)
    assert partition_offsets(read_records(consumer, 9)) == [
        (p, n) for p in range(3) for n in (7, 8, 9)
    ]


def test_on_assign_may_assign_some_or_no_partitions(consumers: Consumers, filled: str) -> None:
    some, nothing = consumers(), consumers()
    called = []

    def assign_nothing(consumer: Any, _: object) -> None:
        consumer.unassign()
        called.append(consumer)

    some.subscribe([filled], on_assign=lambda consumer, partitions: consumer.assign(partitions[:1]))
    nothing.subscribe([filled], on_assign=assign_nothing)
    assert partition_offsets(read_records(some, 10)) == [(0, n) for n in range(10)]
    assert some.poll(0.3) is None
    assert len(some.assignment()) == 1
    assert poll_until(nothing, until=lambda _: called, what="on_assign") == []
    assert nothing.poll(0.3) is None
    assert nothing.assignment() == []


def test_incremental_assignment_in_callbacks(consumers: Consumers, filled: str) -> None:
    group = new_group()
    assignments: list[set[tuple[str, int]]] = []

    def on_assign(consumer: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = 8
        consumer.incremental_assign(partitions)

    def on_revoke(consumer: Any, partitions: list[TopicPartition]) -> None:
        assignments.append(partition_keys(consumer.assignment()))
        consumer.incremental_unassign(partitions)
        assignments.append(partition_keys(consumer.assignment()))

    one, other = (consumers(group=group, cooperative=True) for _ in range(2))
    one.subscribe([filled], on_assign=on_assign, on_revoke=on_revoke)
    assert partition_offsets(read_records(one, 6)) == [(p, n) for p in range(3) for n in (8, 9)]
    others = Callbacks()
    other.subscribe([filled], **others.all)
    poll_until(
        one, other, until=lambda _: other.assignment(), what="partitions of the other member"
    )
    assert assignments[0] == {(filled, p) for p in range(3)}
    assert (
        assignments[1]
        == assignments[0] - partition_keys(other.assignment())
        == partition_keys(one.assignment())
    )


def test_calls_of_the_other_protocol_are_refused(consumers: Consumers, filled: str) -> None:
    eager, cooperative = consumers(), consumers(cooperative=True)
    for consumer in (eager, cooperative):
        consumer.subscribe([filled])
    poll_until(
        eager,
        cooperative,
        until=lambda _: eager.assignment() and cooperative.assignment(),
        what="an assignment each",
    )
    assert_refused(KafkaError._STATE, eager.incremental_assign, [])
    assert_refused(KafkaError._STATE, eager.incremental_unassign, [TopicPartition(filled, 0)])
    assert_refused(KafkaError._STATE, cooperative.assign, [TopicPartition(filled, 0)])
    assert_refused(KafkaError._STATE, cooperative.unassign)
    assert_refused(
        KafkaError._CONFLICT, cooperative.incremental_assign, [TopicPartition(filled, 0)]
    )
    assert len(eager.assignment()) == len(cooperative.assignment()) == 3


def test_a_member_may_change_its_assignment(consumers: Consumers, filled: str) -> None:
    eager, cooperative = consumers(), consumers(cooperative=True)
    for consumer in (eager, cooperative):
        consumer.subscribe([filled])
    poll_until(
        eager,
        cooperative,
        until=lambda _: eager.assignment() and cooperative.assignment(),
        what="an assignment each",
    )
    eager.assign([TopicPartition(filled, 1, 5)])
    assert offsets(eager) == {1: 5}
    assert partition_offsets(read_records(eager, 5))[-1] == (1, 9)
    cooperative.incremental_unassign([TopicPartition(filled, 0), TopicPartition(filled, 1)])
    cooperative.incremental_assign([TopicPartition(filled, 0, 9)])
    assert offsets(cooperative).keys() == {0, 2}
    # Both are still members.
    assert eager.memberid()
    assert cooperative.memberid()


def test_switching_between_subscription_and_manual_assignment(
    consumers: Consumers, filled: str
) -> None:
    consumer = consumers({"enable.auto.commit": False})
    consumer.subscribe([filled])
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    consumer.unsubscribe()
    poll_until(consumer, until=lambda _: not consumer.assignment(), what="nothing assigned")
    consumer.assign([TopicPartition(filled, 1, 6)])
    assert partition_offsets(read_records(consumer, 4)) == [(1, n) for n in range(6, 10)]
    consumer.unassign()
    consumer.subscribe([filled])
    poll_until(consumer, until=lambda _: len(consumer.assignment()) == 3, what="an assignment")
