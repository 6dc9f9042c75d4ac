"""The choice of the replica to read: examples, and a comparison with a simple model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.kafka_python.nearest_replica import (
    DEFAULT_POLICY,
    FollowerFetches,
    NearestPolicy,
)
from placement_core import InvalidOptionError, TopicPartition, nearest_replica, tie_break

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RACKS = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc3/r1"}
CLIENT_RACK = "/dc2/r9"
LEADER, NEAR = 1, 2
MAX_WAIT = 0.5
POLICY = NearestPolicy(backoff=1, max_backoff=10, response_timeout=3, metadata_interval=30)


class Follower:
    """The fetches of a consumer whose near follower is broker 2."""

    def __init__(self) -> None:
        self.fetches = FollowerFetches(POLICY)

    def fetch(self, at: float) -> None:
        self.fetches.sent(NEAR, [P0, P1], MAX_WAIT, at)

    def fail(self, sent: float, failed: float) -> None:
        self.fetch(sent)
        self.fetches.failed(NEAR, failed)

    def answer(self, sent: float, answered: float, *refused: TopicPartition) -> None:
        self.fetch(sent)
        self.fetches.answered(NEAR, refused, answered)

    def choice(
        self,
        now: float,
        *,
        metadata_at: float | None = None,
        partition: TopicPartition = P0,
        in_sync: Collection[int] = (1, 2, 3),
        leader: int = LEADER,
        racks: Mapping[int, str | None] = RACKS,
    ) -> int:
        """Return the broker that is read at ``now``, with metadata received at ``metadata_at``.

        None: received now.
        """
        return self.fetches.choose(
            CLIENT_RACK,
            partition,
            leader,
            in_sync,
            racks,
            now if metadata_at is None else metadata_at,
            now,
        )

    def seconds_until_read(self, now: float) -> int:
        return next(s for s in range(1, 20) if self.choice(now + s) == NEAR)


@pytest.fixture
def follower() -> Follower:
    return Follower()


def test_nearest_replica_in_sync_with_a_known_rack_is_read(follower: Follower) -> None:
    choice = follower.choice
    assert choice(0) == NEAR
    assert choice(0, in_sync=(1, 3)) == LEADER
    assert choice(0, in_sync=(1, 3), leader=3) == 3
    # A follower that metadata lacks or that has no rack, and a leader that it lacks.
    assert choice(0, in_sync=(1, 2), racks={1: "/dc1/r1"}) == LEADER
    assert choice(0, in_sync=(1, 2), racks={**RACKS, 2: None}) == LEADER
    assert choice(0, in_sync=(9, 2), leader=9) == NEAR
    assert choice(0, in_sync=(), leader=9) == 9


def test_equally_near_replicas_alternate_over_partitions(follower: Follower) -> None:
    racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2"}
    assert {follower.choice(0, partition=p, racks=racks) for p in (P0, P1)} == {2, 3}


def test_backoff_doubles_with_each_failure_up_to_its_maximum(follower: Follower) -> None:
    now, waits = 100.0, []
    for _ in range(6):
        follower.fail(now, now)
        waits.append(follower.seconds_until_read(now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 10, 10]
    follower.answer(now, now + 0.1)
    follower.fail(now + 1, now + 1)
    assert follower.choice(now + 2) == NEAR


def test_an_error_of_one_partition_concerns_no_other(follower: Follower) -> None:
    follower.answer(100, 100.1, P0)
    assert follower.choice(100.2, metadata_at=100.1) == LEADER
    assert follower.choice(100.2, partition=P1, metadata_at=100.1) == NEAR


def test_refused_partition_backs_off_from_its_second_refusal(follower: Follower) -> None:
    """A consumer read a second from each new leader, though followers would have served it."""
    follower.answer(100, 100.1, P0)
    assert follower.choice(200, metadata_at=100.1) == LEADER
    assert follower.choice(100.2) == NEAR
    waits, now = [], 100.2
    for _ in range(4):
        follower.answer(now, now, P0)
        waits.append(follower.seconds_until_read(now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8]
    follower.answer(now, now + 0.1)
    assert follower.fetches.failures == {}


def test_a_timeout_and_a_late_response_are_failures(follower: Follower) -> None:
    follower.fetch(100)
    assert follower.choice(103.5) == NEAR
    assert follower.choice(103.6) == LEADER
    assert follower.choice(103.6, partition=TopicPartition("t", 9)) == LEADER
    assert follower.choice(1000) == LEADER
    follower.fetches.answered(NEAR, (), 110)
    assert follower.fetches.pending == {}
    assert [follower.choice(110.5), follower.choice(111.1)] == [LEADER, NEAR]
    # Nothing is pending any more.
    follower.fetches.answered(NEAR, {P0}, 111.2)
    follower.fetches.failed(NEAR, 111.2)
    assert follower.choice(111.3) == NEAR


def test_metadata_is_needed_if_old_or_after_a_failure_or_timeout(follower: Follower) -> None:
    needed = follower.fetches.needs_metadata
    assert [needed(100, now) for now in (129.9, 130)] == [False, True]
    follower.fetch(100)
    assert [needed(99, now) for now in (103.5, 103.6)] == [False, True]
    assert not needed(metadata_at=103.6, now=110)
    follower.fail(110, 110.1)
    assert needed(metadata_at=110.1, now=110.1)
    assert not needed(metadata_at=110.2, now=111)


def test_old_failures_are_dropped(follower: Follower) -> None:
    follower.answer(100, 100, P0, P1)
    follower.fetches.sent(3, [P0], MAX_WAIT, 120.1)
    follower.fetches.failed(3, 120.1)
    assert set(follower.fetches.failures) == {(3, None)}


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


def test_backoff_after_a_million_failures_is_the_maximum() -> None:
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
def test_any_events_give_the_choice_of_a_simple_model(
    events: list[tuple[str, int, set[TopicPartition], float]],
    leader: int,
    in_sync: set[int],
    racks: dict[int, str],
    age: float,
    later: float,
) -> None:
    state, now = FollowerFetches(POLICY), 0.0
    pending: dict[int, tuple[set[TopicPartition], float]] = {}
    failures: dict[tuple[int, TopicPartition | None], list[float]] = {}
    for kind, broker, partitions, pause in events:
        now += pause
        if kind == "sent":
            state.sent(broker, partitions, MAX_WAIT, now)
            pending[broker] = (partitions, now)
            continue
        if kind == "answered":
            state.answered(broker, {P0}, now)
        else:
            state.failed(broker, now)
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
            relevant = [(failures.get((broker, part), []), part is not None) for part in (None, tp)]
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
        assert state.choose(CLIENT_RACK, tp, leader, in_sync, racks, now - age, now) == expected
    if not events:
        assert (state.pending, state.failures) == ({}, {})
