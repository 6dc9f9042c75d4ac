"""What an AIOKafkaConsumer's coordinator does for a policy, without brokers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from assignors import RefreshPolicy
from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.aiokafka import LeaderRackAwareRangeAssignor as Range
from assignors.aiokafka.coordinator import NOT_TOLD, read_metadata
from assignors.leader_moves import DEFAULT_REFRESH, PartitionState
from placement_core import InvalidOptionError
from tests.assignors.aiokafka.test_coordinator import on_a_loop
from tests.support.aiokafka import Consumer
from tests.support.kafka_python import subscription_bytes
from tests.support.waiting import PATIENCE

POLICY = RefreshPolicy(settling=0.3, patience=0.3, cool_down=0, check_interval=0.1)
GROUP = [(f"m{n}", None, subscription_bytes(["t"], rack="ab"[n])) for n in range(2)]


async def at_rest(policy: RefreshPolicy | None, *, leads: bool = True) -> Consumer:
    consumer = Consumer(Sticky(rack="a", refresh=policy))
    consumer.client.answers = [{"t": [0, 1]}]
    consumer.client.answer({"t": [0, 1]})
    consumer.coordinator.generation = 1
    if leads:
        assert await consumer.perform(*GROUP) == {"m0": {"t": [0]}, "m1": {"t": [1]}}
    await consumer.complete(1, {"t": [0]})
    await asyncio.sleep(0.01)  # Its other tasks begin.
    consumer.client.asked.clear()
    consumer.coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
    return consumer


async def rejoins(consumer: Consumer, within: float) -> bool:
    waited, _ = await asyncio.wait([consumer.coordinator._rejoin_needed_fut], timeout=within)
    return bool(waited)


@on_a_loop
async def test_it_rejoins_when_leaders_have_moved_and_settled() -> None:
    consumer = await at_rest(POLICY)
    assert not await rejoins(consumer, within=0.5)
    assert consumer.client.asked
    consumer.client.answers = [{"t": [1, 0]}]
    assert await rejoins(consumer, within=PATIENCE)


@on_a_loop
async def test_silent_brokers_are_asked_again() -> None:
    consumer = await at_rest(POLICY)
    consumer.client.answers = []
    assert not await rejoins(consumer, within=0.5)
    consumer.client.answers = [{"t": [1, 0]}]
    assert await rejoins(consumer, within=PATIENCE)


@on_a_loop
async def test_who_prepares_a_join_or_closes_looks_no_more() -> None:
    for ends in ("_on_join_prepare", "close"):
        consumer = await at_rest(POLICY)
        # The task that closing waits for was cancelled by the test's consumer.
        with contextlib.suppress(asyncio.CancelledError):
            if ends == "close":
                await consumer.coordinator.close()
            else:
                await consumer.coordinator._on_join_prepare(None)
        consumer.client.asked.clear()
        await asyncio.sleep(0.3)
        assert consumer.client.asked == []


@on_a_loop
async def test_a_join_that_ends_while_it_closes_leaves_nothing_behind() -> None:
    # aiokafka finishes a join that is on its way before it leaves.
    consumer = await at_rest(POLICY)

    async def end_of_a_join() -> None:
        keeping = ("m1", None, subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}))
        assert await consumer.perform(GROUP[0], keeping) == {"m0": {}, "m1": {"t": [1]}}
        await consumer.complete(1, {})

    consumer.coordinator._coordination_task = asyncio.create_task(end_of_a_join())
    await consumer.coordinator.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    loop: Any = asyncio.get_running_loop()
    assert [timer for timer in loop._scheduled if not timer.cancelled()] == []


@on_a_loop
async def test_followers_and_those_without_a_policy_ask_for_nothing() -> None:
    for consumer in (await at_rest(POLICY, leads=False), await at_rest(None)):
        await asyncio.sleep(0.3)
        assert consumer.client.asked == []


@on_a_loop
async def test_who_led_the_generation_before_does_not_look() -> None:
    consumer = await at_rest(POLICY)
    await consumer.coordinator._on_join_prepare(None)
    consumer.client.asked.clear()
    await consumer.complete(2, {"t": [0]})
    await asyncio.sleep(0.3)
    assert consumer.client.asked == []


def test_by_default_there_is_a_policy() -> None:
    assert Sticky().refresh is Range().refresh is DEFAULT_REFRESH
    with pytest.raises(InvalidOptionError, match="refresh is 60"):
        Range(refresh=60)  # type: ignore[arg-type]


@on_a_loop
async def test_what_is_read_off_the_metadata() -> None:
    consumer = Consumer(Sticky())
    consumer.client.answer({"t": [0, 1], "other": [0]})
    leaders, states = read_metadata(consumer.client.cluster, ["t", "gone"])
    assert leaders.racks == {"t": ["a", "b"]}
    assert leaders.unseen == {"gone"}
    assert list(states) == [
        PartitionState("t", 0, 0, NOT_TOLD, [], []),
        PartitionState("t", 1, 1, NOT_TOLD, [], []),
    ]
