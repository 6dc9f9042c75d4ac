"""Many asynchronous commits: their order, their answers, and what becomes of them at the end."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import TopicPartition as At

from integration.support.confluent import CONFLUENT, Consumers, new_group, read
from integration.support.offsets_topic import commit_history, went_back
from integration.support.racks import BROKERS, replicas_led_from
from integration.support.topics import committed, coordinator_of, create_topic, new_name
from rackward.clusters import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

BY_HAND = {"enable.auto.commit": False}


class Answers:
    """An ``on_commit`` that keeps the offset of partition 0 that it is told of, or the error."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.errors: list[str] = []

    def __call__(self, error: Any, partitions: list[At]) -> None:
        if error is not None:
            self.errors.append(error.name())
        else:
            self.offsets += [each.offset for each in partitions if each.partition == 0]


def test_the_last_of_many_asynchronous_commits_counts(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group, answers = new_group(), Answers()
    consumer = consumers({**BY_HAND, "on_commit": answers}, group=group)
    consumer.subscribe([filled])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    begun = time.monotonic()
    for offset in range(1, 1001):
        consumer.commit(offsets=[At(filled, 0, offset % 1000)])
    read(consumer, until=lambda _: len(answers.offsets) == 1000, what="all answers")
    print(f"{consumers.variant}: {1000 / (time.monotonic() - begun):.0f} commits a second")
    assert answers.errors == []
    assert answers.offsets == [*range(1, 1000), 0]
    assert committed(cluster, group) == {(filled, 0): 0}
    assert len(consumer.assignment()) == 3


def test_close_waits_for_the_commits_that_are_on_their_way(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group, answers = new_group(), Answers()
    consumer = consumers({**BY_HAND, "on_commit": answers}, group=group)
    consumer.subscribe([filled])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    for offset in range(1, 51):
        consumer.commit(offsets=[At(filled, 0, offset), At(filled, 1, 100 - offset)])
    consumer.close()
    assert answers.errors == []
    assert answers.offsets == list(range(1, 51))
    assert committed(cluster, group) == {(filled, 0): 50, (filled, 1): 50}


def test_unsubscribe_waits_for_them_too(
    consumers: Consumers, filled: str, cluster: Cluster
) -> None:
    group, answers = new_group(), Answers()
    consumer = consumers({**BY_HAND, "on_commit": answers}, group=group)
    consumer.subscribe([filled])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    for offset in range(1, 51):
        consumer.commit(offsets=[At(filled, 0, offset)])
    consumer.unsubscribe()
    read(consumer, until=lambda _: len(answers.offsets) == 50, what="all answers")
    assert (answers.offsets, answers.errors) == (list(range(1, 51)), [])
    assert committed(cluster, group) == {(filled, 0): 50}


def test_committed_offsets_do_not_go_back_while_a_coordinator_dies(
    consumers: Consumers, cluster: Cluster
) -> None:
    group, answers = new_group(), Answers()
    # A commit makes the coordinator known.
    consumers(group=group).commit(offsets=[At(new_name("none"), 0, 1)])
    dead = coordinator_of(cluster, group)
    leader = next(racks for racks in [["a"], ["b"]] if dead not in BROKERS[racks[0]])
    topic = create_topic(cluster, new_name("order"), replicas_led_from(leader))
    consumer = consumers({**BY_HAND, "on_commit": answers}, group=group)
    consumer.subscribe([topic])
    read(consumer, until=lambda _: consumer.assignment(), what="an assignment")
    sent = 0
    for act in (lambda _: None, cluster.kill_broker, cluster.start_broker):
        act(dead)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            sent += 1
            consumer.commit(offsets=[At(topic, 0, sent)])
            consumer.poll(0.01)
    read(
        consumer,
        until=lambda _: len(answers.offsets) + len(answers.errors) == sent,
        what="all answers",
    )
    history = commit_history(cluster, group)
    print(
        f"{consumers.variant}: {len(answers.offsets)} of {sent} acknowledged,"
        f" {went_back(history)} went back, errors: {sorted(set(answers.errors))}"
    )
    if consumers.variant is CONFLUENT:
        return  # It may send a failed commit again after a later one.
    assert went_back(history) == 0
    assert answers.errors == []
    assert answers.offsets == sorted(answers.offsets)
    assert history[topic, 0][-1] == max(answers.offsets)
