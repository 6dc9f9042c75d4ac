"""One unit of a higher-ranked objective outweighs any amount of the objectives below.

Random groups seldom need a long chain of exchanges to save one crossing. A ring does: topic i has
one partition and two subscribers, members i and i + 1, so there are two balanced plans, in which
every partition has a different member.
"""

from __future__ import annotations

import pytest

from assignors import Member
from tests.support.assignments import check_range, check_sticky
from tests.support.random_groups import Group

LENGTHS = [2, 3, 4, 7, 16, 40, 90]


def ring(
    length: int, racks: list[str], leaders: list[str], weights: list[float] | None = None
) -> Group:
    """Return a ring in which every member i owns the partition of topic i."""
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
def test_one_crossing_outweighs_moving_every_partition(length: int) -> None:
    racks = [f"r{i}" for i in range(length)]
    # Only the first topic's leader is in a member's rack: that of the next member.
    plan = check_sticky(ring(length, racks, [racks[1], *["far"] * (length - 1)]))
    assert (plan.off_rack, plan.moved) == (length - 1, length)


@pytest.mark.parametrize("length", LENGTHS)
def test_no_partition_moves_if_no_crossing_is_saved(length: int) -> None:
    racks = [f"r{i}" for i in range(length)]
    plan = check_sticky(ring(length, racks, [racks[1], "far", *racks[2:]][:length]))
    assert plan.moved == (0 if length > 2 else 2)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_one_wide_crossing_outweighs_all_narrow_ones(length: int) -> None:
    # In one plan all but one partition are local and one crosses data centres; in the other none
    # crosses data centres and none is local.
    racks = [f"/dc1/r{i}" for i in range(length)]
    racks[0] = "/dc2/r0"
    leaders = [f"/dc1/r{i}" for i in range(length)]
    leaders[-1] = "/dc2/other"
    leaders[0] = "/dc1/none"
    plan = check_sticky(ring(length, racks, leaders))
    assert (plan.crossings, plan.moved) == ((0, length), length)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_one_step_of_weight_outweighs_moving_every_partition(length: int) -> None:
    racks = ["a", "b"] + [f"r{i}" for i in range(2, length)]
    # Member 0 subscribes to topic 0 and to the last, each of which is local in one plan.
    leaders = ["b", *["far"] * (length - 2), "a"]
    weights = [50.0, *[100.0] * (length - 2), 51.0]
    assert check_sticky(ring(length, racks, leaders, weights)).moved == length
    leaders[0] = "a"
    weights[0] = 52.0
    assert check_sticky(ring(length, racks, leaders, weights)).moved == 0


@pytest.mark.parametrize("count", [5, 60, 400])
def test_range_crossing_outweighs_difference_of_totals(count: int) -> None:
    # `first` has a separate topic, and the third index of the shared topic is local to it.
    members = (
        Member("first", frozenset({"alone", "shared"}), rack="a"),
        Member("other", frozenset({"shared"}), rack="b"),
    )
    leaders = {"alone": ["a"] * count, "shared": ["a", "a", "b"]}
    plan = check_range(Group(members, leaders))
    assert plan.off_rack == 0
    assert plan.loads == {"first": count + 2, "other": 1}


@pytest.mark.parametrize("members", [3, 12, 40])
def test_uneven_crossing_outweighs_difference_of_loads(members: int) -> None:
    racks = ["a", *["b"] * (members - 1)]
    group = Group(
        tuple(Member(f"m{i:02}", frozenset({"t"}), rack) for i, rack in enumerate(racks)),
        {"t": ["a"] * (4 * members)},
        max_imbalance=3.0,
    )
    for plan in (check_sticky(group), check_range(group)):
        assert plan.loads["m00"] == min(16, 4 * members)
