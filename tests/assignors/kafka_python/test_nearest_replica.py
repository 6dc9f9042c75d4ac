"""The choice of the replica to read: examples, and a comparison with a simple model."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.kafka_python.nearest_replica import (
    DEFAULT_POLICY,
    BrokerRacks,
    Failures,
    FollowerState,
    NearestPolicy,
    PendingFetch,
)
from placement_core import InvalidOptionError, TopicPartition, nearest_replica, tie_break

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RACKS = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc3/r1"}
CLIENT_RACK = "/dc2/r9"
LEADER, NEAR = 1, 2
MAX_WAIT = 0.5
POLICY = NearestPolicy(backoff=1, max_backoff=10, response_timeout=3, metadata_interval=30)


def choice(
    state: FollowerState,
    now: float,
    *,
    metadata_at: float | None = None,
    partition: TopicPartition = P0,
    in_sync: Collection[int] = (1, 2, 3),
    leader: int = LEADER,
) -> int:
    """Return the broker that is read at ``now``, with metadata received at ``metadata_at``.

    None: received now.
    """
    brokers = BrokerRacks(now if metadata_at is None else metadata_at, RACKS)
    return state.choose(CLIENT_RACK, partition, leader, in_sync, brokers, now)


def fetching(at: float = 100.0, state: FollowerState | None = None) -> FollowerState:
    """Return the state after a fetch of both partitions from the near follower."""
    return (state or FollowerState(POLICY)).fetch_sent(NEAR, [P0, P1], MAX_WAIT, at)


def test_the_nearest_replica_in_sync_with_known_rack_is_read() -> None:
    state = FollowerState(POLICY)
    assert choice(state, 0) == NEAR
    assert choice(state, 0, in_sync=(1, 3)) == LEADER
    assert choice(state, 0, in_sync=(1, 3), leader=3) == 3
    assert (
        state.choose(CLIENT_RACK, P0, LEADER, (1, 2), BrokerRacks(0, {1: "/dc1/r1"}), 0) == LEADER
    )
    # A follower without a rack, and leaders that are missing from the metadata.
    assert (
        state.choose(CLIENT_RACK, P0, LEADER, (1, 2), BrokerRacks(0, {**RACKS, 2: None}), 0)
        == LEADER
    )
    assert state.choose(CLIENT_RACK, P0, 9, (9, 2), BrokerRacks(0, RACKS), 0) == NEAR
    assert state.choose(CLIENT_RACK, P0, 9, (), BrokerRacks(0, RACKS), 0) == 9


def test_equally_near_replicas_alternate_over_partitions() -> None:
    racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2"}
    state = FollowerState(POLICY)
    read = [state.choose(CLIENT_RACK, p, 1, (1, 2, 3), BrokerRacks(0, racks), 0) for p in (P0, P1)]
    assert sorted(read) == [2, 3]


def test_a_pending_fetch_and_its_response_change_nothing() -> None:
    pending = fetching(at=100)
    assert choice(pending, 100.2) == NEAR
    assert pending.fetch_answered(NEAR, (), 100.5) == FollowerState(POLICY)


def test_a_failed_broker_is_read_after_its_backoff_and_with_newer_metadata() -> None:
    failed = fetching(at=100).fetch_failed(NEAR, 100.1)
    assert [choice(failed, 100.1), choice(failed, 101.0), choice(failed, 101.2)] == [1, 1, NEAR]
    assert choice(failed, 101.2, partition=P1) == NEAR
    assert choice(failed, 200, metadata_at=100.1) == LEADER
    assert choice(failed, 200, metadata_at=100.2, in_sync=(1, 3)) == LEADER
    assert choice(failed, 200, metadata_at=100.2) == NEAR


def test_the_backoff_doubles_with_each_failure_up_to_its_maximum() -> None:
    state, now, waits = FollowerState(POLICY), 100.0, []
    for _ in range(6):
        state = fetching(now, state).fetch_failed(NEAR, now)
        waits.append(next(s for s in range(1, 20) if choice(state, now + s) == NEAR))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 10, 10]
    answered = fetching(now, state).fetch_answered(NEAR, (), now + 0.1)
    again = fetching(now + 1, answered).fetch_failed(NEAR, now + 1)
    assert choice(again, now + 2) == NEAR


def test_an_error_of_one_partition_concerns_no_other() -> None:
    refused = fetching(at=100).fetch_answered(NEAR, {P0}, 100.1)
    assert choice(refused, 100.2, metadata_at=100.1) == LEADER
    assert choice(refused, 100.2, partition=P1, metadata_at=100.1) == NEAR


def test_a_refused_partition_is_read_with_newer_metadata_and_later_ones_after_a_backoff() -> None:
    """A consumer read a second from each new leader, though followers would have served it."""
    refused = fetching(at=100).fetch_answered(NEAR, {P0}, 100.1)
    assert choice(refused, 200, metadata_at=100.1) == LEADER
    assert choice(refused, 100.2) == NEAR
    waits, now = [], 100.2
    for _ in range(4):
        refused = fetching(now, refused).fetch_answered(NEAR, {P0}, now)
        waits.append(next(s for s in range(1, 20) if choice(refused, now + s) == NEAR))
        now += waits[-1]
    assert waits == [1, 2, 4, 8]
    assert fetching(now, refused).fetch_answered(NEAR, (), now + 0.1).failures == {}


def test_a_broker_is_not_read_after_a_timeout_and_a_late_response_is_a_failure() -> None:
    silent = fetching(at=100)
    assert choice(silent, 103.5) == NEAR
    assert choice(silent, 103.6) == LEADER
    assert choice(silent, 103.6, partition=TopicPartition("t", 9)) == LEADER
    assert choice(silent, 1000) == LEADER
    late = silent.fetch_answered(NEAR, (), 110)
    assert late.pending == {}
    assert [choice(late, 110.5), choice(late, 111.1)] == [LEADER, NEAR]
    assert choice(silent.fetch_failed(NEAR, 130), 130.5) == LEADER


def test_a_leader_may_be_read_after_failures() -> None:
    racks = {**RACKS, 3: "/dc2/r2"}
    failed = fetching(at=100).fetch_failed(NEAR, 100.1)
    assert failed.choose(CLIENT_RACK, P0, 1, (1, 2, 3), BrokerRacks(100, racks), 100.2) == 3
    assert failed.choose(CLIENT_RACK, P0, NEAR, (1, 2, 3), BrokerRacks(100, racks), 100.2) == NEAR


def test_responses_without_a_pending_fetch_change_nothing() -> None:
    state = FollowerState(POLICY)
    assert state.fetch_answered(NEAR, {P0}, 1) == state
    assert state.fetch_failed(NEAR, 1) == state


def test_metadata_is_needed_if_old_or_after_a_failure_or_a_timeout() -> None:
    state = FollowerState(POLICY)
    assert [state.needs_metadata(100, now) for now in (129.9, 130)] == [False, True]
    failed = fetching(at=100).fetch_failed(NEAR, 100.1)
    assert failed.needs_metadata(metadata_at=100.1, now=100.1)
    assert not failed.needs_metadata(metadata_at=100.2, now=101)
    silent = fetching(at=100)
    assert [silent.needs_metadata(99, now) for now in (103.5, 103.6)] == [False, True]
    assert not silent.needs_metadata(metadata_at=103.6, now=110)


def test_old_failures_are_dropped() -> None:
    state = fetching(at=100).fetch_answered(NEAR, {P0, P1}, 100)
    later = state.fetch_sent(3, [P0], MAX_WAIT, 120.1).fetch_failed(3, 120.1)
    assert set(later.failures) == {(3, None)}


@pytest.mark.parametrize(
    "bad",
    [
        {"backoff": 0},
        {"backoff": 5, "max_backoff": 4},
        {"response_timeout": -1},
        {"metadata_interval": math.inf},
        {"metadata_interval": True},
        {"backoff": "1"},
    ],
)
def test_a_policy_out_of_range_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidOptionError, match=r"give seconds, "):
        NearestPolicy(**bad)


def test_the_backoff_after_a_million_failures_is_the_maximum() -> None:
    assert DEFAULT_POLICY.backoff_after(1_000_000) == DEFAULT_POLICY.max_backoff


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["sent", "answered", "failed"]),
        st.sampled_from([2, 3]),
        st.sets(st.sampled_from([P0, P1])),
        st.floats(0, 20),
    ),
    max_size=30,
)


@given(
    EVENTS,
    st.sampled_from([1, 2, 3]),
    st.sets(st.sampled_from([1, 2, 3, 4])),
    st.dictionaries(st.sampled_from([1, 2, 3]), st.sampled_from([*RACKS.values(), "/dc2/r9"])),
    st.floats(0, 20),
    st.floats(0, 700),
)
def test_any_sequence_of_events_gives_the_choice_of_a_simple_model(
    events: list[tuple[str, int, set[TopicPartition], float]],
    leader: int,
    in_sync: set[int],
    racks: dict[int, str],
    age: float,
    later: float,
) -> None:
    state, now = FollowerState(POLICY), 0.0
    pending: dict[int, tuple[set[TopicPartition], float]] = {}
    failures: dict[tuple[int, TopicPartition | None], list[float]] = {}
    for kind, broker, partitions, pause in events:
        now += pause
        if kind == "sent":
            state = state.fetch_sent(broker, partitions, MAX_WAIT, now)
            pending[broker] = (partitions, now)
            continue
        if kind == "answered":
            state = state.fetch_answered(broker, {P0}, now)
        else:
            state = state.fetch_failed(broker, now)
        if broker not in pending:
            continue
        fetched, since = pending.pop(broker)
        if kind == "failed" or now > since + 3.5:
            failures.setdefault((broker, None), []).append(now)
        else:
            failures.pop((broker, None), None)
        if kind == "answered":
            for tp in fetched:
                if tp == P0:
                    failures.setdefault((broker, P0), []).append(now)
                else:
                    failures.pop((broker, tp), None)
        # After twice the maximum backoff the next failure counts as the first one.
        failures = {replica: times for replica, times in failures.items() if times[-1] >= now - 20}
    now += later
    for tp in (P0, P1):
        candidates = {leader: racks.get(leader)}
        for broker in in_sync & racks.keys():
            relevant = [(failures.get((broker, each), []), each is not None) for each in (None, tp)]
            timed_out = broker in pending and now > pending[broker][1] + 3.5
            if not timed_out and all(
                not times
                or (
                    now - age > times[-1]
                    and now >= times[-1] + [0, 1, 2, 4, 8, 10][min(len(times) - free, 5)]
                )
                for times, free in relevant
            ):
                candidates[broker] = racks[broker]
        expected = nearest_replica(CLIENT_RACK, candidates, leader, tie_break(*tp))
        assert (
            state.choose(CLIENT_RACK, tp, leader, in_sync, BrokerRacks(now - age, racks), now)
            == expected
        )
    if not events:
        assert (state.pending, state.failures) == ({}, {})


def test_the_state_can_be_inspected() -> None:
    state = fetching(at=100).fetch_failed(NEAR, 100.1)
    assert state.failures == {(NEAR, None): Failures(1, 100.1)}
    assert fetching(at=100).pending == {NEAR: PendingFetch(frozenset({P0, P1}), 103.5)}
