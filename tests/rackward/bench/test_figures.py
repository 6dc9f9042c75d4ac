"""The formula for the optimum, prediction, pauses and rebalances, from values."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from placement_core import Broker, ClusterView, TopicPartition
from rack_traffic.what_if.cases import GroupCase
from rackward.bench.clients import Read
from rackward.bench.figures import (
    MemberInfo,
    bursts,
    divided_at_change,
    group_case,
    min_off_rack,
    moved_partitions,
    optimum,
    predicted,
    predicted_writes,
    read_figures,
)
from rackward.bench.groups import Assignment
from rackward.bench.strategies import STRATEGIES, Producers
from tests.support.bench_results import crossing_result, result

RACKS = st.sampled_from([None, "a", "b", "c"])


def minimum_of_all_assignments(members: list[str | None], leaders: list[str | None]) -> int:
    minimum = len(leaders)
    for owners in product(range(len(members)), repeat=len(leaders)):
        loads = Counter(dict.fromkeys(range(len(members)), 0))
        loads.update(owners)
        if max(loads.values()) - min(loads.values()) <= 1:
            off_rack = sum(
                rack is not None and members[owner] != rack
                for owner, rack in zip(owners, leaders, strict=True)
            )
            minimum = min(minimum, off_rack)
    return minimum


@settings(max_examples=300, deadline=None)
@given(st.lists(RACKS, min_size=1, max_size=4), st.lists(RACKS, max_size=6))
def test_equals_the_minimum_of_all_assignments(
    members: list[str | None], leaders: list[str | None]
) -> None:
    assert min_off_rack(members, leaders) == minimum_of_all_assignments(members, leaders)


@settings(max_examples=200, deadline=None)
@given(st.lists(RACKS, min_size=1, max_size=12), st.lists(RACKS, min_size=1, max_size=80))
def test_both_assignors_reach_the_optimum(
    members: list[str | None], leaders: list[str | None]
) -> None:
    group = [
        Member(id=f"m-{index:02}", topics=frozenset({"t"}), rack=rack)
        for index, rack in enumerate(members)
    ]
    for assignor in (LeaderRackAwareCooperativeSticky(), LeaderRackAwareRange()):
        plan = assignor.assign(group, {"t": leaders})
        assert plan.off_rack == min_off_rack(members, leaders)


def test_a_group_without_members_is_an_error() -> None:
    with pytest.raises(ValueError, match="without members"):
        min_off_rack([], ["a"])


PARTITIONS = [TopicPartition("t", number) for number in range(3)]
VIEW = ClusterView(
    (Broker(0, "a"), Broker(1, "b")),
    dict(zip(PARTITIONS, [(0, 1), (0, 1), (1, 0)], strict=True)),
    leaders=dict(zip(PARTITIONS, [0, 0, 1], strict=True)),
)
MEMBERS = {"m-a": MemberInfo("a", ("t",)), "m-b": MemberInfo("b", ("t",))}
ASSIGNMENT = {"m-a": frozenset({0, 2}), "m-b": frozenset({1})}


def case_of(strategy: str, assignment: Assignment = ASSIGNMENT) -> GroupCase:
    return group_case(
        "g", STRATEGIES[strategy], MEMBERS, assignment, PARTITIONS, VIEW, [100, 20, 3]
    )


@pytest.mark.parametrize(
    ("strategy", "crossing"),
    [
        ("kafka-python-range", 23),
        ("followers-confluent-range", 0),
        ("rackward-nearest", 0),
        ("brokers-uniform", 23),
    ],
)
def test_the_prediction_of_followers_is_that_of_their_scenario(
    strategy: str, crossing: int
) -> None:
    chosen = STRATEGIES[strategy]
    case = case_of(strategy)
    metrics = predicted(chosen, case)
    assert (metrics.bytes, metrics.crossing_bytes) == (123, crossing)
    assert (metrics.min_partitions, metrics.max_partitions) == (1, 2)


def test_bytes_read_are_divided_between_two_snapshots() -> None:
    before = {"m-a": frozenset({0, 1}), "m-b": frozenset({4})}
    after = {"m-a": frozenset({0}), "m-b": frozenset({1, 2, 4})}
    # 0 and 4 keep their owner, 1 changes it; 2 has none at first, 3 never.
    assert divided_at_change([10, 7, 5, 6, 0], before, after) == (
        [5, 3, 0, 0, 0],
        [5, 4, 5, 6, 0],
    )
    assert divided_at_change([10, 7, 5, 6, 0], after, before)[0] == [5, 3, 5, 0, 0]


def test_the_optimum_with_equal_and_with_different_subscriptions() -> None:
    strategy = STRATEGIES["rackward-confluent"]
    assert optimum(case_of("rackward-confluent")) == 0
    tps = [*PARTITIONS, TopicPartition("u", 0)]
    rows = {**VIEW.replicas, tps[3]: (0, 1)}
    view = ClusterView(VIEW.brokers, rows, leaders={**VIEW.known_leaders, tps[3]: 0})
    # m-b alone reads u, whose leader is in a.
    members = {**MEMBERS, "m-b": MemberInfo("b", ("t", "u"))}
    case = group_case("g", strategy, members, ASSIGNMENT, tps, view, [1] * 4)
    assert optimum(case) == 1


def test_moved_counts_partitions_taken_from_members_that_stay() -> None:
    before = {"m-1": frozenset({0, 1}), "m-2": frozenset({2, 3}), "m-3": frozenset({4})}
    after = {"m-1": frozenset({0, 2}), "m-2": frozenset({3, 4, 1})}
    assert moved_partitions(before, after) == 2
    assert moved_partitions({}, before) == 0


# ---- Reads.

SENT = {PARTITIONS[0]: {0: 10.0, 1: 11.0, 2: 12.0, 3: 13.0}, PARTITIONS[1]: {0: 10.0}}


def read(first: int, last: int, at: float, partition: int = 0) -> Read:
    return Read(PARTITIONS[partition], first, last, last - first + 1, at)


def test_records_and_the_longest_pause() -> None:
    reads = [read(0, 1, 11.5), read(0, 0, 12.0, 1), read(2, 3, 14.0), read(2, 3, 60.0)]
    # Records 2 and 3 waited from 12.0, the record of the other partition from 10.0; what is read
    # again does not wait.
    assert read_figures(reads, SENT) == (7, 2.0)
    assert read_figures([], SENT) == (0, 0.0)


def test_a_pause_begins_when_a_record_waits_not_when_none_does() -> None:
    assert read_figures([read(0, 0, 10.1), read(1, 1, 11.1)], SENT)[1] == (pytest.approx(0.1))
    # Records waited all the time since the read before.
    _, stalled = read_figures([read(0, 0, 11.5), read(1, 3, 19.0)], SENT)
    assert stalled == pytest.approx(7.5)


def test_a_record_of_which_no_time_is_known_makes_no_pause() -> None:
    assert read_figures([read(0, 0, 11.5)], {PARTITIONS[0]: {}}) == (1, 0.0)


@pytest.mark.parametrize(
    ("producers", "across"),
    [
        # Racks a and b lead 9 and 1 of 10 partitions; c leads none.
        (Producers.STOCK, 0.6 * 0.1 + 0.3 * 0.9 + 0.1),
        (Producers.JAVA, 0.1),
        # With 3 racks that lead or write, one partition gets 3/10 of a's or b's records at most.
        (Producers.RACKWARD, 0.3 * (1 - 0.6) + 0.1),
    ],
)
def test_what_producers_write_across_racks(producers: Producers, across: float) -> None:
    written = {"t": {"a": 0.6, "b": 0.3, "c": 0.1}}
    leader_racks = {"t": ["a"] * 9 + ["b"]}
    assert predicted_writes(producers, written, leader_racks) == pytest.approx(across)


def test_changes_in_a_burst_are_one_rebalance() -> None:
    assert bursts([1.0, 5.0, 5.5, 6.9, 9.0], since=4.0) == 2
    assert bursts([1.0], since=4.0) == 0


# ---- Results.


def test_shares_of_a_result() -> None:
    crossing = crossing_result("java-range")
    assert crossing.total_bytes == 1_010_000
    assert crossing.crossing_bytes == 605_000
    assert crossing.crossing_share == pytest.approx(605 / 1010)
    assert crossing.predicted_crossing_share == pytest.approx(0.6)
    assert crossing.overhead == pytest.approx(0.01)
    assert result(groups=2, log_bytes=500_000).overhead == pytest.approx(0.01)
