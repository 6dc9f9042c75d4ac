"""Members that the group has given up on: what they are told, and what they may still do."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as At

from integration.support.confluent import Callbacks, Consumers, new_group, read, read_records
from integration.support.topics import committed, create_topic, described, new_name
from rackward.clusters import Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


ATTEMPTS = 3


def code_of(act: Any, *arguments: Any, **named: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        act(*arguments, **named)
    return int(caught.value.args[0].code())


def states(cluster: Cluster, *groups: str) -> list[str]:
    return [each["group_state"] for each in described(cluster, *groups)]


def both_have_something(one: Any, other: Any, _: object) -> bool:
    return bool(one.assignment() and other.assignment())


def was_told_more(calls: Callbacks, _: object) -> bool:
    return len(calls.calls) > 1


def test_who_does_not_poll_leaves_and_is_told(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    everything = {(filled, p) for p in range(3)}
    seldom = {"max.poll.interval.ms": 4000, "session.timeout.ms": 4000, "enable.auto.commit": False}
    # A machine that stalls for so long has them told before it is time: then it is tried again.
    for _ in range(ATTEMPTS):
        eager, cooperative = new_group(), new_group()
        lost, revoked = Callbacks(), Callbacks()
        one = consumers(seldom, group=eager)
        other = consumers(seldom, group=cooperative, cooperative=True)
        one.subscribe([filled], **lost.all)
        # Who has no on_lost is told by on_revoke.
        other.subscribe(
            [filled], on_assign=revoked.named("assign"), on_revoke=revoked.named("revoke")
        )
        found = read(
            one,
            other,
            until=partial(both_have_something, one, other),
            what="an assignment each",
        )
        if all(each.error() is None for each in found):
            break
    stale = one.consumer_group_metadata()
    wait_until(
        lambda: states(cluster, eager, cooperative) == ["Empty", "Empty"],
        within=60,
        what="both groups are left",
    )
    heir = consumers({"enable.auto.commit": False}, group=eager)
    heir.subscribe([filled])
    read(heir, until=lambda _: len(heir.assignment()) == 3, what="everything to another")
    heir.commit(offsets=[At(filled, 0, 9)], asynchronous=False)

    # It knows no better until it polls, and its commits are refused.
    assert len(one.assignment()) == 3
    assert lost.calls == [("assign", everything)]
    assert revoked.calls == [("assign", everything)]
    refused = code_of(one.commit, offsets=[At(filled, 0, 1)], asynchronous=False)
    assert refused == KafkaError.UNKNOWN_MEMBER_ID
    assert code_of(one.commit, asynchronous=False) == KafkaError._ASSIGNMENT_LOST
    transactional = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": eager}
    producer = Producer(transactional)
    producer.init_transactions(60)
    producer.begin_transaction()
    refused = code_of(producer.send_offsets_to_transaction, [At(filled, 0, 1)], stale, 60)
    assert refused in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    producer.abort_transaction(60)
    assert committed(cluster, eager) == {(filled, 0): 9}

    for consumer, calls, kind in ((one, lost, "lost"), (other, revoked, "revoke")):
        (message,) = read(consumer, until=lambda found: len(found) == 1, what="an error")
        assert message.error().code() == KafkaError._MAX_POLL_EXCEEDED
        assert (message.topic(), message.offset()) == (None, None)
        read(consumer, until=partial(was_told_more, calls), what="the callback")
        assert calls.calls[1] == (kind, everything)
    # It is back, and may commit again.
    read(
        one,
        other,
        heir,
        until=lambda _: len(other.assignment()) == 3 and one.assignment(),
        what="an assignment each",
    )
    (mine,) = one.assignment()[:1]
    one.commit(offsets=[At(filled, mine.partition, 2)], asynchronous=False)
    assert committed(cluster, eager)[filled, mine.partition] == 2


def test_a_past_generation_commits_nothing(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group = new_group()
    settings = {"enable.auto.commit": False}
    one, other = (consumers(settings, group=group) for _ in range(2))
    one.subscribe([filled])
    read_records(one, 30)
    past = one.consumer_group_metadata()
    other.subscribe([filled])
    # The first gave everything up before the other had something: both are in it.
    read(
        one,
        other,
        until=lambda _: one.assignment() and other.assignment(),
        what="another generation",
    )

    output = create_topic(cluster, new_name("output"), [[0, 2, 4]])
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": output}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(output, b"x", partition=0)
    refused = code_of(producer.send_offsets_to_transaction, [At(filled, 0, 30)], past, 60)
    assert refused == KafkaError.ILLEGAL_GENERATION
    producer.abort_transaction(60)
    now = one.consumer_group_metadata()
    producer.begin_transaction()
    producer.produce(output, b"x", partition=0)
    producer.send_offsets_to_transaction([At(filled, 0, 3)], now, 60)
    producer.commit_transaction(60)
    # The transaction is decided; its marker is on its way to the offsets.
    wait_until(lambda: committed(cluster, group) == {(filled, 0): 3}, within=60, what="offset 3")


def test_a_static_member_with_a_double(consumers: Consumers, filled: str) -> None:
    group = new_group()
    first, second = (consumers({"group.instance.id": "i"}, group=group) for _ in range(2))
    first.subscribe([filled])
    read_records(first, 30)
    second.subscribe([filled])
    read(second, until=lambda _: len(second.assignment()) == 3, what="the seat")
    (error,) = read(first, until=lambda found: found, what="that it was replaced")
    assert error.error().code() == KafkaError._FATAL
    assert "fenced" in error.error().str()
    refused = code_of(first.commit, offsets=[At(filled, 0, 1)], asynchronous=False)
    assert refused == KafkaError._FATAL
    assert first.poll(0.1) is None
    assert first.close() is None
    assert len(second.assignment()) == 3


def test_a_static_member_comes_back(consumers: Consumers, filled: str) -> None:
    group = new_group()
    static, dynamic = consumers({"group.instance.id": "i"}, group=group), consumers(group=group)
    calls = Callbacks()
    static.subscribe([filled])
    dynamic.subscribe([filled], **calls.all)
    read(
        static,
        dynamic,
        until=lambda _: static.assignment() and dynamic.assignment(),
        what="an assignment each",
    )
    held = static.assignment()
    static.close()
    calls.calls.clear()
    back = consumers({"group.instance.id": "i"}, group=group)
    back.subscribe([filled])
    read(back, dynamic, until=lambda _: back.assignment(), what="the same seat")
    assert [p.partition for p in back.assignment()] == [p.partition for p in held]
    assert calls.calls == []
