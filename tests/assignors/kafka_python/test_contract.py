"""KafkaConsumers with the workarounds, against a broker whose answers the tests script."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, KafkaError, KafkaTimeoutError, UnknownBrokerIdError
from kafka.protocol.consumer import HeartbeatResponse, LeaveGroupResponse, SyncGroupResponse
from kafka.protocol.consumer.metadata import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafka.protocol.metadata import FindCoordinatorResponse
from kafka.structs import OffsetAndMetadata

from assignors import RefreshPolicy
from assignors.kafka_python import LeaderRackAwareCooperativeStickyAssignor as Sticky
from assignors.kafka_python import LeaderRackAwareRangeAssignor as Range
from assignors.kafka_python import enable_workarounds, install
from tests.support.kafka_python import joined, subscription_bytes
from tests.support.scripted_broker import (
    MEMBER_ID,
    ScriptedBroker,
    commit_response,
    scripted_broker,
)
from tests.support.waiting import TEST_TIMEOUT

COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27
UNKNOWN_TOPIC, GROUP_AUTHORIZATION_FAILED = 3, 30
QUICK = RefreshPolicy(stable_seconds=0, unstable_seconds=0, min_interval=0, check_interval=1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)

Construct = Callable[..., Any]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Two brokers in two racks at one address, each the leader of a partition of topic t."""
    with scripted_broker({0: "a", 1: "b"}) as broker:
        broker.leaders = {"t": [0, 1]}
        yield broker


@pytest.fixture
def construct(broker: ScriptedBroker) -> Iterator[Construct]:
    """Construct consumers of topic t, and close them after the test."""
    constructed: list[Any] = []

    def construct(*strategies: Any, topics: Sequence[str] = ("t",), **config: Any) -> Any:
        consumer = KafkaConsumer(
            *topics,
            bootstrap_servers=f"127.0.0.1:{broker.port}",
            group_id="g",
            partition_assignment_strategy=list(strategies) or [Sticky(rack="a", refresh=None)],
            **{
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "heartbeat_interval_ms": 50,
                "session_timeout_ms": 10_000,
                "retry_backoff_ms": 50,
                **config,
            },
        )
        constructed.append(consumer)
        return consumer

    yield construct
    for consumer in constructed:
        consumer.close(timeout_ms=100)


def poll_until(consumer: Any, condition: Callable[[], object], timeout_ms: int = 30) -> list[int]:
    """Poll until ``condition()`` is true; return the offsets that were read."""
    deadline = time.monotonic() + TEST_TIMEOUT
    offsets: list[int] = []
    while not condition():
        assert time.monotonic() < deadline
        for records in consumer.poll(timeout_ms=timeout_ms).values():
            offsets += [record.offset for record in records]
    return offsets


