"""Our coordinator while joins are on their way: metadata, polls, hand-overs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import (
    Cancelled,
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
)
from kafka.structs import MemberState, OffsetAndMetadata

from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python.commit_queue import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    Commit,
    NoCoordinatorError,
    Result,
)
from assignors.kafka_python.coordinator import TopicsUnseenError
from assignors.kafka_python.workarounds import COMMIT_PATIENCE_MS, MOMENT_MS
from tests.support.kafka_python import (
    Consumers,
    answer,
    complete,
    joined,
    offline_consumers,
    perform,
    subscription_bytes,
)


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    with offline_consumers() as make:
        yield make


def test_it_waits_for_topics_that_only_others_subscribe_to(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    members = [
        joined("m0", subscription_bytes(["t"], rack="a")),
        joined("m1", subscription_bytes(["u"], rack="b")),
    ]
    with pytest.raises(TopicsUnseenError, match="u"):
        perform(consumer, *members)
    assert "u" in consumer._cluster._topics
    answer(consumer, t=[0], u=[1, 1])
    assert perform(consumer, *members) == {"m0": {"t": [0]}, "m1": {"u": [0, 1]}}
    # What it compares metadata with has the whole group's topics: no rebalance follows.
    snapshot = consumer._coordinator._assignment_snapshot
    answer(consumer, t=[0], u=[1, 1])
    assert snapshot == consumer._coordinator._metadata_snapshot == {"t": {0}, "u": {0, 1}}


def test_a_topic_that_two_answers_lack_does_not_exist(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    claimed = subscription_bytes(["t", "gone"], rack="a", owned={"gone": [3]}, generation=1)
    for _ in range(2):
        with pytest.raises(TopicsUnseenError):
            perform(consumer, joined("m0", claimed))
        answer(consumer, t=[0])
    for _ in range(2):
        assert perform(consumer, joined("m0", claimed)) == {"m0": {"t": [0]}}
    assert caplog.text.count("topic gone is subscribed to but does not exist") == 1


def test_owners_keep_a_topic_that_silent_brokers_tell_nothing_of(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assignors.kafka_python.coordinator.METADATA_PATIENCE", 0.0)
    consumer = consumers(Sticky(rack="a"))
    answer(consumer, t=[0])
    members = [
        joined("m0", subscription_bytes(["t", "u"], owned={"u": [0, 1]}, generation=4)),
        joined("m1", subscription_bytes(["t", "u"], owned={"u": [1, 2]}, generation=5)),
        joined("m2", subscription_bytes(["t"], owned={"u": [7]}, generation=5)),
    ]
    given = perform(consumer, *members)
    assert {m: ts["u"] for m, ts in given.items() if "u" in ts} == {"m0": [0], "m1": [1, 2]}


def test_a_join_that_outlasts_its_poll_is_not_forgotten(consumers: Consumers) -> None:
    consumer = consumers(Sticky(rack="a"))
    coordinator = consumer._coordinator
    coordinator.rejoin_needed = False
    coordinator.group_protocols()
    assert not coordinator.need_rejoin()
    coordinator.rejoining = True
    assert coordinator.need_rejoin()
    consumer._subscription.unsubscribe()
    assert not coordinator.need_rejoin()


def test_poll_does_not_wait_for_a_cooperative_join(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, Any]] = []

    def poll(_: Any, timeout_ms: Any = None) -> bool:
        asked.append(("poll", timeout_ms))
        return False

    def ensure(_: Any, timeout_ms: Any = None) -> bool:
        asked.append(("join", timeout_ms))
        return False

    monkeypatch.setattr(ConsumerCoordinator, "poll", poll)
    monkeypatch.setattr(ConsumerCoordinator, "ensure_active_group", ensure)
    for strategy, reads_on in ((Sticky, True), (Range, False)):
        consumer = consumers(strategy(rack="a"))
        coordinator = consumer._coordinator
        # Nothing to read yet: there is only the join to wait for.
        assert not coordinator.poll(timeout_ms=500)
        assert asked == [("poll", 500)]
        complete(consumer, 3, t=[0])
        coordinator._generation = Generation(3, "m", strategy.name)
        coordinator.request_rejoin()
        assert coordinator.poll(timeout_ms=500) is reads_on
        coordinator.rejoining = True
        assert coordinator.poll(timeout_ms=500) is reads_on
        moment = MOMENT_MS
        assert asked[1:] == (
            [("poll", moment), ("join", moment)] if reads_on else [("poll", 500), ("poll", 500)]
        )
        # Thrown out of the group, it no longer owns what it would read.
        coordinator.reset_generation()
        assert not coordinator.poll(timeout_ms=500)
        asked.clear()


def test_what_is_given_up_is_committed_first(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumers(Sticky(rack="a"), enable_auto_commit=True)
    coordinator = consumer._coordinator
    consumer.unsubscribe()
    consumer.subscribe(["t", "gone"])
    answer(consumer, t=[0, 1])
    complete(consumer, 3, t=[0, 1], gone=[0])
    for partition in (0, 1):
        consumer._subscription.seek(TopicPartition("t", partition), 40 + partition)
    consumer._subscription.seek(TopicPartition("gone", 0), 5)
    committed: list[dict[Any, int]] = []

    async def commit(_: Any, offsets: Any, timeout_ms: Any = None) -> None:
        assert timeout_ms == COMMIT_PATIENCE_MS
        assert TopicPartition("t", 1) in consumer.assignment()
        committed.append({partition: offset.offset for partition, offset in offsets.items()})
        raise CommitFailedError("planted")

    monkeypatch.setattr(type(coordinator), "_commit_offsets_sync_async", commit)
    complete(consumer, 4, t=[0])
    assert committed == [{TopicPartition("t", 1): 41}]
    assert consumer.assignment() == {TopicPartition("t", 0)}


def owner_of_two(consumers: Consumers, strategy: Any = Sticky) -> Any:
    """The coordinator of a member in generation 3 that owns t-0 and t-1."""
    consumer = consumers(strategy(rack="a"))
    answer(consumer, t=[0, 1])
    complete(consumer, 3, t=[0, 1])
    coordinator = consumer._coordinator
    coordinator._generation = Generation(3, "m", strategy.name)
    coordinator.state = MemberState.STABLE
    return coordinator


def commit_of(coordinator: Any, *partitions: int) -> Commit:
    offsets = {("t", p): OffsetAndMetadata(5, "", -1) for p in partitions}
    return Commit(offsets, coordinator.member, 0.0, lambda _: None)


def test_a_commit_outlasts_a_rebalance_of_what_is_still_owned(consumers: Consumers) -> None:
    coordinator = owner_of_two(consumers)
    both, stranger = commit_of(coordinator, 0, 1), commit_of(coordinator, 1, 2)

    def again(commit: Commit, code: int) -> Any:
        return coordinator._still_owned_as(commit, code)

    # The broker may be a generation ahead of a join that is on its way, and not otherwise.
    assert again(both, ILLEGAL_GENERATION) is None
    coordinator.state = MemberState.REBALANCING
    assert again(both, ILLEGAL_GENERATION) == (3, "m")
    assert again(both, REBALANCE_IN_PROGRESS) == (3, "m")
    coordinator._generation = Generation(4, "m", Sticky.name)
    for code in (ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS):
        assert again(both, code) == (4, "m")
        assert again(stranger, code) is None
    # Another member id: it was out of the group, and its partitions may have been another's.
    coordinator._generation = Generation(5, "n", Sticky.name)
    assert again(both, ILLEGAL_GENERATION) is None
    coordinator._generation = Generation(-1, "m", None)
    assert again(both, ILLEGAL_GENERATION) is None
    # An eager member gives everything up before it joins.
    eager = owner_of_two(consumers, Range)
    mine = commit_of(eager, 0)
    eager._generation = Generation(4, "m", Range.name)
    assert eager._still_owned_as(mine, ILLEGAL_GENERATION) is None


def test_an_answer_to_a_past_generation_does_not_end_the_present_one(consumers: Consumers) -> None:
    coordinator = owner_of_two(consumers)
    commit = commit_of(coordinator, 0)
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(5, "", -1)}

    def take(result: Result) -> None:
        coordinator._take_answer(commit, 0.0, offsets, result)

    take({("t", 0): 0})
    with pytest.raises(KafkaTimeoutError, match="no broker took the commit in time"):
        take(NoCoordinatorError())
    with pytest.raises(KafkaError, match="closed"):
        take(Cancelled("closed"))
    with pytest.raises(ValueError, match="planted"):
        take(ValueError("planted"))
    with pytest.raises(OffsetMetadataTooLargeError):
        take({("t", 0): OffsetMetadataTooLargeError.errno})
    coordinator.state = MemberState.REBALANCING
    with pytest.raises(CommitFailedError):
        take({("t", 0): ILLEGAL_GENERATION})
    coordinator._generation = Generation(4, "m", Sticky.name)
    coordinator.state = MemberState.STABLE
    for code in (ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UnknownMemberIdError.errno):
        with pytest.raises(CommitFailedError):
            take({("t", 0): code})
    assert coordinator.member == (4, "m")
    # Of the generation that there is, it says that the member is out of it.
    commit.member = coordinator.member
    with pytest.raises(CommitFailedError):
        take({("t", 0): ILLEGAL_GENERATION})
    assert coordinator.member == (-1, "m")


def test_what_is_read_in_a_rebalance_is_committed_automatically(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = owner_of_two(consumers)
    committed: list[bool] = []
    monkeypatch.setattr(ConsumerCoordinator, "ensure_active_group", lambda *_, **__: False)
    monkeypatch.setattr(
        coordinator, "_maybe_auto_commit_offsets_async", lambda: committed.append(True)
    )
    coordinator.rejoining = True
    assert coordinator.poll(timeout_ms=50)
    assert committed == [True]


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, coordinator: Any, problem: Exception | None = None) -> None:
        self.threads: list[str] = []
        self._coordinator = coordinator
        self._problem = problem

    def on_partitions_revoked(self, _: Any) -> None:
        self.threads.append(threading.current_thread().name)
        # Any call that waits for the event loop.
        self._coordinator._net.run(self._coordinator._net.sleep, 0)
        if self._problem is not None:
            raise self._problem

    def on_partitions_assigned(self, _: Any) -> None:
        pass


def test_a_listener_may_wait_for_brokers(consumers: Consumers) -> None:
    coordinator = owner_of_two(consumers)
    listener = Listener(coordinator)
    coordinator._subscription.rebalance_listener = listener
    coordinator._net.run(
        coordinator._invoke_rebalance_listener_async, "on_partitions_revoked", set()
    )
    assert listener.threads == ["rackward-listener-g"]
    coordinator._subscription.rebalance_listener = Listener(coordinator, LookupError("planted"))
    with pytest.raises(LookupError, match="planted"):
        coordinator._net.run(
            coordinator._invoke_rebalance_listener_async, "on_partitions_revoked", set()
        )
    coordinator._subscription.rebalance_listener = None


def test_the_outcome_of_a_join_that_ended_between_polls_is_kept(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumers(Sticky(rack="a"))
    coordinator = consumer._coordinator
    outcomes = iter([b"first", b"second", b"third", b"fourth"])

    async def join(_: Any) -> bytes:
        return next(outcomes)

    monkeypatch.setattr(ConsumerCoordinator, "_do_join_and_sync_async", join)

    def again() -> Any:
        return consumer._net.run(coordinator._do_join_and_sync_async)

    coordinator._generation = Generation(3, "m", Sticky.name)
    assert [again(), again()] == [b"first", b"first"]
    # It is a member, and says so to the broker, whether or not anyone polls.
    assert coordinator.stable()
    assert coordinator._heartbeat_enabled
    # What was collected is not returned again.
    complete(consumer, 3, t=[0])
    assert again() == b"second"
    # Nor is it where the member has been thrown out meanwhile, or is late.
    coordinator.reset_generation()
    assert again() == b"third"
    monkeypatch.setitem(coordinator.config, "session_timeout_ms", 0)
    assert again() == b"fourth"


def test_a_hand_over_that_nobody_makes_is_asked_for(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    coordinator = consumer._coordinator
    waits: list[Any] = []
    monkeypatch.setattr(
        coordinator, "_later", lambda _seconds, method, *values: waits.append((method, values))
    )
    answer(consumer, t=[0, 0])
    perform(
        consumer,
        joined("m0", subscription_bytes(["t"], rack="a")),
        joined("m1", subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}, generation=1)),
    )
    ((check, values),) = waits
    coordinator.rejoin_needed = False
    coordinator.state = MemberState.STABLE
    coordinator._generation = Generation(99, "m0", Sticky.name)
    check(*values)
    assert not coordinator.rejoin_needed
    coordinator._generation = Generation.NO_GENERATION
    check(*values)
    assert coordinator.rejoin_needed
    assert "1 withheld partitions" in caplog.text
