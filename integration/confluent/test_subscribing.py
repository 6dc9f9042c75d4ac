"""subscribe, unsubscribe and the rebalance callbacks of one consumer, or of two in turn."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from integration.support.confluent import (
    Callbacks,
    Consumers,
    new_group,
    partition_keys,
    partition_offsets,
    poll_until,
)
from integration.support.topics import create_topic, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

BOTH_KINDS = pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])


@BOTH_KINDS
def test_callbacks_are_called_in_poll_and_in_close(
    consumers: Consumers, filled: str, cooperative: bool
) -> None:
    all_partitions = {(filled, p) for p in range(3)}
    calls = Callbacks()
    consumer = consumers(cooperative=cooperative)
    # After subscribe it may be a member at any time.
    assert consumer.memberid() is None
    assert consumer.subscribe([filled], **calls.all) is None
    assert consumer.assignment() == []
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    assert calls.calls == [("assign", all_partitions)]
    ((first, partitions, assigned, thread),) = calls.details
    assert first is consumer
    assert {(p.offset, p.error) for p in partitions} == {(OFFSET_INVALID, None)}
    assert [p.partition for p in partitions] == [0, 1, 2]
    assert assigned == set()
    assert thread == threading.get_ident()
    assert partition_keys(consumer.assignment()) == all_partitions
    assert consumer.memberid()

    consumer.close()
    assert calls.calls == [("assign", all_partitions), ("revoke", all_partitions)]
    (_, (last, partitions, assigned, thread)) = calls.details
    assert last is consumer
    assert {p.offset for p in partitions} == {OFFSET_INVALID}
    assert assigned == all_partitions
    assert thread == threading.get_ident()


def test_callbacks_are_called_in_consume(consumers: Consumers, filled: str) -> None:
    calls = Callbacks()
    consumer = consumers()
    consumer.subscribe([filled], **calls.all)
    messages: list[Any] = []

    def all_read() -> bool:
        messages.extend(consumer.consume(30, 0.5))
        return len(messages) >= 30

    wait_until(all_read, TEST_TIMEOUT, "all records")
    assert partition_offsets(messages) == [(p, n) for p in range(3) for n in range(10)]
    assert calls.calls == [("assign", {(filled, p) for p in range(3)})]


@BOTH_KINDS
def test_a_second_member_joins_and_leaves(
    consumers: Consumers, filled: str, cooperative: bool
) -> None:
    group = new_group()
    all_partitions = {(filled, p) for p in range(3)}
    one, other = (consumers(group=group, cooperative=cooperative) for _ in range(2))
    first_calls, other_calls = Callbacks(), Callbacks()
    one.subscribe([filled], **first_calls.all)
    poll_until(one, until=lambda _: one.assignment(), what="all partitions to the first")
    other.subscribe([filled], **other_calls.all)

    def shared(_: object) -> bool:
        owned, moved_to_other = partition_keys(one.assignment()), partition_keys(other.assignment())
        return (
            bool(moved_to_other)
            and owned | moved_to_other == all_partitions
            and not owned & moved_to_other
        )

    poll_until(one, other, until=shared, what="partitions for both")
    remaining, moved = partition_keys(one.assignment()), partition_keys(other.assignment())
    assert sorted((len(remaining), len(moved))) == [1, 2]
    assert [call for call in other_calls.calls if call[1]] == [("assign", moved)]
    if cooperative:
        assert [c for c in first_calls.calls if c[1]] == [
            ("assign", all_partitions),
            ("revoke", moved),
        ]
        assert first_calls.details[1][2] == all_partitions
    else:
        assert first_calls.calls == [
            ("assign", all_partitions),
            ("revoke", all_partitions),
            ("assign", remaining),
        ]

    first_calls.calls.clear()
    other.close()
    assert other_calls.calls[-1] == ("revoke", moved)
    poll_until(
        one,
        until=lambda _: partition_keys(one.assignment()) == all_partitions,
        what="all to the first",
    )
    if cooperative:
        # They may be assigned in more than one rebalance.
        assert {kind for kind, _ in first_calls.calls} == {"assign"}
        assert set.union(*(partitions for _, partitions in first_calls.calls)) == moved
    else:
        assert first_calls.calls == [("revoke", remaining), ("assign", all_partitions)]


@pytest.mark.parametrize("method", ["poll", "consume"])
def test_exceptions_of_on_assign_are_raised(consumers: Consumers, filled: str, method: str) -> None:
    raised = []

    def fail(*_: object) -> None:
        raised.append(LookupError("planned"))
        raise raised[-1]

    consumer = consumers()
    consumer.subscribe([filled], on_assign=fail)
    with pytest.raises(LookupError, match="planned") as caught:
        poll_until(
            SimpleNamespace(poll=lambda seconds: consumer.consume(1, seconds))
            if method == "consume"
            else consumer,
            until=lambda _: False,
            what="the exception",
        )
    assert raised == [caught.value]
    # The partitions are assigned nevertheless.
    assert len(consumer.assignment()) == 3
    assert consumer.consume(1, 60)
    assert len(raised) == 1


def test_close_raises_exceptions_of_on_revoke(consumers: Consumers, filled: str) -> None:
    def fail(*_: object) -> None:
        raise LookupError("planned")

    group = new_group()
    consumer = consumers(group=group)
    consumer.subscribe([filled], on_revoke=fail)
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    with pytest.raises(LookupError, match="planned"):
        consumer.close()
    # It is closed, and has left the group.
    assert consumer.close() is None
    with pytest.raises(RuntimeError):
        consumer.poll(0)
    successor = consumers(group=group)
    successor.subscribe([filled])
    poll_until(
        successor,
        until=lambda _: len(successor.assignment()) == 3,
        what="all partitions to the next member",
    )


@BOTH_KINDS
def test_another_subscription_replaces_the_first(
    consumers: Consumers, filled: str, cluster: Cluster, cooperative: bool
) -> None:
    other = create_topic(cluster, new_name("other"), [[0, 2, 4]])
    old, new = Callbacks(), Callbacks()
    consumer = consumers(cooperative=cooperative)
    # With metadata of the second topic: without, confluent's cooperative consumer loses the
    # first one (test_differences.py).
    consumer.subscribe([filled, other], **old.all)
    poll_until(consumer, until=lambda _: len(consumer.assignment()) == 4, what="an assignment")
    consumer.subscribe([other], **new.all)
    poll_until(
        consumer,
        until=lambda _: partition_keys(consumer.assignment()) == {(other, 0)},
        what="the other topic's partition",
    )
    assert [kind for kind, _ in old.calls] == ["assign"]
    revoked = {(filled, p) for p in range(3)}
    if cooperative:
        assert [call for call in new.calls if call[1]] == [("revoke", revoked)]
    else:
        assert new.calls == [("revoke", revoked | {(other, 0)}), ("assign", {(other, 0)})]


def test_unsubscribe(consumers: Consumers, filled: str) -> None:
    calls = Callbacks()
    consumer = consumers()
    assert consumer.unsubscribe() is None
    consumer.subscribe([filled], **calls.all)
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    assert consumer.unsubscribe() is None
    poll_until(consumer, until=lambda _: len(calls.calls) == 2, what="the revocation")
    assert calls.calls[1] == ("revoke", {(filled, p) for p in range(3)})
    assert consumer.assignment() == []
    poll_until(consumer, until=lambda _: consumer.memberid() is None, what="no member id")
    assert consumer.poll(0.3) is None
    consumer.subscribe([filled], **calls.all)
    poll_until(consumer, until=lambda _: consumer.assignment(), what="an assignment")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a string",), TypeError),
        ((("a", "tuple"),), TypeError),
        ((None,), TypeError),
        ((["t"], 1), TypeError),
        ((["t"], None), TypeError),
        ((["t"], print, "x"), TypeError),
        ((["t"], print, print, 1), TypeError),
        (([],), KafkaException),
        (([""],), KafkaException),
        ((["t", "t"],), KafkaException),
        ((["^["],), KafkaException),
    ],
    ids=str,
)
def test_invalid_subscriptions_are_refused(
    consumers: Consumers, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    consumer = consumers()
    with pytest.raises(error) as caught:
        consumer.subscribe(*arguments)
    if error is KafkaException:
        assert caught.value.args[0].code() == KafkaError._INVALID_ARG
    assert consumer.assignment() == []


def test_a_pattern_matches_new_topics(consumers: Consumers, cluster: Cluster) -> None:
    stem = new_name("stem")
    create_topic(cluster, f"{stem}.1", [[0, 2, 4]])
    named = create_topic(cluster, new_name("named"), [[0, 2, 4]])
    calls = Callbacks()
    consumer = consumers({"topic.metadata.refresh.interval.ms": 500})
    consumer.subscribe([f"^{stem}\\.[0-9]+$", named], **calls.all)
    before = {(f"{stem}.1", 0), (named, 0)}
    poll_until(
        consumer,
        until=lambda _: partition_keys(consumer.assignment()) == before,
        what="the existing topics",
    )
    create_topic(cluster, f"{stem}.2", [[2, 4, 0]])
    create_topic(cluster, f"{stem}.x", [[2, 4, 0]])
    after = before | {(f"{stem}.2", 0)}
    poll_until(
        consumer,
        until=lambda _: partition_keys(consumer.assignment()) == after,
        what="the new topic",
    )
    first, *rest = calls.calls
    assert first == ("assign", before)
    # Brokers learn of a new topic one after another: a metadata response may lack it again.
    assert [kind for kind, _ in rest] == ["revoke", "assign"] * (len(rest) // 2)
    assert (rest[0], rest[-1]) == (("revoke", before), ("assign", after))


def test_a_missing_topic_is_reported(consumers: Consumers, filled: str) -> None:
    missing = new_name("missing")
    consumer = consumers()
    consumer.subscribe([missing, filled])
    messages = poll_until(
        consumer, until=lambda messages: len(messages) == 31, what="an error and all records"
    )
    (error,) = (m for m in messages if m.error() is not None)
    assert error.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert (error.topic(), error.offset()) == (missing, None)
    assert missing in error.error().str()