def poll_for(consumer: Any, seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    return poll_until(consumer, lambda: time.monotonic() > end)


def settled(construct: Construct, *strategies: Any, **config: Any) -> Any:
    """Return a consumer that owns both partitions, as the only member of its group."""
    consumer = construct(*strategies, **config)
    # Without the workarounds a join that outlasts its poll may be forgotten.
    poll_until(consumer, lambda: len(consumer.assignment()) == 2, timeout_ms=1000)
    return consumer


def start_rebalance(broker: ScriptedBroker, consumer: Any) -> None:
    """Have the consumer send its next JoinGroup."""
    count = len(broker.named("JoinGroup"))
    broker.heartbeat_error = REBALANCE_IN_PROGRESS
    poll_until(consumer, lambda: len(broker.named("JoinGroup")) > count)


def follow(broker: ScriptedBroker, *partitions: int) -> None:
    """Have another member lead, which assigns these partitions of topic t to the client."""
    broker.leader_id = "m-2"
    broker.assignment = ConsumerProtocolAssignment(
        version=0, assigned_partitions=[("t", list(partitions))], user_data=b""
    ).encode()


def assigned(broker: ScriptedBroker) -> dict[str, dict[str, list[int]]]:
    """Return what the client assigned last as the group's leader."""
    request = broker.named("SyncGroup")[-1].request
    return {
        given.member_id: {
            topic: list(partitions)
            for topic, partitions in ConsumerProtocolAssignment.decode(
                given.assignment
            ).assigned_partitions
        }
        for given in request.assignments
    }


def claimed(request: Any) -> tuple[Mapping[str, list[int]], int]:
    """Return the partitions that a JoinGroup request claims, and the generation of the claim."""
    subscription = ConsumerProtocolSubscription.decode(request.protocols[0].metadata)
    owned = {owned.topic: owned.partitions for owned in subscription.owned_partitions}
    return owned, subscription.generation_id


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Records its calls; ``on_revoked`` runs in each revocation."""

    def __init__(self, on_revoked: Callable[[], object] = lambda: None) -> None:
        self.calls: list[tuple[str, set[Any]]] = []
        self._on_revoked = on_revoked

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls.append(("revoked", set(revoked)))
        if revoked:
            self._on_revoked()

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls.append(("assigned", set(assigned)))

    def on_partitions_lost(self, lost: Any) -> None:
        self.calls.append(("lost", set(lost)))


# Joins that outlast their poll.


def test_slow_join_is_sent_once_and_heartbeats_follow(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = settled(construct)
    joins = len(broker.named("JoinGroup"))
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        poll_for(consumer, 0.3)
    broker.await_request("SyncGroup", count=2)
    # The application does not poll: the result is kept, and the member sends heartbeats.
    broker.await_request("Heartbeat", count=len(broker.named("Heartbeat")) + 3)
    poll_for(consumer, 0.2)
    assert len(broker.named("JoinGroup")) == joins + 1
    assert consumer.assignment() == {T0, T1}


def test_join_for_a_changed_subscription_is_completed(
    broker: ScriptedBroker, construct: Construct
) -> None:
    broker.leaders["u"] = [0]
    consumer = settled(construct)
    joins = len(broker.named("JoinGroup"))
    with broker.holding("JoinGroup"):
        consumer.subscribe(["t", "u"])
        poll_until(consumer, lambda: len(broker.named("JoinGroup")) > joins)
        poll_for(consumer, 0.2)
    poll_until(consumer, lambda: TopicPartition("u", 0) in consumer.assignment())


@pytest.mark.parametrize(("strategy", "reads"), [(Sticky, True), (Range, False)])
def test_only_cooperative_members_read_during_a_join(
    broker: ScriptedBroker, construct: Construct, strategy: Any, reads: bool
) -> None:
    consumer = settled(construct, strategy(rack="a", refresh=None))
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        broker.records[T0] = 3
        assert poll_for(consumer, 0.5) == ([0, 1, 2] if reads else [])


def test_removed_member_loses_its_partitions_before_joining(
    broker: ScriptedBroker, construct: Construct
) -> None:
    """Others may have read and committed since: here, the member was suspended."""
    consumer = construct()
    listener = Listener()
    consumer.subscribe(["t"], listener=listener)
    poll_until(consumer, lambda: len(consumer.assignment()) == 2)

    def refuse_once(_: Any) -> Any:
        del broker.answers["SyncGroup"]
        return SyncGroupResponse(
            throttle_time_ms=0,
            error_code=UNKNOWN_MEMBER_ID,
            protocol_type="consumer",
            protocol_name="",
            assignment=b"",
        )

    broker.answers["SyncGroup"] = refuse_once
    joins = len(broker.named("JoinGroup"))
    start_rebalance(broker, consumer)
    poll_until(consumer, lambda: len(listener.calls) == 3)
    assert listener.calls[1:] == [("lost", {T0, T1}), ("assigned", {T0, T1})]
    claims = [claimed(join.request)[0] for join in broker.named("JoinGroup")[joins:]]
    assert claims[0] == {"t": [0, 1]}
    assert claims[1:] == [{}, {}]


# Commits.


def test_commits_during_a_join_have_their_own_connection(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = settled(construct, enable_auto_commit=True, auto_commit_interval_ms=50)
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        broker.records[T0] = 2
        # Automatic commits go on as well.
        poll_until(consumer, lambda: broker.committed.get(T0) == 2)
        consumer.commit({T1: OffsetAndMetadata(7, "", -1)}, timeout_ms=2000)
        assert broker.committed[T1] == 7
        join = broker.named("JoinGroup")[-1]
    connections = {commit.connection for commit in broker.named("OffsetCommit")}
    assert len(connections) == 1
    assert join.connection not in connections


def commit(consumer: Any, *partitions: TopicPartition) -> list[Any]:
    """Commit offset 5 of the partitions; return the list that will have the result."""
    results: list[Any] = []
    offsets = {partition: OffsetAndMetadata(5, "", -1) for partition in partitions}
    consumer.commit_async(offsets, callback=lambda _, result: results.append(result))
    return results


@pytest.mark.parametrize("code", [REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION])
def test_refused_commit_is_retried_in_the_next_generation(
    broker: ScriptedBroker, construct: Construct, code: int
) -> None:
    consumer = settled(construct)

    generation = broker.generation

    def refuse_old_generation(request: Any) -> Any:
        old = request.generation_id_or_member_epoch == generation
        return commit_response(request, code) if old else None

    broker.answers["OffsetCommit"] = refuse_old_generation
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        results = commit(consumer, T0)
        broker.await_request("OffsetCommit", count=2)
        assert not results
    poll_until(consumer, lambda: results)
    assert not isinstance(results[0], Exception)
    assert broker.committed == {T0: 5}


@pytest.mark.parametrize("lost", ["partition", "membership", "eager"])
def test_commit_of_partitions_no_longer_owned_fails(
    broker: ScriptedBroker, construct: Construct, lost: str
) -> None:
    strategy = Range if lost == "eager" else Sticky
    consumer = settled(construct, strategy(rack="a", refresh=None))
    broker.answers["OffsetCommit"] = lambda request: commit_response(request, REBALANCE_IN_PROGRESS)
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        follow(broker, 0)
        results = commit(consumer, T1)
        broker.await_request("OffsetCommit")
        if lost == "membership":
            answer = broker.answers["JoinGroup"]

            def as_another_member(request: Any) -> Any:
                answer(request)
                response = broker._answer_JoinGroup(request)
                response.member_id = "m-9"
                return response

            broker.answers["JoinGroup"] = as_another_member
    poll_until(consumer, lambda: results)
    assert isinstance(results[0], CommitFailedError)


@pytest.mark.parametrize("code", [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID])
def test_a_commit_refused_late_does_not_end_the_membership(
    broker: ScriptedBroker, construct: Construct, code: int
) -> None:
    consumer = settled(construct, Range(rack="a", refresh=None))
    broker.answers["OffsetCommit"] = lambda request: commit_response(request, code)
    with broker.holding("OffsetCommit"):
        results = commit(consumer, T0)
        broker.await_request("OffsetCommit")
        generation = broker.generation
        start_rebalance(broker, consumer)
        poll_until(consumer, lambda: broker.generation > generation and consumer.assignment())
        poll_for(consumer, 0.2)
        joins = len(broker.named("JoinGroup"))
    poll_until(consumer, lambda: results)
    assert isinstance(results[0], CommitFailedError)
    poll_for(consumer, 0.3)
    assert len(broker.named("JoinGroup")) == joins


def test_commit_for_a_deleted_topic_fails_at_once(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = settled(construct)
    broker.answers["OffsetCommit"] = lambda request: commit_response(request, UNKNOWN_TOPIC)
    with pytest.raises(CommitFailedError, match="deleted"):
        consumer.commit({T0: OffsetAndMetadata(1, "", -1)})
    assert len(broker.named("OffsetCommit")) == 1


def test_positions_are_committed_before_partitions_are_revoked(
    broker: ScriptedBroker, construct: Construct
) -> None:
    follow(broker, 0, 1)
    consumer = settled(construct, enable_auto_commit=True)
    broker.records |= {T0: 2, T1: 3}
    with broker.holding("JoinGroup"):
        follow(broker, 0)
        start_rebalance(broker, consumer)
        # Read after the commit with which the rebalance begins.
        poll_until(consumer, lambda: consumer.position(T1) == 3)
    poll_until(consumer, lambda: consumer.assignment() == {T0})
    assert broker.committed[T1] == 3


def test_a_rebalance_begins_after_the_commit(broker: ScriptedBroker, construct: Construct) -> None:
    consumer = settled(construct, Range(rack="a", refresh=None), enable_auto_commit=True)
    broker.records[T0] = 2
    poll_until(consumer, lambda: consumer.position(T0) == 2)
    joins = len(broker.named("JoinGroup"))
    with broker.holding("OffsetCommit") as release:
        timer = threading.Timer(0.3, release.set)
        timer.start()
        broker.heartbeat_error = REBALANCE_IN_PROGRESS
        # Each poll has far less time than the commit takes.
        poll_until(consumer, lambda: len(broker.named("JoinGroup")) > joins)
        assert release.is_set()
    assert broker.committed[T0] == 2


def test_a_late_response_is_not_used_for_a_regained_partition(
    broker: ScriptedBroker, construct: Construct
) -> None:
    follow(broker, 0, 1)
    broker.committed |= {T0: 1, T1: 1}
    broker.records |= {T0: 9, T1: 9}
    consumer = settled(construct)
    poll_until(consumer, lambda: consumer.position(T1) == 9)
    with broker.holding("OffsetFetch"), pytest.raises(KafkaTimeoutError):
        consumer.committed(T1, timeout_ms=50)
    time.sleep(0.2)  # The response, with offset 1, arrives.
    for partitions in ((0,), (0, 1)):
        # Another member reads T1 and commits, in between.
        broker.committed[T1] = 7
        broker.records[T1] = 0
        follow(broker, *partitions)
        start_rebalance(broker, consumer)
        poll_until(consumer, lambda: len(consumer.assignment()) == len(partitions))  # noqa: B023
    assert consumer.position(T1) == 7


# Rebalance listeners.


@pytest.mark.parametrize("fails", [False, True])
def test_listeners_may_commit_and_their_errors_are_raised(
    broker: ScriptedBroker, construct: Construct, fails: bool
) -> None:
    planted = [LookupError("planted")] if fails else []

    def on_revoked() -> None:
        consumer.commit({T0: OffsetAndMetadata(4, "", -1)})
        if planted:
            raise planted.pop()

    listener = Listener(on_revoked)
    consumer = construct(Range(rack="a", refresh=None))
    consumer.subscribe(["t"], listener=listener)
    poll_until(consumer, consumer.assignment)
    joins = len(broker.named("SyncGroup"))
    broker.heartbeat_error = REBALANCE_IN_PROGRESS
    if fails:
        with pytest.raises(KafkaError, match="callback throws an error") as raised:
            poll_until(consumer, lambda: False)
        assert str(raised.value.__cause__) == "planted"
    poll_until(consumer, lambda: len(broker.named("SyncGroup")) > joins)
    poll_until(consumer, lambda: listener.calls[-1] == ("assigned", {T0, T1}))
    assert broker.committed == {T0: 4}


# Leaving.


@pytest.mark.parametrize("held", ["JoinGroup", "SyncGroup"])
@pytest.mark.parametrize("leave", ["close", "unsubscribe"])
@pytest.mark.parametrize("strategy", [Sticky, Range])
def test_leaving_does_not_wait_for_a_join(
    broker: ScriptedBroker, construct: Construct, strategy: Any, leave: str, held: str
) -> None:
    consumer = settled(construct, strategy(rack="a", refresh=None))
    requests, owned = len(broker.named(held)), ({"t": [0, 1]}, broker.generation)
    with broker.holding(held):
        start_rebalance(broker, consumer)
        poll_until(consumer, lambda: len(broker.named(held)) > requests)
        started = time.monotonic()
        getattr(consumer, leave)()
        assert time.monotonic() - started < 5
        (left,) = broker.named("LeaveGroup")
    assert [member.member_id for member in left.request.members] == [MEMBER_ID]
    join = broker.named("JoinGroup")[-1]
    assert left.connection != join.connection
    assert claimed(join.request) == (owned if strategy is Sticky else ({}, -1))
    if leave == "unsubscribe":
        consumer.subscribe(["t"])
        poll_until(consumer, lambda: len(consumer.assignment()) == 2)
        assert claimed(broker.named("JoinGroup")[-1].request)[0] == {}


def test_close_in_a_rebalance_listener_returns(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = construct(Range(rack="a", refresh=None))
    listener = Listener(consumer.close)
    consumer.subscribe(["t"], listener=listener)
    poll_until(consumer, consumer.assignment)
    broker.heartbeat_error = REBALANCE_IN_PROGRESS
    # kafka-python's event loop has ended.
    with pytest.raises(KafkaError):
        poll_until(consumer, lambda: False)


def test_commits_that_wait_are_sent_before_leaving(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = settled(construct)
    with broker.holding("JoinGroup"), broker.holding("OffsetCommit") as release:
        start_rebalance(broker, consumer)
        commit(consumer, T0)
        broker.await_request("OffsetCommit")
        commit(consumer, T1)
        time.sleep(0.1)  # It is queued by another thread.
        threading.Timer(0.1, release.set).start()
        consumer.unsubscribe()
    assert broker.committed == {T0: 5, T1: 5}
    names = [received.name for received in broker.received]
    assert names.index("LeaveGroup") > max(i for i, n in enumerate(names) if n == "OffsetCommit")


@pytest.mark.parametrize(
    ("strategies", "enable"),
    [
        ([Sticky(rack="a", workarounds=False)], False),
        ([Range(rack="a"), Sticky(rack="a", workarounds=False)], False),
        ([RangePartitionAssignor], False),
        ([RangePartitionAssignor], True),
        ([Sticky(rack="a")], False),
    ],
    ids=["option", "option of one", "others", "enabled", "default"],
)
def test_consumers_that_have_the_workarounds(
    broker: ScriptedBroker, construct: Construct, strategies: list[Any], enable: bool
) -> None:
    install()
    consumer = settled(construct, *strategies)
    if enable:
        enable_workarounds(consumer)
        enable_workarounds(consumer)
    expected = enable or all(getattr(strategy, "workarounds", False) for strategy in strategies)
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        consumer.close(timeout_ms=300)
        assert len(broker.named("LeaveGroup")) == expected


def test_new_member_leaves_once_it_has_its_id(broker: ScriptedBroker, construct: Construct) -> None:
    consumer = construct()
    with broker.holding("JoinGroup") as release:
        poll_until(consumer, lambda: broker.named("JoinGroup"))
        threading.Timer(0.1, release.set).start()
        consumer.close()
    (left,) = broker.named("LeaveGroup")
    assert left.request.members[0].member_id == MEMBER_ID
    assert len(broker.named("JoinGroup")) == 1


def test_static_member_sends_no_leave_group(broker: ScriptedBroker, construct: Construct) -> None:
    consumer = settled(construct, group_instance_id="i")
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        consumer.close()
    assert not broker.named("LeaveGroup")


def test_a_refused_leave_group_is_logged(
    broker: ScriptedBroker, construct: Construct, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = settled(construct)
    broker.answers["LeaveGroup"] = lambda _: LeaveGroupResponse(
        throttle_time_ms=0, error_code=GROUP_AUTHORIZATION_FAILED, members=[]
    )
    with broker.holding("JoinGroup"):
        start_rebalance(broker, consumer)
        consumer.unsubscribe()
    (line,) = [message for message in caplog.messages if "LeaveGroup failed" in message]
    assert line.isprintable()


# Brokers and topics that are missing.


@pytest.mark.parametrize("workarounds", [True, False])
def test_reading_goes_on_after_a_broker_missing_from_metadata(
    broker: ScriptedBroker, construct: Construct, workarounds: bool
) -> None:
    strategy = Sticky(rack="a", refresh=None, workarounds=workarounds)
    consumer = settled(construct, strategy, metadata_max_age_ms=100)
    broker.records[T1] = 1
    poll_until(consumer, lambda: consumer.position(T1) == 1)
    rack = broker.racks.pop(1)
    requests = len(broker.named("Metadata"))
    poll_until(consumer, lambda: len(broker.named("Metadata")) > requests + 1)
    broker.disconnect_readers_of("t", 1)
    if workarounds:
        poll_for(consumer, 0.3)
    else:
        with pytest.raises(UnknownBrokerIdError):
            poll_for(consumer, 2)
    broker.racks[1] = rack
    broker.records[T1] = 2
    if workarounds:
        poll_until(consumer, lambda: consumer.position(T1) == 2)


@pytest.mark.parametrize("workarounds", [True, False])
def test_missing_topics_are_requested_with_pauses(
    broker: ScriptedBroker, construct: Construct, workarounds: bool
) -> None:
    strategy = Sticky(rack="a", refresh=None, workarounds=workarounds)
    consumer = settled(construct, strategy, topics=["t", "absent"])
    before = len(broker.named("Metadata"))
    poll_for(consumer, 1.5)
    requests = len(broker.named("Metadata")) - before
    assert requests <= 2 if workarounds else requests > 5
    if workarounds:
        broker.leaders["absent"] = [0]
        poll_until(consumer, lambda: len(consumer.assignment()) == 3)


def test_missing_topics_slow_down_metadata_by_their_number(
    broker: ScriptedBroker, construct: Construct
) -> None:
    absent = [f"absent-{number}" for number in range(250)]
    consumer = settled(construct, topics=["t", *absent])
    poll_for(consumer, 4.5)
    times = [received.at for received in broker.named("Metadata")]
    # 10 ms for each of them, in place of 1 s for all. A busy machine receives requests late.
    assert 1.5 < max(later - earlier for earlier, later in pairwise(times)) < 4


# The group's coordinator.


def lose_coordinator(broker: ScriptedBroker) -> None:
    """Have brokers answer that nobody coordinates the group."""
    broker.answers["Heartbeat"] = lambda _: HeartbeatResponse(
        throttle_time_ms=0, error_code=NOT_COORDINATOR
    )
    broker.answers["FindCoordinator"] = lambda _: FindCoordinatorResponse(
        error_code=COORDINATOR_NOT_AVAILABLE, error_message="", node_id=-1, host="", port=-1
    )


@pytest.mark.parametrize("workarounds", [True, False])
def test_members_read_without_coordinator_for_one_session(
    broker: ScriptedBroker, construct: Construct, workarounds: bool
) -> None:
    strategy = Sticky(rack="a", refresh=None, workarounds=workarounds)
    consumer = settled(construct, strategy, session_timeout_ms=2000)
    broker.await_request("Heartbeat")
    lookups = len(broker.named("FindCoordinator"))
    lose_coordinator(broker)
    poll_until(consumer, lambda: len(broker.named("FindCoordinator")) > lookups)
    broker.records[T0] = 2
    assert poll_for(consumer, 0.5) == ([0, 1] if workarounds else [])
    if workarounds:
        # From then on another member may own the partition.
        poll_for(consumer, 2)
        broker.records[T0] = 3
        assert poll_for(consumer, 0.5) == []


def test_a_dead_coordinator_is_looked_up_with_pauses(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = settled(construct, retry_backoff_ms=200)
    # Brokers still name the dead one, whose connections fail at once.
    broker.answers["FindCoordinator"] = lambda _: FindCoordinatorResponse(
        error_code=0, error_message="", node_id=0, host="127.0.0.1", port=1
    )
    broker.answers["Heartbeat"] = lambda _: HeartbeatResponse(
        throttle_time_ms=0, error_code=NOT_COORDINATOR
    )
    broker.await_request("FindCoordinator", count=2)
    poll_for(consumer, 1)
    times = [received.at for received in broker.named("FindCoordinator")][1:]
    assert len(times) <= (times[-1] - times[0]) / 0.19 + 1


def test_polls_pause_while_a_heartbeat_is_overdue(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = settled(construct)
    broker.fetch_delay = 5
    with broker.holding("Heartbeat"):
        broker.await_request("Heartbeat", count=len(broker.named("Heartbeat")) + 1)
        time.sleep(0.1)
        used = time.process_time()
        consumer.poll(timeout_ms=1000)
        assert time.process_time() - used < 0.5


# The group's leader.


def leader_with(
    broker: ScriptedBroker, construct: Construct, *others: bytes, **options: Any
) -> Any:
    """Return a consumer in rack a, which leads a group with others of these subscriptions."""
    broker.others = [joined(f"m-{2 + n}", metadata) for n, metadata in enumerate(others)]
    return construct(Sticky(rack="a", **{"refresh": None, **options}))


def test_leader_waits_for_metadata_of_topics_of_others(
    broker: ScriptedBroker, construct: Construct
) -> None:
    broker.leaders["u"] = [1, 1]
    consumer = leader_with(broker, construct, subscription_bytes(["u"], rack="b"))
    poll_until(consumer, consumer.assignment)
    assert assigned(broker) == {MEMBER_ID: {"t": [0, 1]}, "m-2": {"u": [0, 1]}}
    # Brokers take joins with the same bytes for one; and the snapshot has all topics.
    _, *joins = broker.named("JoinGroup")
    assert len(joins) > 1
    assert len({join.request.protocols[0].metadata for join in joins}) == 1
    poll_for(consumer, 0.3)
    assert len(broker.named("SyncGroup")) == 1


def test_a_topic_missing_from_two_responses_does_not_exist(
    broker: ScriptedBroker, construct: Construct, caplog: pytest.LogCaptureFixture
) -> None:
    gone = subscription_bytes(["t", "gone"], rack="b", owned={"gone": [3]}, generation=1)
    consumer = leader_with(broker, construct, gone)
    poll_until(consumer, consumer.assignment)
    assert assigned(broker) == {MEMBER_ID: {"t": [0]}, "m-2": {"t": [1]}}
    assert caplog.text.count("subscribed topic does not exist: gone") == 1


def test_owners_keep_a_topic_without_metadata(
    broker: ScriptedBroker, construct: Construct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assignors.group_leader.rebalance.METADATA_TIMEOUT", 0.0)
    subscriptions = [
        subscription_bytes(["t", "u"], owned={"u": [0, 1]}, generation=4),
        subscription_bytes(["t", "u"], owned={"u": [1, 2]}, generation=5),
        subscription_bytes(["t"], owned={"u": [7]}, generation=5),
    ]
    consumer = leader_with(broker, construct, *subscriptions)
    poll_until(consumer, lambda: broker.named("SyncGroup"))
    owners = {member: topics["u"] for member, topics in assigned(broker).items() if "u" in topics}
    assert owners == {"m-2": [0], "m-3": [1, 2]}


def test_owners_keep_a_topic_the_leader_may_not_describe(
    broker: ScriptedBroker, construct: Construct, caplog: pytest.LogCaptureFixture
) -> None:
    secret = subscription_bytes(["t", "secret"], rack="b", owned={"secret": [3]}, generation=1)
    broker.unauthorized_topics = {"secret"}
    consumer = leader_with(broker, construct, secret)
    poll_until(consumer, lambda: broker.named("SyncGroup"))
    assert assigned(broker)["m-2"]["secret"] == [3]
    assert "does not exist" not in caplog.text
    assert "grant this user Describe on it): secret" in caplog.text


def test_a_leader_that_closes_does_not_wait_for_metadata(
    broker: ScriptedBroker, construct: Construct
) -> None:
    consumer = leader_with(broker, construct, subscription_bytes(["u"]))
    with broker.holding("Metadata"):
        poll_until(consumer, lambda: len(broker.named("JoinGroup")) == 2)
        consumer.close()
    time.sleep(0.2)
    assert len(broker.named("JoinGroup")) == 2
    assert not broker.named("SyncGroup")


def test_leader_requests_a_rebalance_if_none_revokes(
    broker: ScriptedBroker,
    construct: Construct,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("assignors.group_leader.rebalance.REVOCATION_TIMEOUT", 0.3)
    broker.leaders["t"] = [0, 0]
    owner = subscription_bytes(["t"], rack="a", owned={"t": [0, 1]}, generation=1)
    consumer = leader_with(broker, construct, owner)
    poll_until(consumer, lambda: len(broker.named("SyncGroup")) == 2)
    assert "withheld=1" in caplog.text


def test_leader_rejoins_when_leaders_have_moved(
    broker: ScriptedBroker, construct: Construct
) -> None:
    in_b = subscription_bytes(["t"], rack="b")
    consumer = leader_with(broker, construct, in_b, refresh=QUICK)
    poll_until(consumer, consumer.assignment)
    assert assigned(broker) == {MEMBER_ID: {"t": [0]}, "m-2": {"t": [1]}}
    before = len(broker.named("Metadata"))
    poll_for(consumer, 2.5)
    # One per interval, besides the few of kafka-python.
    assert 2 <= len(broker.named("Metadata")) - before <= 4
    assert len(broker.named("SyncGroup")) == 1
    broker.leaders["t"] = [1, 0]
    poll_until(consumer, lambda: assigned(broker) == {MEMBER_ID: {"t": [1]}, "m-2": {"t": [0]}})


@pytest.mark.parametrize("leads", [True, False], ids=["no policy", "follower"])
def test_others_request_no_metadata(
    broker: ScriptedBroker, construct: Construct, leads: bool
) -> None:
    if not leads:
        follow(broker, 0)
    refresh = None if leads else QUICK
    consumer = construct(Sticky(rack="a", refresh=refresh))
    poll_until(consumer, consumer.assignment)
    poll_for(consumer, 0.5)
    before = len(broker.named("Metadata"))
    poll_for(consumer, 2.2)
    assert len(broker.named("Metadata")) == before
