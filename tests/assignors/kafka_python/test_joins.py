"""The coordinator during joins: metadata, polls, commits, listeners, revocations."""

from __future__ import annotations

import threading
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
from assignors.kafka_python.commits import (
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    Commit,
    CommitResponse,
    NoCoordinatorError,
)
from assignors.kafka_python.coordinator import MetadataPending
from assignors.kafka_python.fixes import MIN_COMMIT_TIMEOUT_MS, SHORT_TIMEOUT_MS
from tests.support.kafka_python import (
    Consumers,
    complete,
    joined,
    perform,
    receive_metadata,
    subscription_bytes,
)


def test_the_leader_waits_for_metadata_of_topics_that_only_others_subscribe_to(
    consumers: Consumers,
) -> None:
    consumer = consumers(Sticky(rack="a"))
    receive_metadata(consumer, t=[0])
    members = [
        joined("m0", subscription_bytes(["t"], rack="a")),
        joined("m1", subscription_bytes(["u"], rack="b")),
    ]
    with pytest.raises(MetadataPending, match="u"):
        perform(consumer, *members)
    assert "u" in consumer._cluster._topics
    receive_metadata(consumer, t=[0], u=[1, 1])
    assert perform(consumer, *members) == {"m0": {"t": [0]}, "m1": {"u": [0, 1]}}
    # The metadata snapshot of the join has all topics of the group: no rebalance.
    snapshot = consumer._coordinator._assignment_snapshot
    receive_metadata(consumer, t=[0], u=[1, 1])
    assert snapshot == consumer._coordinator._metadata_snapshot == {"t": {0}, "u": {0, 1}}


