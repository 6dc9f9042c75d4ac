"""The figures that follow from what was measured."""

from __future__ import annotations

import pytest

from rackward.demo.metrics import Standing, add, crossing, moved_between, share
from rackward.demo.steps import STORY, told
from tests.support.demo_results import ASTRAY, LEADERS, LOCAL, MEMBERS, matrix, result, standing


def test_off_rack_counts_known_leaders_elsewhere() -> None:
    assert standing(LOCAL).off_rack == 0
    assert standing(ASTRAY).off_rack == 2
    assert Standing(MEMBERS, ASTRAY, (None,) * 6).off_rack == 0


def test_the_optimum_needs_balance_too() -> None:
    assert standing(LOCAL).at_optimum
    assert not standing(ASTRAY).at_optimum
    lopsided = {"m-a": frozenset({0, 1, 3}), "m-b": frozenset({4}), "m-c": frozenset({2, 5})}
    assert not Standing(MEMBERS, lopsided, ("a", "a", "c", "a", "b", "c")).at_optimum


@pytest.mark.parametrize(
    "assignment",
    [
        {"m-a": frozenset({0, 3}), "m-b": frozenset({1, 4}), "m-c": frozenset({2})},
        {"m-a": frozenset({0, 3}), "m-b": frozenset({1, 3}), "m-c": frozenset({2, 5})},
    ],
)
def test_a_partition_without_a_reader_or_with_two_is_no_balance(
    assignment: dict[str, frozenset[int]],
) -> None:
    assert not Standing(MEMBERS, assignment, LEADERS).balanced


def test_moved_counts_what_staying_members_lost() -> None:
    before = {"m-1": frozenset({0, 1}), "m-2": frozenset({2, 3}), "m-3": frozenset({4})}
    after = {"m-1": frozenset({0, 2}), "m-2": frozenset({3, 4, 1})}
    assert moved_between(before, after) == 2
    assert moved_between({}, before) == 0


def test_matrices_add_and_cross() -> None:
    assert crossing(matrix(5, 2)) == 12
    assert add([{("a", "b"): 1}, {("a", "b"): 2, ("b", "b"): 3}]) == {
        ("a", "b"): 3,
        ("b", "b"): 3,
    }
    assert share(1, 0) is None


def test_a_run_adds_up_its_steps() -> None:
    theirs, *_, ours = result().strategies
    assert ours.local_share == 1.0
    assert ours.moved == 1
    assert ours.interrupted == 6
    assert theirs.total_bytes == 6 * (3 * 400_000 + 6 * 300_000)
    assert theirs.crossing_bytes == 6 * 6 * 300_000
    assert theirs.local_share == pytest.approx(0.4)
    assert theirs.loads == (2, 2)


def test_the_price_is_that_of_a_month_at_the_same_rate() -> None:
    theirs = result().strategies[0]
    # 10.8 MB in 30 s is 0.36 MB/s, 946 GB in 730 hours.
    assert theirs.monthly_price(30.0, 0.02) == pytest.approx(18.92, abs=0.01)


def test_only_our_groups_are_held_to_the_optimum_and_only_after_rebalances() -> None:
    assert result().at_optimum
    astray = result(ours_astray=True)
    assert not astray.at_optimum
    assert [step.step.title for step in astray.strategies[-1].short_of_optimum] == [
        "six members start",
        "a member leaves",
        "a member joins",
    ]


def test_a_cluster_that_is_not_ours_sees_only_members_come_and_go() -> None:
    assert told(own_cluster=True) == STORY
    assert [step.title for step in told(own_cluster=False)] == [
        "six members start",
        "a member leaves",
        "a member joins",
    ]
