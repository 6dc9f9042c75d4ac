"""Members that the group has removed: their errors, callbacks and commits."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from integration.support.confluent import (
    Callbacks,
    Consumers,
    new_group,
    partition_keys,
    poll_until,
    raised_code,
    read_records,
)
from integration.support.topics import committed, create_topic, described, new_name
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT, wait_until

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


ATTEMPTS = 3


def states(cluster: Cluster, *groups: str) -> list[str]:
    return [group["group_state"] for group in described(cluster, *groups)]


def has_two_calls(calls: Callbacks, _: object) -> bool:
    return len(calls.calls) > 1


def test_exceeding_max_poll_interval(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    all_partitions = {(filled, p) for p in range(3)}
    short_interval = {
        "max.poll.interval.ms": 4000,
        "session.timeout.ms": 4000,
        "enable.auto.commit": False,
    }
    # A machine that stalls may cause the error too early. Then the test tries again.
    for _ in range(ATTEMPTS):
        eager, cooperative = new_group(), new_group()
        lost, revoked = Callbacks(), Callbacks()
        one = consumers(short_interval, group=eager)
        other = consumers(short_interval, group=cooperative, cooperative=True)
        one.subscribe([filled], **lost.all)
        # Without an on_lost, on_revoke is called.
        other.subscribe(
            [filled], on_assign=revoked.callback("assign"), on_revoke=revoked.callback("revoke")
        )
        messages = poll_until(one, other)
        if all(message.error() is None for message in messages):
            break
    stale = one.consumer_group_metadata()
    wait_until(
        lambda: states(cluster, eager, cooperative) == ["Empty", "Empty"],
        within=60,
        what="both groups are empty",
    )
    successor = consumers({"enable.auto.commit": False}, group=eager)
    successor.subscribe([filled])
    poll_until(
        successor,
        until=lambda _: len(successor.assignment()) == 3,
        what="all partitions to another member",
    )
    successor.commit(offsets=[TopicPartition(filled, 0, 9)], asynchronous=False)

    # Until it polls, the member keeps its assignment, and its commits are refused.
    assert len(one.assignment()) == 3
    assert lost.calls == [("assign", all_partitions)]
    assert revoked.calls == [("assign", all_partitions)]
    refused = raised_code(one.commit, offsets=[TopicPartition(filled, 0, 1)], asynchronous=False)
    assert refused == KafkaError.UNKNOWN_MEMBER_ID
    assert raised_code(one.commit, asynchronous=False) == KafkaError._ASSIGNMENT_LOST
    transactional = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": eager}
    producer = Producer(transactional)
    producer.init_transactions(60)
    producer.begin_transaction()
    refused = raised_code(
        producer.send_offsets_to_transaction, [TopicPartition(filled, 0, 1)], stale, 60
    )
    assert refused in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    producer.abort_transaction(60)
    assert committed(cluster, eager) == {(filled, 0): 9}

    for consumer, calls, kind in ((one, lost, "lost"), (other, revoked, "revoke")):
        (message,) = poll_until(
            consumer, until=lambda messages: len(messages) == 1, what="an error"
        )
        assert message.error().code() == KafkaError._MAX_POLL_EXCEEDED
        assert (message.topic(), message.offset()) == (None, None)
        poll_until(consumer, until=partial(has_two_calls, calls), what="the callback")
        assert calls.calls[1] == (kind, all_partitions)
    # After it has joined again, its commits succeed.
    poll_until(
        one,
        other,
        successor,
        until=lambda _: len(other.assignment()) == 3 and one.assignment(),
        what="an assignment each",
    )
    (partition,) = one.assignment()[:1]
    one.commit(offsets=[TopicPartition(filled, partition.partition, 2)], asynchronous=False)
    assert committed(cluster, eager)[filled, partition.partition] == 2


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
    # In an eager group both are in the new generation when both have an assignment.
    poll_until(one, other)

    output = create_topic(cluster, new_name("output"), [[0, 2, 4]])
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": output}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(output, b"x", partition=0)
    refused = raised_code(
        producer.send_offsets_to_transaction, [TopicPartition(filled, 0, 30)], past, 60
    )
    assert refused == KafkaError.ILLEGAL_GENERATION
    producer.abort_transaction(60)
    now = one.consumer_group_metadata()
    producer.begin_transaction()
    producer.produce(output, b"x", partition=0)
    producer.send_offsets_to_transaction([TopicPartition(filled, 0, 3)], now, 60)
    producer.commit_transaction(60)
    # The marker of a committed transaction reaches __consumer_offsets a moment later.
    wait_until(lambda: committed(cluster, group) == {(filled, 0): 3}, within=60, what="offset 3")


def test_a_static_member_is_fenced_by_its_duplicate(consumers: Consumers, filled: str) -> None:
    group = new_group()
    first, second = (consumers({"group.instance.id": "i"}, group=group) for _ in range(2))
    first.subscribe([filled])
    read_records(first, 30)
    second.subscribe([filled])
    poll_until(
        second,
        until=lambda _: len(second.assignment()) == 3,
        what="the partitions of the instance id",
    )
    (error,) = poll_until(
        first, until=lambda messages: messages, what="the error of the fenced member"
    )
    assert error.error().code() == KafkaError._FATAL
    assert "fenced" in error.error().str()
    refused = raised_code(first.commit, offsets=[TopicPartition(filled, 0, 1)], asynchronous=False)
    assert refused == KafkaError._FATAL
    assert first.poll(0.1) is None
    assert first.close() is None
    assert len(second.assignment()) == 3


def instance_ids(cluster: Cluster, group: str) -> list[str | None]:
    """Return the instance id, or None, of each member in the coordinator's description."""
    (description,) = described(cluster, group)
    return [member["group_instance_id"] for member in description["members"]]


