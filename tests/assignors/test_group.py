"""Groups as arrays: owners, weights and assignments against their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import Member
from assignors.cooperative_sticky import _factorize
from assignors.encoding import _Names
from assignors.group import UNASSIGNED, Group, Members
from assignors.model import MAX_IMBALANCE, LeaderRacks, load_factor
from assignors.weights import round_weights, traffic_weights
from placement_core import common_levels, parse_rack
from tests.support.assignment_problems import exact_weights

LEADERS: LeaderRacks = {"t": ["a", "b", None, "a"], "u": ["b", "a"]}
RACKS = st.sampled_from(["a", "b", "/d/a", "/d/b", "/d", "/e/a/x", None, ""])

members = st.builds(
    Member,
    id=st.just(""),
    topics=st.sampled_from([frozenset("t"), frozenset("u"), frozenset("tu"), frozenset("tx")]),
    owned=st.dictionaries(st.sampled_from("tux"), st.lists(st.integers(-1, 4), max_size=4)),
    generation=st.sampled_from([-5, -1, 0, 1, 2, 2, (1 << 62) - 1, 1 << 62]),
)


def named(members: Sequence[Member]) -> list[Member]:
    """Return the members with ids that are not in order."""
    return [
        Member(
            f"m{len(members) - n}", each.topics, None, owned=each.owned, generation=each.generation
        )
        for n, each in enumerate(members)
    ]


def owner_of(members: Sequence[Member], topic: str, partition: int) -> str | None:
    """Return who owns a partition, by the definition of Group.owners."""
    claims: dict[int, set[str]] = {}
    for each in members:
        if partition in each.owned.get(topic, ()):
            possible = 0 <= each.generation < 1 << 62
            claims.setdefault(each.generation if possible else -1, set()).add(each.id)
    if not claims:
        return None
    latest = claims[max(claims)]
    [owner] = latest if len(latest) == 1 else [None]
    subscribed = any(each.id == owner and topic in each.topics for each in members)
    return owner if subscribed else None


@given(st.lists(members, min_size=1, max_size=5))
def test_the_claim_of_the_highest_generation_counts(drawn: list[Member]) -> None:
    joined = named(drawn)
    group = Group.of(joined, LEADERS)
    ids = [*group.members.ids, None]
    assert ids[:-1] == sorted(each.id for each in joined)
    owners = [ids[owner] for owner in group.owners().tolist()]
    assert UNASSIGNED == -1
    expected = [
        owner_of(joined, topic, partition)
        for topic in group.topics
        for partition in range(len(LEADERS[topic]))
    ]
    assert owners == expected
    for number, each in enumerate(group.members):
        assert each.id == ids[number]
        assert group.subscribed[:, group.subscription[number]].tolist() == [
            topic in each.topics for topic in group.topics
        ]


def test_generation_zero_is_later_than_none() -> None:
    joined = [
        Member("m1", frozenset("t"), owned={"t": [0, 1]}, generation=0),
        Member("m2", frozenset("t"), owned={"t": [1, 2]}, generation=-1),
    ]
    assert Group.of(joined, LEADERS).owners().tolist() == [0, 0, 1, -1]


def test_members_are_read_back_from_columns() -> None:
    """Without claims that cannot be partitions."""
    owned: Any = {"t": [2, "x", 0], "absent": [1], "u": None}
    joined = [Member("m2", frozenset("tu"), "b", "static", owned, 7), Member("m1", frozenset())]
    members = Members.of(joined)
    assert list(members) == [
        Member("m1", frozenset()),
        Member("m2", frozenset("tu"), "b", "static", {"t": [2, 0], "absent": [1]}, 7),
    ]
    assigned = Group.of(members, LEADERS).assignment(np.array([-1, 1, 1, -1, 1, -1]))
    assert [each.owned for each in members.owning(assigned)] == [{}, {"t": [1, 2], "u": [0]}]


def test_members_are_a_sequence() -> None:
    joined = named([Member("", frozenset("t"))] * 3)
    columns = Members.of(joined)
    assert [each.id for each in columns[:2]] == ["m1", "m2"]
    assert columns[-1].id == "m3"
    assert len(columns) == 3
    with pytest.raises(IndexError):
        columns[3]


@given(st.lists(RACKS, min_size=1, max_size=5), st.lists(RACKS, min_size=1, max_size=5))
def test_levels_between_members_and_leaders(of_leaders: list[str], of_members: list[str]) -> None:
    joined = [Member(f"m{n}", frozenset("t"), rack) for n, rack in enumerate(of_members)]
    group = Group.of(joined, {"t": of_leaders})
    paths = [parse_rack(rack) for rack in of_leaders]
    depth = max((len(path) for path in paths if path), default=1)
    assert group.depth == depth
    for number, rack in enumerate(of_members):
        path = parse_rack(rack)
        expected = []
        for leader in paths:
            # No leader's rack has levels below the depth.
            if leader is None or (path and path[:depth] == leader):
                expected.append(0)
            else:
                expected.append(depth - (common_levels(leader, path[:depth]) if path else 0))
        assigned = np.full(len(of_leaders), number)
        assert group.levels_crossed(assigned).tolist() == expected
        counts = np.bincount(expected, minlength=depth + 1)
        crossings = [int(counts[depth - level :].sum()) for level in range(depth)]
        assert group.crossings(assigned).tolist() == crossings


any_floats = st.floats(allow_nan=True) | st.floats(min_value=0, max_value=10)


@given(st.lists(any_floats, min_size=1, max_size=6))
def test_weights_of_small_groups_are_exact(weights: list[float]) -> None:
    converted = round_weights(np.array(weights, np.float64))
    units = [int(each) for each in converted.of_partition]
    cells = [("t", number) for number in range(len(weights))]
    assert converted.units.tolist() == sorted(set(units), reverse=True)
    assert tuple(units) == exact_weights(cells, {"t": weights})


@pytest.mark.parametrize(("partitions", "error"), [(1_001, 0.001), (10_001, 0.008)])
@pytest.mark.parametrize("sigma", [0, 1, 3, 30])
def test_weights_of_large_groups_have_a_relative_error(
    partitions: int, error: float, sigma: int
) -> None:
    weights = np.random.default_rng(sigma).lognormal(0, sigma, partitions)
    converted = round_weights(weights)
    units = converted.of_partition
    scale = Fraction(weights[0]) / int(units[0])
    for weight, unit in zip(weights.tolist(), units.tolist(), strict=True):
        assert abs(Fraction(weight) / (unit * scale) - 1) <= 2.01 * error
    assert len(converted.units) < partitions or sigma > 3
    everything = np.ones(partitions, bool)
    assert converted.total(everything) == sum(units.tolist())


def test_weights_are_whole_units() -> None:
    assert round_weights(np.array([0.5, 1.0, 1.5])).of_partition.tolist() == [1, 2, 3]
    # What is missing counts as the mean of the others.
    assert round_weights(np.array([5.0, 10.0, np.nan])).of_partition.tolist() == [2, 4, 3]
    # What has no traffic weighs less than any difference between the others.
    assert round_weights(np.array([1.0, 0.0, 2.0, 0.0])).of_partition.tolist() == [3, 1, 6, 1]
    assert round_weights(np.zeros(3)).of_partition.tolist() == [1, 1, 1]


def test_weights_are_those_of_the_partitions_of_each_topic() -> None:
    group = Group.of([Member("m", frozenset("tu"))], LEADERS)
    weights = traffic_weights(group, {"u": [1.0, 2.0, 9.0], "t": [4.0, 2.0]})
    # What is missing counts as the mean of the others, what is too much does not count.
    assert weights.of_partition.tolist() == [16, 8, 9, 9, 4, 8]


def test_many_racks_and_racks_that_are_no_strings() -> None:
    racks = [f"r{number:03}" for number in range(300)]
    group = Group.of([Member("m", frozenset("t"), "r299")], {"t": racks[::-1]})
    assert group.levels_crossed(np.zeros(300, np.int64)).tolist() == [0, *[1] * 299]
    odd: Any = {"t": ["a", ["a"], None, "b"]}
    group = Group.of([Member("m", frozenset("t"), "a")], odd)
    assert group.levels_crossed(np.zeros(4, np.int64)).tolist() == [0, 0, 0, 1]
    assert (group.leader_rack > 0).tolist() == [True, False, False, True]


def plain_group() -> Group:
    joined = [Member("m1", frozenset("tu"), "a"), Member("m2", frozenset("t"), "b")]
    return Group.of(joined, LEADERS)


def test_assignments_are_encoded_and_decoded() -> None:
    group = plain_group()
    # Partition 1 of t is assigned twice; m2 does not subscribe to u; t has no partition 9.
    assigned = {"m1": {"t": [0, 1], "u": [1]}, "m2": {"t": [1, 3, 9], "u": [0]}, "x": {"t": [2]}}
    assert group.members_of(assigned).tolist() == [0, -1, -1, 1, -1, 0]
    own = group.assignment(np.array([0, 1, 1, 1, 0, 0]))
    assert group.members_of(own).tolist() == group.members_of(dict(own)).tolist()
    other = Group.of([Member("m1", frozenset("t"))], LEADERS)
    assert other.members_of(own).tolist() == [0, -1, -1, -1]
    owner = np.array([0, -1, 1, 0, 0, 0])
    plan = group.plan(np.array([0, 1, 1, 1, 0, 0]), owner, optimality_gap=1)
    assert plan.partitions == {"m1": {"t": [0], "u": [0, 1]}, "m2": {"t": [1, 2, 3]}}
    assert (plan.off_rack, plan.crossings, plan.optimum, plan.moved) == (2, (2,), 1, 1)
    assert plan.loads == {"m1": 3, "m2": 3}


def test_topics_of_the_same_subscribers_are_one_class() -> None:
    joined = [Member("m1", frozenset("abc")), Member("m2", frozenset("bd"))]
    class_of, subscribed = Group.of(joined, {t: ["a"] for t in "abcd"}).topic_classes()
    assert class_of.tolist() == [0, 1, 0, 2]
    assert subscribed.tolist() == [[True, False], [True, True], [False, True]]


@given(st.lists(st.integers(0, 30), min_size=1), st.sampled_from([31, 1 << 40]))
def test_keys_are_numbered_in_order(keys: list[int], bound: int) -> None:
    distinct, index, counts = _factorize(np.array(keys), bound)
    assert distinct.tolist() == sorted(set(keys))
    assert distinct[index].tolist() == keys
    assert counts.tolist() == [keys.count(key) for key in sorted(set(keys))]


@pytest.mark.parametrize("length", range(1, 20))
def test_names_that_differ_in_one_byte_are_told_apart(length: int) -> None:
    names = [b"x" * at + b"y" + b"x" * (length - at - 1) for at in range(length)]
    known = _Names.of([*names, b"x" * (length + 1)])
    sought = _Names.of([b"x" * length, *names[::-1], b"x" * (length + 1)])
    assert known.find(sought).tolist() == [-1, *range(length)[::-1], length]
    assert _Names.of([]).find(sought).tolist() == [-1] * (length + 2)


def test_the_largest_max_imbalance_is_permitted() -> None:
    assert load_factor(MAX_IMBALANCE) == 1 + MAX_IMBALANCE
    assert load_factor(0) == 1
