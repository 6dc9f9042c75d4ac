"""Many asynchronous commits: their order, their results, and what close does with them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from integration.support.confluent import Consumers, new_group, poll_until
from integration.support.offsets_topic import commit_history, count_decreases
from integration.support.racks import BROKERS, replicas_led_from
from integration.support.topics import (
    committed,
    coordinator_of,
    create_topic,
    new_name,
)
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

MANUAL_COMMITS = {"enable.auto.commit": False}


class CommitRecorder:
    """An ``on_commit`` that records the committed offset of partition 0, or the error's name."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.errors: list[str] = []

    def __call__(self, error: Any, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self.errors.append(error.name())
        else:
            self.offsets += [p.offset for p in partitions if p.partition == 0]


def test_the_last_of_many_asynchronous_commits_is_stored(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group, results = new_group(), CommitRecorder()
    consumer = consumers({**MANUAL_COMMITS, "on_commit": results}, group=group)
    consumer.subscribe([filled])
    poll_until(consumer)
    for offset in range(1, 1001):
        consumer.commit(offsets=[TopicPartition(filled, 0, offset % 1000)])
    poll_until(
        consumer, until=lambda _: len(results.offsets) == 1000, what="the results of all commits"
    )
    assert results.errors == []
    assert results.offsets == [*range(1, 1000), 0]
    assert committed(cluster, group) == {(filled, 0): 0}
    assert len(consumer.assignment()) == 3


@pytest.mark.parametrize("method", ["close", "unsubscribe"])
def test_leaving_waits_for_unanswered_commits(
    consumers: Consumers, filled: str, cluster: Cluster, method: str
) -> None:
    group, results = new_group(), CommitRecorder()
    consumer = consumers({**MANUAL_COMMITS, "on_commit": results}, group=group)
    consumer.subscribe([filled])
    poll_until(consumer)
    for offset in range(1, 51):
        consumer.commit(
            offsets=[TopicPartition(filled, 0, offset), TopicPartition(filled, 1, 100 - offset)]
        )
    getattr(consumer, method)()
    if method == "unsubscribe":
        poll_until(
            consumer, until=lambda _: len(results.offsets) == 50, what="the results of all commits"
        )
    assert (results.offsets, results.errors) == (list(range(1, 51)), [])
    assert committed(cluster, group) == {(filled, 0): 50, (filled, 1): 50}


def test_commits_do_not_go_back_while_a_coordinator_dies(
    consumers: Consumers, cluster: Cluster
) -> None:
    group, results = new_group(), CommitRecorder()
    # After its first commit, the group has a coordinator.
    consumers(group=group).commit(offsets=[TopicPartition(new_name("none"), 0, 1)])
    coordinator = coordinator_of(cluster, group)
    leader = next(racks for racks in [["a"], ["b"]] if coordinator not in BROKERS[racks[0]])
    topic = create_topic(cluster, new_name("order"), replicas_led_from(leader))
    consumer = consumers({**MANUAL_COMMITS, "on_commit": results}, group=group)
    consumer.subscribe([topic])
    poll_until(consumer)
    sent = 0
    for change in (lambda _: None, cluster.kill_broker, cluster.start_broker):
        change(coordinator)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            sent += 1
            consumer.commit(offsets=[TopicPartition(topic, 0, sent)])
            consumer.poll(0.01)
    poll_until(
        consumer,
        until=lambda _: len(results.offsets) + len(results.errors) == sent,
        what="the results of all commits",
    )
    history = commit_history(cluster, group)
    assert count_decreases(history) == 0
    assert results.errors == []
    assert results.offsets == sorted(results.offsets)
    assert history[topic, 0][-1] == max(results.offsets)