def test_a_static_member_stays_and_a_dynamic_one_leaves(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group, calls = new_group(), Callbacks()
    # Longer than this test takes, so that no member leaves because of its session timeout.
    static_settings = {"group.instance.id": "i", "session.timeout.ms": 240_000}
    static, dynamic = consumers(static_settings, group=group), consumers(group=group)
    static.subscribe([filled])
    dynamic.subscribe([filled], **calls.all)
    poll_until(static, dynamic)
    assert sorted(instance_ids(cluster, group), key=str) == [None, "i"]
    before = partition_keys(static.assignment())
    calls.calls.clear()
    static.close()
    assert len(instance_ids(cluster, group)) == 2
    restarted = consumers(static_settings, group=group)
    restarted.subscribe([filled])
    poll_until(restarted, dynamic, until=lambda _: restarted.assignment(), what="an assignment")
    assert partition_keys(restarted.assignment()) == before
    assert calls.calls == []
    dynamic.close()
    wait_until(
        lambda: instance_ids(cluster, group) == ["i"], TEST_TIMEOUT, "the dynamic one has left"
    )


MEMBER = """
import sys, time
from assignors.confluent import Consumer

def poll_until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "no result within 120 s"
        consumer.poll(0.1)
    print(len(consumer.assignment()), "numpy" in sys.modules, flush=True)

bootstrap, group, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "partition.assignment.strategy": "leader-rack-aware-range",
    "client.rack": "a",
    "heartbeat.interval.ms": 200,
})
consumer.subscribe([topic])
poll_until(consumer.assignment)
poll_until(consumer.last_assignment)
consumer.close()
"""


def test_a_member_imports_numpy_when_it_leads_its_group(
    consumers: Consumers, cluster: Cluster, filled: str
) -> None:
    group = new_group()
    leader = consumers(group=group)
    leader.subscribe([filled])
    read_records(leader, 30)
    assert leader.last_assignment() is not None
    member = subprocess.Popen(
        [sys.executable, "-c", MEMBER, cluster.bootstrap_servers, group, filled],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        poll_until(leader, until=lambda _: 0 < len(leader.assignment()) < 3, what="a second member")
        assert member.stdout is not None
        assert member.stdout.readline().split()[1:] == ["False"]
        leader.close()
        assert member.communicate(timeout=TEST_TIMEOUT)[0].split()[1:] == ["True"]
        assert member.returncode == 0
    finally:
        member.kill()
        member.wait()
