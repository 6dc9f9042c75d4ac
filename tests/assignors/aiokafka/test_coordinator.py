"""The coordinator for aiokafka: subscriptions sent and read, metadata, joins, commits."""

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

METADATA_TIMEOUT = "assignors.aiokafka.coordinator.METADATA_TIMEOUT"


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
async def test_claims_outlast_a_new_subscription_and_lost_session() -> None:
    consumer = Consumer(Sticky(rack="a"))
    await consumer.complete(7, {"t": [3]})
    consumer.subscription.subscribe(topics={"t", "u"})
    consumer.coordinator.reset_generation()
    read = SubscriptionReader().read(consumer.metadata().encode())
    assert (dict(read.owned), read.generation) == ({"t": (3,)}, 7)


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
async def test_subscriptions_of_all_clients_are_read() -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.client.respond({"t": [0, 1, 2, 0]})
    assigned = await consumer.perform(
        ("m0", None, eager_subscription(["t"], "a", {"t": [0, 1, 2, 3]}, 4)),
        ("m1", "static", subscription_bytes(["t"], rack="b")),
        ("m2", None, subscription_bytes(["t"], rack="c", owned={"t": [3]}, generation=4)),
        ("m3", None, subscription_bytes(["t"], rack="a")[:-3]),
    )
    # m0 has revoked its partitions, so they are free at once; those of m2 are not.
    assert assigned.keys() == {"m0", "m1", "m2", "m3"}
    assert assigned["m1"] == {"t": [1]}
    assert assigned["m2"] == {"t": [2]}
    assert sorted([assigned["m0"], assigned["m3"]], key=str) in ([{"t": [0]}, {}],)
    # A response of an older version has no instance ids.
    assert await consumer.perform(
        ("m1", subscription_bytes(["t"], rack="b")), version=2
    ) == {"m1": {"t": [0, 1, 2, 3]}}  # fmt: skip


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
async def test_leader_waits_for_metadata_of_topics_of_others() -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.client.respond({"t": [0]})
    consumer.client.responses = [{"t": [0]}, {"t": [0], "u": [1, 1]}]
    assigned = await consumer.perform(
        ("m0", None, subscription_bytes(["t"], rack="a")),
        ("m1", None, subscription_bytes(["u"], rack="b")),
    )
    assert assigned == {"m0": {"t": [0]}, "m1": {"u": [0, 1]}}
    assert consumer.client.requested[-1] == {"t", "u"}
    # The metadata snapshot of the join has both topics: no rebalance.
    consumer.coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
    consumer.client.respond({"t": [0], "u": [1, 1]})
    assert not consumer.coordinator._rejoin_needed_fut.done()
    consumer.client.respond({"t": [0], "u": [1, 1, 1]})
    assert consumer.coordinator._rejoin_needed_fut.done()


@on_a_loop
async def test_a_topic_missing_from_two_responses_does_not_exist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.client.responses = [{"t": [0]}]
    claimed = eager_subscription(["t", "gone", "no such/name"], "a", {"gone": [3]}, 1)
    for _ in range(2):
        assert await consumer.perform(("m0", None, claimed)) == {"m0": {"t": [0]}}
    assert "subscribed topic does not exist: gone" in caplog.text
    assert consumer.client.requested[-1] == {"t", "gone"}


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
async def test_with_a_pattern_metadata_of_all_topics_is_requested() -> None:
    consumer = Consumer(Sticky(rack="a"))
    consumer.subscription.unsubscribe()
    consumer.subscription.subscribe_pattern(re.compile("[tu]"))
    consumer.client.responses = [{"t": [0], "u": [1]}]
    await consumer.perform(("m0", None, subscription_bytes(["t", "u"], rack="a")))
    assert consumer.client.requested == [frozenset()]


@on_a_loop
async def test_leader_requests_a_rebalance_if_none_revokes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(Sticky(rack="a"))
    coordinator = consumer.coordinator
    consumer.client.respond({"t": [0, 0]})
    monkeypatch.setattr("assignors.aiokafka.coordinator.REVOCATION_TIMEOUT", 0.01)
    members = [
        ("m0", None, eager_subscription(["t"], "a", {}, -1)),
        ("m1", None, subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}, generation=1)),
    ]
    for later, requested in ((99, False), (4, True)):
        coordinator.generation = 4
        coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
        await consumer.perform(*members)
        await consumer.complete(4, {}, Sticky.name)
        coordinator.generation = later
        await asyncio.sleep(0.05)
        assert coordinator._rejoin_needed_fut.done() is requested
    assert "withheld=1" in caplog.text


@on_a_loop
async def test_an_assignor_of_aiokafka_assigns_as_before() -> None:
    consumer = Consumer(RoundRobinPartitionAssignor, Sticky(rack="a"))
    consumer.client.respond({"t": [0, 0]})
    member = ConsumerProtocolMemberMetadata(0, ["t"], b"").encode()
    assigned = await consumer.perform(("m0", None, member), protocol="roundrobin")
    assert assigned == {"m0": {"t": [0, 1]}}
    # Our assignor claims its assignment: a rolling change keeps partitions.
    await consumer.complete(5, {"t": [1]}, "roundrobin")
    assert dict(SubscriptionReader().read(consumer.metadata().encode()).owned) == {"t": (1,)}


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
    ours, others = (
        Consumer(Sticky(rack="a"), retry_backoff_ms=1),
        Consumer(RoundRobinPartitionAssignor),
    )
    ours.coordinator.coordinator_id = others.coordinator.coordinator_id = 0
    with pytest.raises(CommitFailedError, match="offsets of a deleted topic"):
        await ours.coordinator._maybe_do_last_autocommit(assignment)
    with pytest.raises(CommitFailedError, match="offsets of a deleted topic"):
        await ours.coordinator.commit_offsets(assignment, {"t": 6})
    assert attempts == [{"t": 5}, {"t": 6}]
    # The periodic commit goes on, with the positions of its time.
    attempts.clear()
    ours.coordinator._next_autocommit_deadline = 0
    assert await ours.coordinator._maybe_do_autocommit(assignment) == 0.001
    # A consumer without our assignors behaves as before.
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
    # Without our assignors aiokafka sends one request per assignor.
    sent.clear()
    consumer = Consumer(RoundRobinPartitionAssignor, RoundRobinPartitionAssignor)
    await consumer.coordinator._do_rejoin_group(consumer.subscription.subscription)
    assert sent == [["roundrobin"], ["roundrobin"] * 2]