def test_a_topic_missing_from_two_responses_does_not_exist(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    receive_metadata(consumer, t=[0])
    claimed = subscription_bytes(["t", "gone"], rack="a", owned={"gone": [3]}, generation=1)
    for _ in range(2):
        with pytest.raises(MetadataPending):
            perform(consumer, joined("m0", claimed))
        receive_metadata(consumer, t=[0])
    for _ in range(2):
        assert perform(consumer, joined("m0", claimed)) == {"m0": {"t": [0]}}
    assert caplog.text.count("subscribed topic does not exist: gone") == 1


def test_owners_keep_a_topic_that_the_leader_may_not_describe(
    consumers: Consumers, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a"))
    receive_metadata(consumer, t=[0])
    claimed = subscription_bytes(["t", "secret"], rack="a", owned={"secret": [3]}, generation=1)
    for _ in range(2):
        with pytest.raises(MetadataPending):
            perform(consumer, joined("m0", claimed))
        receive_metadata(consumer, t=[0])
    consumer._cluster.unauthorized_topics = {"secret"}
    assert perform(consumer, joined("m0", claimed)) == {"m0": {"t": [0], "secret": [3]}}
    assert "does not exist" not in caplog.text
    assert "grant this user Describe on it): secret" in caplog.text


def test_owners_keep_a_topic_if_no_metadata_arrives_in_time(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assignors.kafka_python.leading.METADATA_TIMEOUT", 0.0)
    consumer = consumers(Sticky(rack="a"))
    receive_metadata(consumer, t=[0])
    members = [
        joined("m0", subscription_bytes(["t", "u"], owned={"u": [0, 1]}, generation=4)),
        joined("m1", subscription_bytes(["t", "u"], owned={"u": [1, 2]}, generation=5)),
        joined("m2", subscription_bytes(["t"], owned={"u": [7]}, generation=5)),
    ]
    assigned = perform(consumer, *members)
    assert {m: ts["u"] for m, ts in assigned.items() if "u" in ts} == {"m0": [0], "m1": [1, 2]}


def test_a_join_that_outlasts_its_poll_is_continued(consumers: Consumers) -> None:
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
    calls: list[tuple[str, Any]] = []

    def poll(_: Any, timeout_ms: Any = None) -> bool:
        calls.append(("poll", timeout_ms))
        return False

    def ensure(_: Any, timeout_ms: Any = None) -> bool:
        calls.append(("join", timeout_ms))
        return False

    monkeypatch.setattr(ConsumerCoordinator, "poll", poll)
    monkeypatch.setattr(ConsumerCoordinator, "ensure_active_group", ensure)
    for strategy, reads_during_join in ((Sticky, True), (Range, False)):
        consumer = consumers(strategy(rack="a"))
        coordinator = consumer._coordinator
        # No partitions are assigned yet, so poll waits for the join.
        assert not coordinator.poll(timeout_ms=500)
        assert calls == [("poll", 500)]
        complete(consumer, 3, t=[0])
        coordinator._generation = Generation(3, "m", strategy.name)
        coordinator.request_rejoin()
        assert coordinator.poll(timeout_ms=500) is reads_during_join
        coordinator.rejoining = True
        assert coordinator.poll(timeout_ms=500) is reads_during_join
        short = [("poll", SHORT_TIMEOUT_MS), ("join", SHORT_TIMEOUT_MS)]
        assert calls[1:] == (short if reads_during_join else [("poll", 500), ("poll", 500)])
        # After its removal from the group, the member owns no partitions.
        coordinator.reset_generation()
        assert not coordinator.poll(timeout_ms=500)
        calls.clear()


def test_positions_are_committed_before_partitions_are_revoked(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumers(Sticky(rack="a"), enable_auto_commit=True)
    coordinator = consumer._coordinator
    consumer.unsubscribe()
    consumer.subscribe(["t", "gone"])
    receive_metadata(consumer, t=[0, 1])
    complete(consumer, 3, t=[0, 1], gone=[0])
    for partition in (0, 1):
        consumer._subscription.seek(TopicPartition("t", partition), 40 + partition)
    consumer._subscription.seek(TopicPartition("gone", 0), 5)
    committed: list[dict[Any, int]] = []

    async def commit(_: Any, offsets: Any, timeout_ms: Any = None) -> None:
        assert timeout_ms == MIN_COMMIT_TIMEOUT_MS
        assert TopicPartition("t", 1) in consumer.assignment()
        committed.append({partition: offset.offset for partition, offset in offsets.items()})
        raise CommitFailedError("planted")

    monkeypatch.setattr(type(coordinator), "_commit_offsets_sync_async", commit)
    complete(consumer, 4, t=[0])
    assert committed == [{TopicPartition("t", 1): 41}]
    assert consumer.assignment() == {TopicPartition("t", 0)}


def member_with_two_partitions(consumers: Consumers, strategy: Any = Sticky) -> Any:
    """Return the coordinator of a member in generation 3 that owns t-0 and t-1."""
    consumer = consumers(strategy(rack="a"))
    receive_metadata(consumer, t=[0, 1])
    complete(consumer, 3, t=[0, 1])
    coordinator = consumer._coordinator
    coordinator._generation = Generation(3, "m", strategy.name)
    coordinator.state = MemberState.STABLE
    return coordinator


def commit_of(coordinator: Any, *partitions: int) -> Commit:
    offsets = {("t", p): OffsetAndMetadata(5, "", -1) for p in partitions}
    return Commit(offsets, coordinator.member, 0.0, lambda _: None)


def test_a_commit_is_retried_in_the_next_generation_if_its_partitions_are_still_owned(
    consumers: Consumers,
) -> None:
    coordinator = member_with_two_partitions(consumers)
    owned, not_owned = commit_of(coordinator, 0, 1), commit_of(coordinator, 1, 2)

    def retry_as(commit: Commit, code: int) -> Any:
        return coordinator._retry_commit_as(commit, code)

    # The broker may be one generation ahead only while a join is in progress.
    assert retry_as(owned, ILLEGAL_GENERATION) is None
    coordinator.state = MemberState.REBALANCING
    assert retry_as(owned, ILLEGAL_GENERATION) == (3, "m")
    assert retry_as(owned, REBALANCE_IN_PROGRESS) == (3, "m")
    coordinator._generation = Generation(4, "m", Sticky.name)
    for code in (ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS):
        assert retry_as(owned, code) == (4, "m")
        assert retry_as(not_owned, code) is None
    # Another member id: the member was removed, and others may have owned its partitions.
    coordinator._generation = Generation(5, "n", Sticky.name)
    assert retry_as(owned, ILLEGAL_GENERATION) is None
    coordinator._generation = Generation(-1, "m", None)
    assert retry_as(owned, ILLEGAL_GENERATION) is None
    # An eager member revokes all partitions before it joins.
    eager = member_with_two_partitions(consumers, Range)
    commit = commit_of(eager, 0)
    eager._generation = Generation(4, "m", Range.name)
    assert eager._retry_commit_as(commit, ILLEGAL_GENERATION) is None


def test_a_response_to_an_old_generation_does_not_reset_the_current_one(
    consumers: Consumers,
) -> None:
    coordinator = member_with_two_partitions(consumers)
    commit = commit_of(coordinator, 0)
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(5, "", -1)}

    def handle(response: CommitResponse) -> None:
        coordinator._handle_commit_response(commit, 0.0, offsets, response)

    handle({("t", 0): 0})
    with pytest.raises(KafkaTimeoutError, match="no broker accepted the commit in time"):
        handle(NoCoordinatorError())
    with pytest.raises(KafkaError, match="closed"):
        handle(Cancelled("closed"))
    with pytest.raises(ValueError, match="planted"):
        handle(ValueError("planted"))
    with pytest.raises(OffsetMetadataTooLargeError):
        handle({("t", 0): OffsetMetadataTooLargeError.errno})
    coordinator.state = MemberState.REBALANCING
    with pytest.raises(CommitFailedError):
        handle({("t", 0): ILLEGAL_GENERATION})
    coordinator._generation = Generation(4, "m", Sticky.name)
    coordinator.state = MemberState.STABLE
    for code in (ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, UnknownMemberIdError.errno):
        with pytest.raises(CommitFailedError):
            handle({("t", 0): code})
    assert coordinator.member == (4, "m")
    # A response to the current generation means that the member was removed.
    commit.member = coordinator.member
    with pytest.raises(CommitFailedError):
        handle({("t", 0): ILLEGAL_GENERATION})
    assert coordinator.member == (-1, "m")


def test_auto_commit_goes_on_during_a_rebalance(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = member_with_two_partitions(consumers)
    committed: list[bool] = []
    monkeypatch.setattr(ConsumerCoordinator, "ensure_active_group", lambda *_, **__: False)
    monkeypatch.setattr(
        coordinator, "_maybe_auto_commit_offsets_async", lambda: committed.append(True)
    )
    coordinator.rejoining = True
    assert coordinator.poll(timeout_ms=50)
    assert committed == [True]


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, coordinator: Any, error: Exception | None = None) -> None:
        self.threads: list[str] = []
        self._coordinator = coordinator
        self._error = error

    def on_partitions_revoked(self, _: Any) -> None:
        self.threads.append(threading.current_thread().name)
        # Stands for any call that waits for the event loop, such as commit().
        self._coordinator._net.run(self._coordinator._net.sleep, 0)
        if self._error is not None:
            raise self._error

    def on_partitions_assigned(self, _: Any) -> None:
        pass


def test_a_listener_runs_in_a_thread_and_its_errors_are_raised(consumers: Consumers) -> None:
    coordinator = member_with_two_partitions(consumers)
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


def test_the_result_of_a_join_that_ended_between_polls_is_kept(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = consumers(Sticky(rack="a"))
    coordinator = consumer._coordinator
    results = iter([b"first", b"second", b"third", b"fourth"])

    async def join(_: Any) -> bytes:
        return next(results)

    monkeypatch.setattr(ConsumerCoordinator, "_do_join_and_sync_async", join)

    def collect() -> Any:
        return consumer._net.run(coordinator._do_join_and_sync_async)

    coordinator._generation = Generation(3, "m", Sticky.name)
    assert [collect(), collect()] == [b"first", b"first"]
    # The member sends heartbeats even if the application does not poll.
    assert coordinator.stable()
    assert coordinator._heartbeat_enabled
    # A result is used once.
    complete(consumer, 3, t=[0])
    assert collect() == b"second"
    # The result is dropped if the member was removed, or after one session timeout.
    coordinator.reset_generation()
    assert collect() == b"third"
    monkeypatch.setitem(coordinator.config, "session_timeout_ms", 0)
    assert collect() == b"fourth"


@pytest.mark.parametrize("strategy", [Sticky, Range])
def test_partitions_are_lost_if_the_group_removes_the_member_while_it_joins(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, strategy: Any
) -> None:
    """Others may have read and committed since: here, the member was suspended."""
    coordinator = member_with_two_partitions(consumers, strategy)
    heard: list[tuple[str, Any]] = []

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            heard.append(("revoked", revoked))

        def on_partitions_assigned(self, assigned: Any) -> None:
            heard.append(("assigned", assigned))

        def on_partitions_lost(self, lost: Any) -> None:
            heard.append(("lost", lost))

    async def join(_: Any) -> bytes:
        heard.append(("joins with", coordinator.subscription.assigned_partitions()))
        coordinator._generation = Generation(4, "m", strategy.name)
        return b""

    monkeypatch.setattr(ConsumerCoordinator, "_do_join_and_sync_async", join)
    coordinator.subscription.rebalance_listener = Listener()
    both = {TopicPartition("t", 0), TopicPartition("t", 1)}
    coordinator.rejoining = True
    coordinator.net.run(coordinator._do_join_and_sync_async)
    assert heard == [("joins with", both)]
    for _ in range(2):
        # As if SyncGroup had been answered with UNKNOWN_MEMBER_ID.
        coordinator.reset_generation()
        coordinator.net.run(coordinator._do_join_and_sync_async)
    if coordinator.cooperative:
        assert heard[1:] == [("lost", both), ("joins with", set()), ("joins with", set())]
    else:
        # An eager member has revoked all partitions before it joins.
        assert heard[1:] == [("joins with", both)] * 2


def test_the_leader_requests_a_rebalance_if_partitions_are_not_revoked(
    consumers: Consumers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = consumers(Sticky(rack="a", refresh=None))
    coordinator = consumer._coordinator
    scheduled: list[Any] = []
    monkeypatch.setattr(
        coordinator,
        "call_later",
        lambda _seconds, method, *values: scheduled.append((method, values)),
    )
    receive_metadata(consumer, t=[0, 0])
    perform(
        consumer,
        joined("m0", subscription_bytes(["t"], rack="a")),
        joined("m1", subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}, generation=1)),
    )
    ((check, values),) = scheduled
    coordinator.rejoin_needed = False
    coordinator.state = MemberState.STABLE
    coordinator._generation = Generation(99, "m0", Sticky.name)
    check(*values)
    assert not coordinator.rejoin_needed
    coordinator._generation = Generation.NO_GENERATION
    check(*values)
    assert coordinator.rejoin_needed
    assert "withheld=1" in caplog.text
