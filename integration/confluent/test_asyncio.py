"""The AIOConsumer: callbacks on the loop, several members in one, statistics and the logger."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from assignors.confluent import AIOConsumer
from integration.support.confluent import RACKWARD, new_group, partition_keys
from integration.support.topics import committed
from rackward.testing import Cluster
from tests.support.waiting import TEST_TIMEOUT

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


@pytest.fixture
def make(cluster: Cluster) -> Callable[..., AIOConsumer]:
    def construct(group: str, **settings: Any) -> AIOConsumer:
        return AIOConsumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": RACKWARD.cooperative,
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 200,
                "log_level": 0,
                **settings,
            }
        )

    return construct


async def poll_until(consumer: Any, enough: Callable[[list[Any]], object]) -> list[Any]:
    deadline = time.monotonic() + TEST_TIMEOUT
    messages: list[Any] = []
    while not enough(messages):
        assert time.monotonic() < deadline, messages
        message = await consumer.poll(0.05)
        if message is not None:
            assert message.error() is None
            messages.append(message)
    return messages


def test_callbacks_are_coroutines_on_the_loop(
    make: Callable[..., Any], filled: str, cluster: Cluster
) -> None:
    group = new_group()
    calls: list[tuple[str, set[tuple[str, int]], int]] = []
    commits: list[int] = []

    async def run() -> None:
        here = threading.get_ident()

        async def on_assign(consumer: Any, partitions: list[TopicPartition]) -> None:
            calls.append(("assign", partition_keys(partitions), threading.get_ident()))
            if partitions:
                # A call within a callback is part of the call that invoked the callback.
                await consumer.incremental_assign(
                    [TopicPartition(p.topic, p.partition, 4) for p in partitions]
                )

        async def on_revoke(consumer: Any, partitions: list[TopicPartition]) -> None:
            calls.append(("revoke", partition_keys(partitions), threading.get_ident()))
            assert partition_keys(await consumer.assignment()) == partition_keys(partitions)

        async def on_commit(error: object, partitions: list[TopicPartition]) -> None:
            assert error is None
            assert threading.get_ident() == here
            commits.extend(p.offset for p in partitions)

        # No automatic commit is due during the test.
        consumer = make(group, on_commit=on_commit, **{"auto.commit.interval.ms": 600_000})
        await consumer.subscribe([filled], on_assign=on_assign, on_revoke=on_revoke)
        messages = await poll_until(consumer, lambda messages: len(messages) == 18)
        assert sorted((m.partition(), m.offset()) for m in messages) == [
            (p, n) for p in range(3) for n in range(4, 10)
        ]
        await consumer.commit(message=messages[0])
        await poll_until(consumer, lambda _: commits)
        result = await consumer.commit(asynchronous=False)
        assert {p.offset for p in result} == {10}
        # Other tasks run during a poll. A machine may stall for one poll, so several are tried.
        ticks, deadline = 0, time.monotonic() + TEST_TIMEOUT
        while ticks <= 3:
            assert time.monotonic() < deadline, (
                f"{ticks} iterations of the loop in a poll of half a second"
            )
            poll = asyncio.create_task(consumer.poll(0.5))
            ticks = 0
            while not poll.done():
                await asyncio.sleep(0.01)
                ticks += 1
        await consumer.close()
        with pytest.raises(RuntimeError):
            await consumer.poll(0)
        all_partitions = {(filled, p) for p in range(3)}
        assert [call for call in calls if call[1]] == [
            ("assign", all_partitions, here),
            ("revoke", all_partitions, here),
        ]

    asyncio.run(run())
    assert committed(cluster, group) == {(filled, p): 10 for p in range(3)}


def test_two_members_in_one_loop(make: Callable[..., Any], filled: str) -> None:
    async def run() -> None:
        group = new_group()
        async with make(group) as one, make(group) as other:
            assignments: list[list[TopicPartition]] = [[], []]

            async def poll(consumer: Any, index: int) -> None:
                deadline = time.monotonic() + TEST_TIMEOUT
                while {1, 2} != {len(assigned) for assigned in assignments}:
                    assert time.monotonic() < deadline, assignments
                    await consumer.poll(0.05)
                    assignments[index] = await consumer.assignment()

            await one.subscribe([filled])
            await other.subscribe([filled])
            await asyncio.gather(poll(one, 0), poll(other, 1))
            assert partition_keys(assignments[0]) | partition_keys(assignments[1]) == {
                (filled, p) for p in range(3)
            }

    asyncio.run(run())


def test_statistics_and_the_logger(make: Callable[..., Any], filled: str) -> None:
    statistics: list[dict[str, Any]] = []

    async def stats_cb(text: str) -> None:
        statistics.append(json.loads(text))

    async def run() -> None:
        logger = logging.Logger("test")
        settings = {"statistics.interval.ms": 100, "stats_cb": stats_cb, "logger": logger}
        consumer = make(new_group(), **settings, **{"enable.auto.commit": False})
        await consumer.subscribe([filled])
        await poll_until(consumer, lambda messages: len(messages) == 30)
        await consumer.commit(asynchronous=False)

        def lags(_: object) -> bool:
            topics = statistics[-1]["topics"] if statistics else {}
            partitions = topics.get(filled, {}).get("partitions", {})
            lag = {each["consumer_lag"] for number, each in partitions.items() if number != "-1"}
            return lag == {0} and statistics[-1]["cgrp"]["assignment_size"] == 3

        await poll_until(consumer, lags)
        await consumer.close()

    asyncio.run(run())
