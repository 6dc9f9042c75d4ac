"""subscribe, unsubscribe and the rebalance callbacks of one consumer, or of two in turn."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from integration.support.confluent import Callbacks, Consumers, new_group, places, read, where
from integration.support.topics import create_topic, new_name
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

BOTH_KINDS = pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])


@BOTH_KINDS
def test_callbacks_are_called_in_poll_and_in_close(
    consumers: Consumers, filled: str, cooperative: bool
) -> None:
    everything = {(filled, p) for p in range(3)}
    calls = Callbacks()
    consumer = consumers(cooperative=cooperative)
    # It may be a member as soon as it has subscribed.
    assert consumer.memberid() is None
    assert consumer.subscribe([filled], **calls.all) is None
    assert consumer.assignment() == []
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    assert calls.calls == [("assign", everything)]
    ((first, partitions, assigned, thread),) = calls.details
    assert first is consumer
    assert {(p.offset, p.error) for p in partitions} == {(OFFSET_INVALID, None)}
    assert [p.partition for p in partitions] == [0, 1, 2]
    assert assigned == set()
    assert thread == threading.get_ident()
    assert places(consumer.assignment()) == everything
    assert consumer.memberid()

    consumer.close()
    assert calls.calls == [("assign", everything), ("revoke", everything)]
    (_, (last, partitions, assigned, thread)) = calls.details
    assert last is consumer
    assert {p.offset for p in partitions} == {OFFSET_INVALID}
    assert assigned == everything
    assert thread == threading.get_ident()


def test_callbacks_are_called_in_consume_too(consumers: Consumers, filled: str) -> None:
    calls = Callbacks()
    consumer = consumers()
    consumer.subscribe([filled], **calls.all)
    messages: list[Any] = []

    def all_read() -> bool:
        messages.extend(consumer.consume(30, 0.5))
        return len(messages) >= 30

    wait_until(all_read, PATIENCE, "all records")
    assert where(messages) == [(p, n) for p in range(3) for n in range(10)]
    assert calls.calls == [("assign", {(filled, p) for p in range(3)})]


@BOTH_KINDS
def test_a_second_member_joins_and_leaves(
    consumers: Consumers, filled: str, cooperative: bool
) -> None:
    group = new_group()
    everything = {(filled, p) for p in range(3)}
    one, other = (consumers(group=group, cooperative=cooperative) for _ in range(2))
    ones, others = Callbacks(), Callbacks()
    one.subscribe([filled], **ones.all)
    read(one, until=lambda _: one.assignment(), what="the first has everything")
    other.subscribe([filled], **others.all)

    def shared(_: object) -> bool:
        mine, theirs = places(one.assignment()), places(other.assignment())
        return bool(theirs) and mine | theirs == everything and not mine & theirs

    read(one, other, until=shared, what="the two share")
    kept, given = places(one.assignment()), places(other.assignment())
    assert sorted((len(kept), len(given))) == [1, 2]
    assert [call for call in others.calls if call[1]] == [("assign", given)]
    if cooperative:
        assert [c for c in ones.calls if c[1]] == [("assign", everything), ("revoke", given)]
        assert ones.details[1][2] == everything
    else:
        assert ones.calls == [("assign", everything), ("revoke", everything), ("assign", kept)]

    ones.calls.clear()
    other.close()
    assert others.calls[-1] == ("revoke", given)
    read(one, until=lambda _: places(one.assignment()) == everything, what="all to the first")
    if cooperative:
        # It may take the partitions up in more than one round.
        assert {kind for kind, _ in ones.calls} == {"assign"}
        assert set.union(*(partitions for _, partitions in ones.calls)) == given
    else:
        assert ones.calls == [("revoke", kept), ("assign", everything)]


@pytest.mark.parametrize("act", ["poll", "consume"])
def test_what_on_assign_raises_comes_out(consumers: Consumers, filled: str, act: str) -> None:
    raised = []

    def fail(*_: object) -> None:
        raised.append(LookupError("planned"))
        raise raised[-1]

    consumer = consumers()
    consumer.subscribe([filled], on_assign=fail)
    with pytest.raises(LookupError, match="planned") as caught:
        read(
            SimpleNamespace(poll=lambda seconds: consumer.consume(1, seconds))
            if act == "consume"
            else consumer,
            until=lambda _: False,
            what="the exception",
        )
    assert raised == [caught.value]
    # The assignment stands all the same.
    assert len(consumer.assignment()) == 3
    assert consumer.consume(1, 60)
    assert len(raised) == 1


def test_what_on_revoke_raises_comes_out_of_close(consumers: Consumers, filled: str) -> None:
    def fail(*_: object) -> None:
        raise LookupError("planned")

    group = new_group()
    consumer = consumers(group=group)
    consumer.subscribe([filled], on_revoke=fail)
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    with pytest.raises(LookupError, match="planned"):
        consumer.close()
    # It is closed, and has left.
    assert consumer.close() is None
    with pytest.raises(RuntimeError):
        consumer.poll(0)
    heir = consumers(group=group)
    heir.subscribe([filled])
    read(heir, until=lambda _: len(heir.assignment()) == 3, what="everything to the next")


@BOTH_KINDS
def test_another_subscription_replaces_the_first(
    consumers: Consumers, filled: str, cluster: Cluster, cooperative: bool
) -> None:
    other = create_topic(cluster, new_name("other"), [[0, 2, 4]])
    old, new = Callbacks(), Callbacks()
    consumer = consumers(cooperative=cooperative)
    # The second topic is known when it is all that is left: else confluent's cooperative
    # consumer finds the first one lost (test_differences.py).
    consumer.subscribe([filled, other], **old.all)
    read(consumer, until=lambda _: len(consumer.assignment()) == 4, what="an assignment")
    consumer.subscribe([other], **new.all)
    read(
        consumer,
        until=lambda _: places(consumer.assignment()) == {(other, 0)},
        what="the other topic's partition",
    )
    assert [kind for kind, _ in old.calls] == ["assign"]
    gone = {(filled, p) for p in range(3)}
    if cooperative:
        assert [call for call in new.calls if call[1]] == [("revoke", gone)]
    else:
        assert new.calls == [("revoke", gone | {(other, 0)}), ("assign", {(other, 0)})]


def test_unsubscribe(consumers: Consumers, filled: str) -> None:
    calls = Callbacks()
    consumer = consumers()
    assert consumer.unsubscribe() is None
    consumer.subscribe([filled], **calls.all)
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    assert consumer.unsubscribe() is None
    read(consumer, until=lambda _: len(calls.calls) == 2, what="the revocation")
    assert calls.calls[1] == ("revoke", {(filled, p) for p in range(3)})
    assert consumer.assignment() == []
    read(consumer, until=lambda _: consumer.memberid() is None, what="that it has left")
    assert consumer.poll(0.3) is None
    consumer.subscribe([filled], **calls.all)
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")


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
def test_wrong_subscriptions(
    consumers: Consumers, arguments: tuple[object, ...], error: type[Exception]
) -> None:
    consumer = consumers()
    with pytest.raises(error) as caught:
        consumer.subscribe(*arguments)
    if error is KafkaException:
        assert caught.value.args[0].code() == KafkaError._INVALID_ARG
    assert consumer.assignment() == []


def test_a_pattern_finds_new_topics(consumers: Consumers, cluster: Cluster) -> None:
    stem = new_name("stem")
    create_topic(cluster, f"{stem}.1", [[0, 2, 4]])
    named = create_topic(cluster, new_name("named"), [[0, 2, 4]])
    calls = Callbacks()
    consumer = consumers({"topic.metadata.refresh.interval.ms": 500})
    consumer.subscribe([f"^{stem}\\.[0-9]+$", named], **calls.all)
    before = {(f"{stem}.1", 0), (named, 0)}
    read(consumer, until=lambda _: places(consumer.assignment()) == before, what="what is there")
    create_topic(cluster, f"{stem}.2", [[2, 4, 0]])
    create_topic(cluster, f"{stem}.x", [[2, 4, 0]])
    after = before | {(f"{stem}.2", 0)}
    read(consumer, until=lambda _: places(consumer.assignment()) == after, what="the new topic")
    first, *others = calls.calls
    assert first == ("assign", before)
    # Brokers hear of a topic one after another: one may say once more that it is not there.
    assert [kind for kind, _ in others] == ["revoke", "assign"] * (len(others) // 2)
    assert (others[0], others[-1]) == (("revoke", before), ("assign", after))


def test_a_topic_that_is_not_there(consumers: Consumers, filled: str) -> None:
    missing = new_name("missing")
    consumer = consumers()
    consumer.subscribe([missing, filled])
    found = read(consumer, until=lambda found: len(found) == 31, what="an error and all records")
    (error,) = (m for m in found if m.error() is not None)
    assert error.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert (error.topic(), error.offset()) == (missing, None)
    assert missing in error.error().str()
