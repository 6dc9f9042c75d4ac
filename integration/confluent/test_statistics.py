"""What ``stats_cb`` gets: lag, committed offsets, and the group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from integration.support.confluent import (
    Callbacks,
    Consumers,
    new_group,
    poll_until,
    read_records,
)
from integration.support.topics import committed
from rackward.testing import Cluster

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)

Lags = dict[int, tuple[int, int, int, int]]


class Recorder:
    """A ``stats_cb`` that keeps the last statistics."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {}
        self.settings = {"statistics.interval.ms": 100, "stats_cb": self}

    def __call__(self, text: str) -> None:
        self.last = json.loads(text)

    def lags(self, topic: str) -> Lags:
        """Return committed and stored offset, and the lag by each, of each partition."""
        partitions = self.last.get("topics", {}).get(topic, {}).get("partitions", {})
        return {
            int(partition): (
                fields["committed_offset"],
                fields["consumer_lag"],
                fields["stored_offset"],
                fields["consumer_lag_stored"],
            )
            for partition, fields in partitions.items()
            if partition != "-1"
        }

    @property
    def group(self) -> dict[str, Any]:
        fields: dict[str, Any] = self.last.get("cgrp", {})
        return fields


def await_equal(consumer: Any, value: Callable[[], object], expected: object) -> None:
    """Poll until ``value()`` is ``expected``."""
    try:
        poll_until(consumer, until=lambda _: value() == expected, what=f"{expected}")
    except AssertionError:
        assert value() == expected
        raise


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_offsets_and_lag(
    consumers: Consumers, filled: str, cooperative: bool, isolation: str
) -> None:
    group, recorder = new_group(), Recorder()
    offsets = [TopicPartition(filled, 0, 4), TopicPartition(filled, 1, 10)]
    consumers(group=group).commit(offsets=offsets, asynchronous=False)

    settings = {"enable.auto.commit": False, "isolation.level": isolation}
    consumer = consumers({**settings, **recorder.settings}, group=group, cooperative=cooperative)
    consumer.subscribe([filled])
    read_records(consumer, 16)
    none = OFFSET_INVALID
    await_equal(
        consumer,
        lambda: recorder.lags(filled),
        {0: (4, 6, 10, 0), 1: (10, 0, none, -1), 2: (none, -1, 10, 0)},
    )
    # Each kind of commit.
    consumer.commit(offsets=[TopicPartition(filled, 2, 3)], asynchronous=False)
    await_equal(consumer, lambda: recorder.lags(filled)[2], (3, 7, 10, 0))
    consumer.commit(offsets=[TopicPartition(filled, 1, 8)])
    await_equal(consumer, lambda: recorder.lags(filled)[1], (8, 2, none, -1))
    consumer.commit(asynchronous=False)
    await_equal(
        consumer,
        lambda: recorder.lags(filled),
        {0: (10, 0, 10, 0), 1: (8, 2, none, -1), 2: (10, 0, 10, 0)},
    )
    # An offset after the end.
    consumer.commit(offsets=[TopicPartition(filled, 0, 11)], asynchronous=False)
    await_equal(consumer, lambda: recorder.lags(filled)[0], (11, -1, 10, 0))


def test_lag_with_automatic_commits(consumers: Consumers, filled: str, cluster: Cluster) -> None:
    group, recorder = new_group(), Recorder()
    settings = {"auto.commit.interval.ms": 200, "enable.auto.offset.store": False}
    consumer = consumers({**settings, **recorder.settings}, group=group)
    consumer.subscribe([filled])
    messages = read_records(consumer, 30)
    consumer.store_offsets(next(m for m in messages if (m.partition(), m.offset()) == (0, 4)))
    none = OFFSET_INVALID
    await_equal(
        consumer,
        lambda: recorder.lags(filled),
        {0: (5, 5, 5, 5), 1: (none, -1, none, -1), 2: (none, -1, none, -1)},
    )
    assert committed(cluster, group) == {(filled, 0): 5}


@pytest.mark.parametrize("cooperative", [False, True], ids=["eager", "cooperative"])
def test_the_fields_of_the_group(consumers: Consumers, filled: str, cooperative: bool) -> None:
    group, recorder, callbacks = new_group(), Recorder(), Callbacks()
    rebalanced_at: list[float] = []

    def stamp(_: object, __: object) -> None:
        rebalanced_at.append(time.monotonic())

    first = consumers(recorder.settings, group=group, cooperative=cooperative)
    await_equal(first, lambda: recorder.group.get("rebalance_cnt"), 0)
    assert recorder.group["join_state"] == "init"

    def fields() -> tuple[object, ...]:
        names = ("state", "join_state", "rebalance_cnt", "assignment_size")
        return tuple(recorder.group[name] for name in names)

    def expected(size: int) -> tuple[object, ...]:
        return ("up", "steady", len(callbacks.calls), size)

    first.subscribe([filled], **callbacks.all)
    poll_until(first, until=lambda _: callbacks.calls, what="an assignment")
    await_equal(first, fields, expected(3))
    assert len(callbacks.calls) == 1
    reason = recorder.group["rebalance_reason"]
    assert reason == "Metadata for subscribed topic(s) has changed"

    second = consumers(group=group, cooperative=cooperative)
    second.subscribe([filled], on_assign=stamp)

    def shared(_: object) -> bool:
        sizes = sorted(len(consumer.assignment()) for consumer in (first, second))
        return sizes == [1, 2] and recorder.group["join_state"] == "steady"

    poll_until(first, second, until=shared, what="a rebalance")
    size = len(first.assignment())
    poll_until(first, second, until=lambda _: fields() == expected(size), what=f"{expected(size)}")
    # confluent's consumer keeps the first reason in a cooperative rebalance.
    assert recorder.group["rebalance_reason"] == "rebalance in progress"
    kinds = [kind for kind, _ in callbacks.calls]
    # A cooperative member is called for what it gets and gives up, an eager one for everything.
    assert kinds[:3] == ["assign", "revoke", "assign"]
    age = recorder.group["rebalance_age"] / 1000
    assert 0 <= age <= time.monotonic() - rebalanced_at[0] + 5
    assert recorder.group["stateage"] > recorder.group["rebalance_age"]

    second.close()
    poll_until(first, until=lambda _: len(first.assignment()) == 3, what="all partitions")
    await_equal(first, fields, expected(3))
    first.unsubscribe()
    await_equal(first, lambda: recorder.group["assignment_size"], 0)
    await_equal(first, fields, ("up", "init", len(callbacks.calls), 0))
    assert recorder.group["rebalance_reason"] == "unsubscribe"
