"""Our coordinator for aiokafka: what it says, what it reads, what it waits for."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
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

from assignors.aiokafka import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.aiokafka import LeaderRackAwareRangeAssignor as Range
from assignors.consumer_protocol import SubscriptionReader, write_user_data
from tests.support.aiokafka import STICKY, Consumer
from tests.support.kafka_python import subscription_bytes

PATIENCE = "assignors.aiokafka.coordinator.METADATA_PATIENCE"


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, on a loop of its own that ends all tasks with it."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def eager(topics: list[str], rack: str, had: dict[str, list[int]], generation: int) -> bytes:
    """A subscription as another member of aiokafka would send it."""
    user_data = write_user_data(rack, had, generation)
    encoded: bytes = ConsumerProtocolMemberMetadata(0, topics, user_data).encode()
    return encoded


@on_a_loop
async def test_what_a_member_says() -> None:
    consumer = Consumer(Sticky(rack="az1"), Range(rack="az1"))
    await consumer.complete(7, {"t": [3, 1]})
    said = consumer.says()
    assert (said.version, said.subscription) == (0, ["t"])
    read = SubscriptionReader().read(said.encode())
    assert (read.rack, dict(read.owned), read.generation) == ("az1", {"t": (3, 1)}, 7)
    # It has given up what it had by the time it says this.
    assert read.released
    # The range assignor does not ask who had what, and other topics are none of it.
    read = SubscriptionReader().read(consumer.says(Range.name).encode())
    assert (read.rack, dict(read.owned), read.generation) == ("az1", {}, -1)
    assert dict(SubscriptionReader().read(consumer.says(topics=["u"]).encode()).owned) == {}


@on_a_loop
async def test_what_it_had_survives_a_subscription_and_a_lost_session() -> None:
    consumer = Consumer(Sticky(rack="a"))
    await consumer.complete(7, {"t": [3]})
    consumer.subscription.subscribe(topics={"t", "u"})
    consumer.coordinator.reset_generation()
    read = SubscriptionReader().read(consumer.says().encode())
    assert (dict(read.owned), read.generation) == ({"t": (3,)}, 7)


@on_a_loop
async def test_one_assignor_serves_two_consumers() -> None:
    strategy = Sticky(rack="a")
    one, other = Consumer(strategy), Consumer(strategy)
    await one.complete(3, {"t": [1]})
    await other.complete(4, {"t": [2]})
    said = [SubscriptionReader().read(each.says().encode()) for each in (one, other)]
    assert [(dict(read.owned), read.generation) for read in said] == [
        ({"t": (1,)}, 3),
        ({"t": (2,)}, 4),
    ]


@on_a_loop
async def test_members_of_all_clients_are_read() -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.client.answer({"t": [0, 1, 2, 0]})
    given = await consumer.perform(
        ("m0", None, eager(["t"], "a", {"t": [0, 1, 2, 3]}, 4)),
        ("m1", "static", subscription_bytes(["t"], rack="b")),
        ("m2", None, subscription_bytes(["t"], rack="c", owned={"t": [3]}, generation=4)),
        ("m3", None, subscription_bytes(["t"], rack="a")[:-3]),
    )
    # m0 gave everything up, so the others get theirs at once, but not what m2 still reads.
    assert given.keys() == {"m0", "m1", "m2", "m3"}
    assert given["m1"] == {"t": [1]}
    assert given["m2"] == {"t": [2]}
    assert sorted([given["m0"], given["m3"]], key=str) in ([{"t": [0]}, {}],)
    # An older broker does not tell of instance ids.
    assert await consumer.perform(
        ("m1", subscription_bytes(["t"], rack="b")), version=2
    ) == {"m1": {"t": [0, 1, 2, 3]}}  # fmt: skip


@on_a_loop
async def test_an_assignment_is_one_line_and_is_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "rackward.assignors")
    strategy = Sticky(rack="a")
    consumer = Consumer(strategy)
    assert strategy.last_assignment() is None
    consumer.client.answer({"t": [0, 1]})
    await consumer.perform(("m0", None, subscription_bytes(["t"], rack="a")))
    last = strategy.last_assignment(consumer.coordinator.group_id)
    assert last is not None
    assert [each.message for each in caplog.records if each.levelno == logging.INFO] == [str(last)]
    assert (last.partitions, last.generation) == (2, consumer.coordinator.generation)
    assert strategy.assignments() == (last,)


@on_a_loop
async def test_it_waits_for_topics_that_only_others_subscribe_to() -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.client.answer({"t": [0]})
    consumer.client.answers = [{"t": [0]}, {"t": [0], "u": [1, 1]}]
    given = await consumer.perform(
        ("m0", None, subscription_bytes(["t"], rack="a")),
        ("m1", None, subscription_bytes(["u"], rack="b")),
    )
    assert given == {"m0": {"t": [0]}, "m1": {"u": [0, 1]}}
    assert consumer.client.asked[-1] == {"t", "u"}
    # It watches both, and what it compares metadata with has both: no rebalance follows.
    consumer.coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
    consumer.client.answer({"t": [0], "u": [1, 1]})
    assert not consumer.coordinator._rejoin_needed_fut.done()
    consumer.client.answer({"t": [0], "u": [1, 1, 1]})
    assert consumer.coordinator._rejoin_needed_fut.done()


@on_a_loop
async def test_a_topic_that_two_answers_lack_does_not_exist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.client.answers = [{"t": [0]}]
    claimed = eager(["t", "gone", "no such/name"], "a", {"gone": [3]}, 1)
    for _ in range(2):
        assert await consumer.perform(("m0", None, claimed)) == {"m0": {"t": [0]}}
    assert "topic gone is subscribed to but does not exist" in caplog.text
    assert consumer.client.asked[-1] == {"t", "gone"}


@on_a_loop
async def test_owners_keep_a_topic_that_nothing_is_known_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PATIENCE, 0.05)
    members = [
        ("m0", None, eager(["t", "u"], "a", {"u": [0, 1]}, 4)),
        ("m1", None, subscription_bytes(["t", "u"], owned={"u": [1, 2]}, generation=5)),
        ("m2", None, subscription_bytes(["t"], owned={"u": [7]}, generation=5)),
    ]
    silent, forbidden = Consumer(Sticky(rack="a")), Consumer(Sticky(rack="a"))
    silent.client.answer({"t": [0]})
    forbidden.client.unauthorized = frozenset({"u"})
    forbidden.client.answers = [{"t": [0]}]
    for consumer in (silent, forbidden):
        given = await consumer.perform(*members)
        assert {m: ts["u"] for m, ts in given.items() if "u" in ts} == {"m0": [0], "m1": [1, 2]}


@on_a_loop
async def test_a_pattern_goes_on_watching_all_topics() -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.subscription.unsubscribe()
    consumer.subscription.subscribe_pattern(re.compile("[tu]"))
    consumer.client.answers = [{"t": [0], "u": [1]}]
    await consumer.perform(("m0", None, subscription_bytes(["t", "u"], rack="a")))
    assert consumer.client.asked == [frozenset()]


@on_a_loop
async def test_a_hand_over_that_nobody_makes_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(Sticky(rack="a"))
    coordinator = consumer.coordinator
    consumer.client.answer({"t": [0, 0]})
    monkeypatch.setattr("assignors.aiokafka.coordinator.HAND_OVER_PATIENCE", 0.01)
    members = [
        ("m0", None, eager(["t"], "a", {}, -1)),
        ("m1", None, subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}, generation=1)),
    ]
    for later, asks in ((99, False), (4, True)):
        coordinator.generation = 4
        coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
        await consumer.perform(*members)
        coordinator.generation = later
        await asyncio.sleep(0.05)
        assert coordinator._rejoin_needed_fut.done() is asks
    assert "1 withheld partitions" in caplog.text


@on_a_loop
async def test_an_assignor_of_aiokafkas_own_is_asked_as_ever() -> None:
    consumer = Consumer(RoundRobinPartitionAssignor, Sticky(rack="a"))
    consumer.client.answer({"t": [0, 0]})
    member = ConsumerProtocolMemberMetadata(0, ["t"], b"").encode()
    given = await consumer.perform(("m0", None, member), protocol="roundrobin")
    assert given == {"m0": {"t": [0, 1]}}
    # What it was given so, it claims for ours: a rolling change of strategy keeps it.
    await consumer.complete(5, {"t": [1]}, "roundrobin")
    assert dict(SubscriptionReader().read(consumer.says().encode()).owned) == {"t": (1,)}


@on_a_loop
async def test_a_topic_that_is_gone_is_committed_once_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[Any] = []

    async def commit(_: Any, _assignment: Any, offsets: Any) -> None:
        tries.append(offsets)
        if len(tries) < 3:
            raise UnknownTopicOrPartitionError("planted")

    monkeypatch.setattr(GroupCoordinator, "_do_commit_offsets", commit)
    read = SimpleNamespace(all_consumed_offsets=lambda: {"t": 5})
    ours, others = (
        Consumer(Sticky(rack="a"), retry_backoff_ms=1),
        Consumer(RoundRobinPartitionAssignor),
    )
    ours.coordinator.coordinator_id = others.coordinator.coordinator_id = 0
    with pytest.raises(CommitFailedError, match="topic that is gone"):
        await ours.coordinator._maybe_do_last_autocommit(read)
    assert tries == [{"t": 5}]
    # A commit by the application, and a consumer without our assignors: as aiokafka has it.
    await ours.coordinator.commit_offsets(read, {"t": 6})
    tries.clear()
    await others.coordinator._maybe_do_last_autocommit(read)
    assert len(tries) == 3


@on_a_loop
async def test_it_asks_to_join_once_however_many_assignors_there_are(
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
    # One of aiokafka's own alone is left as it is: a request for each.
    sent.clear()
    consumer = Consumer(RoundRobinPartitionAssignor, RoundRobinPartitionAssignor)
    await consumer.coordinator._do_rejoin_group(consumer.subscription.subscription)
    assert sent == [["roundrobin"], ["roundrobin"] * 2]
