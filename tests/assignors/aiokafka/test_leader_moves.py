"""Checks of moved leaders by the coordinator of an AIOKafkaConsumer, without brokers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from assignors import RefreshPolicy
from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as Sticky
from tests.assignors.aiokafka.test_coordinator import on_a_loop
from tests.support.aiokafka import Consumer
from tests.support.kafka_python import subscription_bytes
from tests.support.waiting import TEST_TIMEOUT

POLICY = RefreshPolicy(stable_seconds=0.3, unstable_seconds=0.3, min_interval=0, check_interval=0.1)
GROUP = [(f"m{n}", None, subscription_bytes(["t"], rack="ab"[n])) for n in range(2)]


async def stable(policy: RefreshPolicy | None, *, leads: bool = True) -> Consumer:
    consumer = Consumer(Sticky(rack="a", refresh=policy))
    consumer.client.responses = [{"t": [0, 1]}]
    consumer.client.respond({"t": [0, 1]})
    consumer.coordinator.generation = 1
    if leads:
        assert await consumer.perform(*GROUP) == {"m0": {"t": [0]}, "m1": {"t": [1]}}
    await consumer.complete(1, {"t": [0]})
    await asyncio.sleep(0.01)  # Let the tasks of the coordinator start.
    consumer.client.requested.clear()
    consumer.coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
    return consumer


async def rejoins(consumer: Consumer, within: float) -> bool:
    waited, _ = await asyncio.wait([consumer.coordinator._rejoin_needed_fut], timeout=within)
    return bool(waited)


@on_a_loop
async def test_a_metadata_request_without_response_is_repeated() -> None:
    consumer = await stable(POLICY)
    consumer.client.responses = []
    assert not await rejoins(consumer, within=0.5)
    consumer.client.responses = [{"t": [1, 0]}]
    assert await rejoins(consumer, within=TEST_TIMEOUT)


@on_a_loop
async def test_a_new_join_or_close_ends_the_checks() -> None:
    for ends in ("_on_join_prepare", "close"):
        consumer = await stable(POLICY)
        # close() waits for a task that tests.support.aiokafka.Consumer has cancelled.
        with contextlib.suppress(asyncio.CancelledError):
            if ends == "close":
                await consumer.coordinator.close()
            else:
                await consumer.coordinator._on_join_prepare(None)
        consumer.client.requested.clear()
        await asyncio.sleep(0.3)
        assert consumer.client.requested == []


@on_a_loop
async def test_join_that_ends_during_close_leaves_no_task_or_timer() -> None:
    # aiokafka completes a join in progress before it leaves the group.
    consumer = await stable(POLICY)

    async def end_of_a_join() -> None:
        still_owning = ("m1", None, subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}))
        assert await consumer.perform(GROUP[0], still_owning) == {"m0": {}, "m1": {"t": [1]}}
        await consumer.complete(1, {})

    consumer.coordinator._coordination_task = asyncio.create_task(end_of_a_join())
    await consumer.coordinator.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    loop: Any = asyncio.get_running_loop()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


@on_a_loop
async def test_followers_and_leaders_without_policy_request_nothing() -> None:
    for consumer in (await stable(POLICY, leads=False), await stable(None)):
        await asyncio.sleep(0.3)
        assert consumer.client.requested == []


@on_a_loop
async def test_the_leader_of_an_earlier_generation_requests_nothing() -> None:
    consumer = await stable(POLICY)
    await consumer.coordinator._on_join_prepare(None)
    consumer.client.requested.clear()
    await consumer.complete(2, {"t": [0]})
    await asyncio.sleep(0.3)
    assert consumer.client.requested == []
