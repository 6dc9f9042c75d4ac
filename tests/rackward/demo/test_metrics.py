"""Figures derived from the measurements."""

from __future__ import annotations

import pytest

from rackward.demo.metrics import STEPS, steps_for
from rackward.measurement.assignments import (
    AssignmentSnapshot,
    cross_rack_bytes,
    moved_partitions,
    share,
    sum_matrices,
)
from tests.support.demo_results import (
    LEADER_RACKS,
    LOCAL,
    MEMBER_RACKS,
    TWO_OFF_RACK,
    demo_result,
    snapshot,
    traffic,
)


def test_off_rack_counts_partitions_led_in_another_known_rack() -> None:
    assert snapshot(LOCAL).off_rack == 0
    assert snapshot(TWO_OFF_RACK).off_rack == 2
    assert AssignmentSnapshot(MEMBER_RACKS, TWO_OFF_RACK, (None,) * 6).off_rack == 0


def test_an_unbalanced_assignment_is_not_optimal() -> None:
    assert snapshot(LOCAL).is_optimal
    assert not snapshot(TWO_OFF_RACK).is_optimal
    unbalanced = {"m-a": frozenset({0, 1, 3}), "m-b": frozenset({4}), "m-c": frozenset({2, 5})}
    assert not AssignmentSnapshot(
        MEMBER_RACKS, unbalanced, ("a", "a", "c", "a", "b", "c")
    ).is_optimal


@pytest.mark.parametrize(
    "assignment",
    [
        {"m-a": frozenset({0, 3}), "m-b": frozenset({1, 4}), "m-c": frozenset({2})},
        {"m-a": frozenset({0, 3}), "m-b": frozenset({1, 3}), "m-c": frozenset({2, 5})},
    ],
)
def test_balance_requires_exactly_one_reader_per_partition(
    assignment: dict[str, frozenset[int]],
) -> None:
    assert not AssignmentSnapshot(MEMBER_RACKS, assignment, LEADER_RACKS).is_balanced


def test_moved_counts_partitions_taken_from_members_that_stay() -> None:
    before = {"m-1": frozenset({0, 1}), "m-2": frozenset({2, 3}), "m-3": frozenset({4})}
    after = {"m-1": frozenset({0, 2}), "m-2": frozenset({3, 4, 1})}
    assert moved_partitions(before, after) == 2
    assert moved_partitions({}, before) == 0


def test_sums_of_matrices() -> None:
    assert cross_rack_bytes(traffic(5, 2)) == 12
    assert sum_matrices([{("a", "b"): 1}, {("a", "b"): 2, ("b", "b"): 3}]) == {
        ("a", "b"): 3,
        ("b", "b"): 3,
    }
    assert share(1, 0) is None


def test_a_strategy_sums_its_steps() -> None:
    other, *_, own = demo_result().strategies
    assert own.local_share == 1.0
    assert own.moved == 1
    assert own.revoked == 6
    assert other.total_bytes == 6 * (3 * 400_000 + 6 * 300_000)
    assert other.cross_rack_bytes == 6 * 6 * 300_000
    assert other.local_share == pytest.approx(0.4)
    assert other.widest_load_range == (2, 2)


def test_the_cost_of_a_month_at_the_measured_rate() -> None:
    other = demo_result().strategies[0]
    # 10.8 MB in 30 s is 0.36 MB/s, 946 GB in 730 hours.
    assert other.cost_per_month(30.0, 0.02) == pytest.approx(18.92, abs=0.01)


def test_optimality_concerns_rackward_s_strategies_after_rebalances() -> None:
    assert demo_result().is_optimal
    suboptimal = demo_result(suboptimal=True)
    assert not suboptimal.is_optimal
    assert [step.step.title for step in suboptimal.strategies[-1].suboptimal_steps] == [
        "all members start",
        "a member leaves",
        "a member joins",
    ]


def test_destructive_steps_run_only_on_the_demo_s_own_cluster() -> None:
    assert steps_for(own_cluster=True) == STEPS
    assert [step.title for step in steps_for(own_cluster=False)] == [
        "all members start",
        "a member leaves",
        "a member joins",
    ]
