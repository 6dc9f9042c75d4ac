"""The decision which replica to read now, told by stories and against any course of events."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors.kafka_python.nearest_replica import (
    DEFAULT_NEAREST,
    Failures,
    Followers,
    Metadata,
    NearestPolicy,
    Question,
)
from placement_core import InvalidOptionError, TopicPartition, nearest_replica, turn_of

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RACKS = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc3/r1"}
HERE = "/dc2/r9"
LEADER, NEAR = 1, 2
LONGEST = 0.5
POLICY = NearestPolicy(back_off=1, most_back_off=10, patience=3, refresh=30)


def choice(
    followers: Followers,
    now: float,
    *,
    as_of: float | None = None,
    partition: TopicPartition = P0,
    in_sync: Collection[int] = (1, 2, 3),
    leader: int = LEADER,
) -> int:
    """What is read at ``now``, with metadata of ``as_of`` (None: of this moment)."""
    metadata = Metadata(now if as_of is None else as_of, RACKS)
    return followers.choose(HERE, partition, leader, in_sync, metadata, now)


def asked(at: float = 100.0, followers: Followers | None = None) -> Followers:
    return (followers or Followers(POLICY)).asked(NEAR, [P0, P1], LONGEST, at)


def test_the_nearest_in_sync_and_known_to_metadata_is_read() -> None:
    none = Followers(POLICY)
    assert choice(none, 0) == NEAR
    assert choice(none, 0, in_sync=(1, 3)) == LEADER
    assert choice(none, 0, in_sync=(1, 3), leader=3) == 3
    assert none.choose(HERE, P0, LEADER, (1, 2), Metadata(0, {1: "/dc1/r1"}), 0) == LEADER
    # One that has no rack, and leaders that metadata lacks.
    assert none.choose(HERE, P0, LEADER, (1, 2), Metadata(0, {**RACKS, 2: None}), 0) == LEADER
    assert none.choose(HERE, P0, 9, (9, 2), Metadata(0, RACKS), 0) == NEAR
    assert none.choose(HERE, P0, 9, (), Metadata(0, RACKS), 0) == 9


def test_equals_take_turns_over_partitions() -> None:
    racks = {1: "/dc1/r1", 2: "/dc2/r1", 3: "/dc2/r2"}
    none = Followers(POLICY)
    read = [none.choose(HERE, p, 1, (1, 2, 3), Metadata(0, racks), 0) for p in (P0, P1)]
    assert sorted(read) == [2, 3]


def test_a_fetch_on_its_way_changes_nothing_and_its_answer_neither() -> None:
    on_its_way = asked(at=100)
    assert choice(on_its_way, 100.2) == NEAR
    assert on_its_way.answered(NEAR, (), 100.5) == Followers(POLICY)


def test_a_broker_that_fails_is_left_until_the_back_off_ends_and_metadata_is_younger() -> None:
    failed = asked(at=100).failed(NEAR, 100.1)
    assert [choice(failed, 100.1), choice(failed, 101.0), choice(failed, 101.2)] == [1, 1, NEAR]
    assert choice(failed, 101.2, partition=P1) == NEAR
    assert choice(failed, 200, as_of=100.1) == LEADER
    assert choice(failed, 200, as_of=100.2, in_sync=(1, 3)) == LEADER
    assert choice(failed, 200, as_of=100.2) == NEAR


def test_each_failure_in_a_row_doubles_the_back_off_up_to_its_most() -> None:
    followers, now, waits = Followers(POLICY), 100.0, []
    for _ in range(6):
        followers = asked(now, followers).failed(NEAR, now)
        waits.append(next(s for s in range(1, 20) if choice(followers, now + s) == NEAR))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 10, 10]
    answered = asked(now, followers).answered(NEAR, (), now + 0.1)
    again = asked(now + 1, answered).failed(NEAR, now + 1)
    assert choice(again, now + 2) == NEAR


def test_what_one_partition_is_refused_concerns_no_other() -> None:
    refused = asked(at=100).answered(NEAR, {P0}, 100.1)
    assert choice(refused, 100.2) == LEADER
    assert choice(refused, 100.2, partition=P1) == NEAR
    assert choice(refused, 101.2) == NEAR
    twice = asked(101.2, refused).answered(NEAR, {P0}, 101.3)
    assert [choice(twice, 102.5), choice(twice, 103.4)] == [LEADER, NEAR]
    assert asked(103.4, twice).answered(NEAR, (), 103.5).failures == {}


def test_a_silent_broker_is_left_when_patience_ends_and_what_it_says_late_is_a_failure() -> None:
    silent = asked(at=100)
    assert choice(silent, 103.5) == NEAR
    assert choice(silent, 103.6) == LEADER
    assert choice(silent, 103.6, partition=TopicPartition("t", 9)) == LEADER
    assert choice(silent, 1000) == LEADER
    late = silent.answered(NEAR, (), 110)
    assert late.questions == {}
    assert [choice(late, 110.5), choice(late, 111.1)] == [LEADER, NEAR]
    assert choice(silent.failed(NEAR, 130), 130.5) == LEADER


def test_nothing_is_held_against_a_leader() -> None:
    racks = {**RACKS, 3: "/dc2/r2"}
    failed = asked(at=100).failed(NEAR, 100.1)
    assert failed.choose(HERE, P0, 1, (1, 2, 3), Metadata(100, racks), 100.2) == 3
    assert failed.choose(HERE, P0, NEAR, (1, 2, 3), Metadata(100, racks), 100.2) == NEAR


def test_answers_that_nobody_waits_for_change_nothing() -> None:
    none = Followers(POLICY)
    assert none.answered(NEAR, {P0}, 1) == none
    assert none.failed(NEAR, 1) == none


def test_metadata_is_asked_for_when_old_after_a_failure_and_of_a_silent_broker() -> None:
    none = Followers(POLICY)
    assert [none.wants_metadata(100, now) for now in (129.9, 130)] == [False, True]
    failed = asked(at=100).failed(NEAR, 100.1)
    assert failed.wants_metadata(as_of=100.1, now=100.1)
    assert not failed.wants_metadata(as_of=100.2, now=101)
    silent = asked(at=100)
    assert [silent.wants_metadata(99, now) for now in (103.5, 103.6)] == [False, True]
    assert not silent.wants_metadata(as_of=103.6, now=110)


def test_old_failures_are_forgotten() -> None:
    followers = asked(at=100).answered(NEAR, {P0, P1}, 100)
    later = followers.asked(3, [P0], LONGEST, 120.1).failed(3, 120.1)
    assert set(later.failures) == {(3, None)}


@pytest.mark.parametrize(
    "bad",
    [
        {"back_off": 0},
        {"back_off": 5, "most_back_off": 4},
        {"patience": -1},
        {"refresh": math.inf},
        {"refresh": True},
        {"back_off": "1"},
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidOptionError, match=r"give seconds, "):
        NearestPolicy(**bad)


def test_a_million_failures_are_waited_for_no_longer_than_the_most() -> None:
    assert DEFAULT_NEAREST.left_alone(1_000_000) == DEFAULT_NEAREST.most_back_off


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["asked", "answered", "failed"]),
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
def test_whatever_happened(
    events: list[tuple[str, int, set[TopicPartition], float]],
    leader: int,
    in_sync: set[int],
    racks: dict[int, str],
    age: float,
    later: float,
) -> None:
    """A plain account of every event, asked the same question, gives the same answer."""
    followers, now = Followers(POLICY), 0.0
    waiting: dict[int, tuple[set[TopicPartition], float]] = {}
    held: dict[tuple[int, TopicPartition | None], list[float]] = {}
    for kind, broker, places, pause in events:
        now += pause
        if kind == "asked":
            followers = followers.asked(broker, places, LONGEST, now)
            waiting[broker] = (places, now)
            continue
        if kind == "answered":
            followers = followers.answered(broker, {P0}, now)
        else:
            followers = followers.failed(broker, now)
        if broker not in waiting:
            continue
        about, since = waiting.pop(broker)
        if kind == "failed" or now > since + 3.5:
            held.setdefault((broker, None), []).append(now)
        else:
            held.pop((broker, None), None)
        if kind == "answered":
            for place in about:
                if place == P0:
                    held.setdefault((broker, P0), []).append(now)
                else:
                    held.pop((broker, place), None)
        # Longer ago than twice the longest back-off: the next failure is a first one.
        held = {replica: times for replica, times in held.items() if times[-1] >= now - 20}
    now += later
    for place in (P0, P1):
        free = {leader: racks.get(leader)}
        for broker in in_sync & racks.keys():
            blamed = [held.get((broker, about), []) for about in (None, place)]
            silent = broker in waiting and now > waiting[broker][1] + 3.5
            if not silent and all(
                not times
                or (now - age > times[-1] and now >= times[-1] + min(2 ** (len(times) - 1), 10))
                for times in blamed
            ):
                free[broker] = racks[broker]
        expected = nearest_replica(HERE, free, leader, turn_of(*place))
        assert (
            followers.choose(HERE, place, leader, in_sync, Metadata(now - age, racks), now)
            == expected
        )
    if not events:
        assert (followers.questions, followers.failures) == ({}, {})


def test_the_values_are_plain() -> None:
    followers = asked(at=100).failed(NEAR, 100.1)
    assert followers.failures == {(NEAR, None): Failures(1, 100.1)}
    assert asked(at=100).questions == {NEAR: Question(frozenset({P0, P1}), 103.5)}
