"""The coordinator for aiokafka: subscriptions, metadata, joins, commits, and moved leaders."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import (
    CommitFailedError,
    GroupLoadInProgressError,
    UnknownTopicOrPartitionError,
)

from assignors import RefreshPolicy
from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.aiokafka import LeaderRackAwareRangeAssignor as Range
from assignors.consumer_protocol import SubscriptionReader, write_user_data
from tests.support.aiokafka import STICKY, Consumer
from tests.support.kafka_python import subscription_bytes
from tests.support.waiting import TEST_TIMEOUT

METADATA_TIMEOUT = "assignors.group_leader.rebalance.METADATA_TIMEOUT"


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a coroutine test on a new event loop."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def eager_subscription(
    topics: list[str], rack: str, owned: dict[str, list[int]], generation: int
) -> bytes:
    """Return a subscription as another member of aiokafka would send it."""
    user_data = write_user_data(rack, owned, generation)
    encoded: bytes = ConsumerProtocolMemberMetadata(0, topics, user_data).encode()
    return encoded


@on_a_loop
async def test_the_subscription_has_the_rack_and_the_owned_partitions() -> None:
    consumer = Consumer(Sticky(rack="az1"), Range(rack="az1"))
    await consumer.complete(7, {"t": [3, 1]})
    metadata = consumer.metadata()
    assert (metadata.version, metadata.subscription) == (0, ["t"])
    read = SubscriptionReader().read(metadata.encode())
    assert (read.rack, dict(read.owned), read.generation) == ("az1", {"t": (3, 1)}, 7)
    # An eager member has revoked all partitions when it sends its subscription.
    assert read.released
    # The range assignor sends no owned partitions, the sticky one none of other topics.
    read = SubscriptionReader().read(consumer.metadata(Range.name).encode())
    assert (read.rack, dict(read.owned), read.generation) == ("az1", {}, -1)
    assert dict(SubscriptionReader().read(consumer.metadata(topics=["u"]).encode()).owned) == {}


@on_a_loop
async def test_client_rack_is_the_members_and_is_not_fetched_with(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RACKWARD_RACK", raising=False)

    async def racks(strategy: Any, name: str = STICKY) -> tuple[Any, Any]:
        """Return the rack of a consumer with client_rack="b" when it joins, and in fetches."""
        consumer = Consumer(strategy, client_rack="b")
        fetcher = consumer.subscription.rackward_fetcher
        await fetcher.close()
        metadata = consumer.coordinator._lookup_assignor(name).metadata(["t"]).encode()
        return SubscriptionReader().read(metadata).rack, fetcher._client_rack

    assert await racks(Sticky()) == ("b", None)
    assert await racks(Sticky(rack="b")) == ("b", None)
    assert "client_rack" not in caplog.text
    assert await racks(Sticky(rack="a")) == ("a", None)
    assert "client_rack='b' is ignored: the rack of the assignor is 'a'" in caplog.text
    assert await racks(RoundRobinPartitionAssignor, "roundrobin") == (None, "b")


@on_a_loop
async def test_one_assignor_may_be_given_to_two_consumers() -> None:
    strategy = Sticky(rack="a")
    one, other = Consumer(strategy), Consumer(strategy)
    await one.complete(3, {"t": [1]})
    await other.complete(4, {"t": [2]})
    subscriptions = [SubscriptionReader().read(each.metadata().encode()) for each in (one, other)]
    assert [(dict(read.owned), read.generation) for read in subscriptions] == [
        ({"t": (1,)}, 3),
        ({"t": (2,)}, 4),
    ]


@on_a_loop
async def test_an_assignment_is_logged_and_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    strategy = Sticky(rack="a")
    consumer = Consumer(strategy)
    assert strategy.last_assignment() is None
    consumer.client.respond({"t": [0, 1]})
    await consumer.perform(("m0", None, subscription_bytes(["t"], rack="a")))
    last = strategy.last_assignment(consumer.coordinator.group_id)
    assert last is not None
    assert [each.message for each in caplog.records if each.levelno == logging.INFO] == [str(last)]
    assert (last.partitions, last.generation) == (2, consumer.coordinator.generation)
    assert strategy.assignments() == (last,)


@on_a_loop
async def test_owners_keep_a_topic_without_metadata_or_authorization(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(METADATA_TIMEOUT, 0.05)
    members = [
        ("m0", None, eager_subscription(["t", "u"], "a", {"u": [0, 1]}, 4)),
        ("m1", None, subscription_bytes(["t", "u"], owned={"u": [1, 2]}, generation=5)),
        ("m2", None, subscription_bytes(["t"], owned={"u": [7]}, generation=5)),
    ]
    silent, forbidden = Consumer(Sticky(rack="a")), Consumer(Sticky(rack="a"))
    silent.client.respond({"t": [0]})
    forbidden.client.unauthorized = frozenset({"u"})
    forbidden.client.responses = [{"t": [0]}]
    for consumer in (silent, forbidden):
        assigned = await consumer.perform(*members)
        assert {m: ts["u"] for m, ts in assigned.items() if "u" in ts} == {"m0": [0], "m1": [1, 2]}


@on_a_loop
async def test_commit_for_a_deleted_topic_is_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[Any] = []

    async def commit(_: Any, _assignment: Any, offsets: Any) -> None:
        attempts.append(offsets)
        if len(attempts) < 3:
            raise UnknownTopicOrPartitionError("planted")

    monkeypatch.setattr(GroupCoordinator, "_do_commit_offsets", commit)
    assignment = SimpleNamespace(all_consumed_offsets=lambda: {"t": 5})
    aware, others = (
        Consumer(Sticky(rack="a"), retry_backoff_ms=1),
        Consumer(RoundRobinPartitionAssignor),
    )
    aware.coordinator.coordinator_id = others.coordinator.coordinator_id = 0
    with pytest.raises(CommitFailedError, match="offsets of a deleted topic"):
        await aware.coordinator._maybe_do_last_autocommit(assignment)
    with pytest.raises(CommitFailedError, match="offsets of a deleted topic"):
        await aware.coordinator.commit_offsets(assignment, {"t": 6})
    assert attempts == [{"t": 5}, {"t": 6}]
    # The periodic commit goes on, with the positions of its time.
    attempts.clear()
    aware.coordinator._next_autocommit_deadline = 0
    assert await aware.coordinator._maybe_do_autocommit(assignment) == 0.001
    # A consumer without rackward's assignors behaves as before.
    attempts.clear()
    await others.coordinator._maybe_do_last_autocommit(assignment)
    assert len(attempts) == 3


@on_a_loop
async def test_one_join_request_is_sent_for_several_assignors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[list[str]] = []

    async def send(_: Any, request: Any) -> Any:
        sent.append([name for name, _ in request._group_protocols])
        return SimpleNamespace(error_code=GroupLoadInProgressError.errno)

    monkeypatch.setattr(GroupCoordinator, "_send_req", send)
    for strategies in ((Sticky(rack="a"), RoundRobinPartitionAssignor), (Range(rack="a"),)):
        consumer = Consumer(*strategies, retry_backoff_ms=1)
        await consumer.coordinator._do_rejoin_group(consumer.subscription.subscription)
    assert sent == [[STICKY, "roundrobin"], [Range.name]]
    # Without rackward's assignors aiokafka sends one request per assignor.
    sent.clear()
    consumer = Consumer(RoundRobinPartitionAssignor, RoundRobinPartitionAssignor)
    await consumer.coordinator._do_rejoin_group(consumer.subscription.subscription)
    assert sent == [["roundrobin"], ["roundrobin"] * 2]


# Checks of moved leaders.

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
