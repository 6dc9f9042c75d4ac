"""The consumer for asyncio: confluent's AIOConsumer, and ours in its place."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka.aio
import pytest
from confluent_kafka import TopicPartition

import assignors.confluent
from integration.support.confluent import RACKWARD, Variant, new_group, places
from integration.support.topics import committed
from rackward.clusters import Cluster
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.parametrize("cluster", ["local"], indirect=True)


@pytest.fixture
def make(variant: Variant, cluster: Cluster) -> Callable[..., Any]:
    kind = confluent_kafka.aio.AIOConsumer if variant is not RACKWARD else None
    kind = kind or assignors.confluent.AIOConsumer

    def made(group: str, **settings: Any) -> Any:
        return kind(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": variant.cooperative,
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 200,
                "log_level": 0,
                **settings,
            }
        )

    return made


async def until(consumer: Any, enough: Callable[[list[Any]], object]) -> list[Any]:
    deadline = time.monotonic() + PATIENCE
    found: list[Any] = []
    while not enough(found):
        assert time.monotonic() < deadline, found
        message = await consumer.poll(0.05)
        if message is not None:
            assert message.error() is None
            found.append(message)
    return found


def test_coroutines_all_the_way(make: Callable[..., Any], filled: str, cluster: Cluster) -> None:
    group = new_group()
    calls: list[tuple[str, set[tuple[str, int]], int]] = []
    commits: list[int] = []

    async def run() -> None:
        here = threading.get_ident()

        async def on_assign(consumer: Any, partitions: list[TopicPartition]) -> None:
            calls.append(("assign", places(partitions), threading.get_ident()))
            if partitions:
                # What is asked in a callback belongs to the call that the callback comes from.
                await consumer.incremental_assign(
                    [TopicPartition(p.topic, p.partition, 4) for p in partitions]
                )

        async def on_revoke(consumer: Any, partitions: list[TopicPartition]) -> None:
            calls.append(("revoke", places(partitions), threading.get_ident()))
            assert places(await consumer.assignment()) == places(partitions)

        async def on_commit(error: object, partitions: list[TopicPartition]) -> None:
            assert error is None
            assert threading.get_ident() == here
            commits.extend(p.offset for p in partitions)

        # Nothing is committed but what is said here.
        consumer = make(group, on_commit=on_commit, **{"auto.commit.interval.ms": 600_000})
        await consumer.subscribe([filled], on_assign=on_assign, on_revoke=on_revoke)
        found = await until(consumer, lambda found: len(found) == 18)
        assert sorted((m.partition(), m.offset()) for m in found) == [
            (p, n) for p in range(3) for n in range(4, 10)
        ]
        await consumer.commit(message=found[0])
        await until(consumer, lambda _: commits)
        answer = await consumer.commit(asynchronous=False)
        assert {p.offset for p in answer} == {10}
        # Others get their turn while a poll waits; of a machine that stalls, while another does.
        ticks, deadline = 0, time.monotonic() + PATIENCE
        while ticks <= 3:
            assert time.monotonic() < deadline, f"{ticks} turns in a poll of half a second"
            poll = asyncio.create_task(consumer.poll(0.5))
            ticks = 0
            while not poll.done():
                await asyncio.sleep(0.01)
                ticks += 1
        await consumer.close()
        with pytest.raises(RuntimeError):
            await consumer.poll(0)
        everything = {(filled, p) for p in range(3)}
        assert [call for call in calls if call[1]] == [
            ("assign", everything, here),
            ("revoke", everything, here),
        ]

    asyncio.run(run())
    assert committed(cluster, group) == {(filled, p): 10 for p in range(3)}


def test_two_members_in_one_loop(make: Callable[..., Any], filled: str) -> None:
    async def run() -> None:
        group = new_group()
        async with make(group) as one, make(group) as other:
            held: list[list[TopicPartition]] = [[], []]

            async def keep(consumer: Any, at: int) -> None:
                deadline = time.monotonic() + PATIENCE
                while {1, 2} != {len(each) for each in held}:
                    assert time.monotonic() < deadline, held
                    await consumer.poll(0.05)
                    held[at] = await consumer.assignment()

            await one.subscribe([filled])
            await other.subscribe([filled])
            await asyncio.gather(keep(one, 0), keep(other, 1))
            assert places(held[0]) | places(held[1]) == {(filled, p) for p in range(3)}

    asyncio.run(run())
