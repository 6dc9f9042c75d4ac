"""One unit of a higher rank outweighs any amount of the ranks below it.

Random groups seldom need a long chain of exchanges to save a single crossing. A ring does:
topic i has one partition and two subscribers, members i and i + 1, so that there are just
two balanced plans, all to the left or all to the right, and to change one is to change all.
"""

from __future__ import annotations

import pytest

from assignors import Member
from tests.support.assignment_exact import check_range, check_sticky
from tests.support.random_groups import Group

LENGTHS = [2, 3, 4, 7, 16, 40, 90]


def ring(
    length: int, racks: list[str], leaders: list[str], weights: list[float] | None = None
) -> Group:
    """A ring in which every member i owns the partition of topic i."""
    names = [f"t{i:03}" for i in range(length)]
    members = tuple(
        Member(
            f"m{i:03}",
            frozenset({names[i], names[i - 1]}),
            rack=racks[i],
            owned={names[i]: [0]},
            generation=1,
        )
        for i in range(length)
    )
    return Group(
        members,
        {name: [leader] for name, leader in zip(names, leaders, strict=True)},
        None if weights is None else {n: [w] for n, w in zip(names, weights, strict=True)},
    )


@pytest.mark.parametrize("length", LENGTHS)
def test_one_crossing_saved_is_worth_moving_every_partition(length: int) -> None:
    racks = [f"r{i}" for i in range(length)]
    # Only the first topic's leader is in anyone's rack: that of the member after it.
    plan = check_sticky(ring(length, racks, [racks[1], *["far"] * (length - 1)]))
    assert (plan.off_rack, plan.moved) == (length - 1, length)


@pytest.mark.parametrize("length", LENGTHS)
def test_nothing_saved_is_worth_no_move(length: int) -> None:
    racks = [f"r{i}" for i in range(length)]
    plan = check_sticky(ring(length, racks, [racks[1], "far", *racks[2:]][:length]))
    assert plan.moved == (0 if length > 2 else 2)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_one_wide_crossing_saved_is_worth_all_the_narrow_ones(length: int) -> None:
    # To the left all but one are in their own rack and one in the other data centre;
    # to the right every one is in the data centre, and none in its rack.
    racks = [f"/dc1/r{i}" for i in range(length)]
    racks[0] = "/dc2/r0"
    leaders = [f"/dc1/r{i}" for i in range(length)]
    leaders[-1] = "/dc2/other"
    leaders[0] = "/dc1/nobody"
    plan = check_sticky(ring(length, racks, leaders))
    assert (plan.crossings, plan.moved) == ((0, length), length)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_one_step_of_weight_is_worth_moving_every_partition(length: int) -> None:
    racks = ["a", "b"] + [f"r{i}" for i in range(2, length)]
    # Member 0 can have topic 0 and the last; both end topics are local to one plan each.
    leaders = ["b", *["far"] * (length - 2), "a"]
    weights = [50.0, *[100.0] * (length - 2), 51.0]
    assert check_sticky(ring(length, racks, leaders, weights)).moved == length
    leaders[0] = "a"
    weights[0] = 52.0
    assert check_sticky(ring(length, racks, leaders, weights)).moved == 0


@pytest.mark.parametrize("count", [5, 60, 400])
def test_in_a_range_one_crossing_is_worth_any_difference_of_totals(count: int) -> None:
    # `first` has a topic of its own; the only odd index of the shared one is local to it.
    members = (
        Member("first", frozenset({"alone", "shared"}), rack="a"),
        Member("other", frozenset({"shared"}), rack="b"),
    )
    leaders = {"alone": ["a"] * count, "shared": ["a", "a", "b"]}
    plan = check_range(Group(members, leaders))
    assert plan.off_rack == 0
    assert plan.loads == {"first": count + 2, "other": 1}


@pytest.mark.parametrize("members", [3, 12, 40])
def test_with_max_imbalance_one_crossing_is_worth_any_difference_of_loads(members: int) -> None:
    racks = ["a", *["b"] * (members - 1)]
    group = Group(
        tuple(Member(f"m{i:02}", frozenset({"t"}), rack) for i, rack in enumerate(racks)),
        {"t": ["a"] * (4 * members)},
        max_imbalance=3.0,
    )
    for plan in (check_sticky(group), check_range(group)):
        assert plan.loads["m00"] == min(16, 4 * members)
