"""Groups as arrays: owners, weights and assignments against their definitions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.cooperative_sticky import _factorize
from assignors.encoding import _Names, encode_assignment
from assignors.group import UNASSIGNED, AssignedPartitions, Claims, Group, Members
from assignors.model import LeaderRacks
from assignors.weights import round_weights, traffic_weights
from placement_core import common_levels, parse_rack
from tests.support.assignment_problems import exact_weights
from tests.support.kafka_python import assignment_bytes

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


# ---- Assignments in arrays: equal to the dictionary of the same contents, and their bytes.

Lists = dict[str, dict[str, list[int]]]

TOPICS = ["t", "naïve", "a-longer-name"]


@st.composite
def assignments(draw: st.DrawFn) -> tuple[AssignedPartitions, Lists]:
    """Return an assignment, and the dictionary of its contents made one by one."""
    ids = [f"m{number}" for number in range(draw(st.integers(0, 4)))]
    sizes = [draw(st.integers(0, most)) for most in (5, 2, 9)]
    base = np.append(0, np.cumsum(sizes))
    member = st.integers(UNASSIGNED, len(ids) - 1)
    assigned = draw(st.lists(member, min_size=sum(sizes), max_size=sum(sizes)))
    lists: Lists = {member_id: {} for member_id in ids}
    for t, topic in enumerate(TOPICS):
        for number in range(sizes[t]):
            owner = assigned[base[t] + number]
            if owner != UNASSIGNED:
                lists[ids[owner]].setdefault(topic, []).append(number)
    return AssignedPartitions(ids, TOPICS, base, np.array(assigned, np.int64)), lists


@given(assignments())
def test_an_assignment_is_like_the_dictionary_of_its_contents(
    case: tuple[AssignedPartitions, Lists],
) -> None:
    partitions, lists = case
    assert partitions == lists
    assert lists == partitions
    assert (repr(partitions), list(partitions), len(partitions)) == (
        repr(lists),
        list(lists),
        len(lists),
    )
    for twin in (pickle.loads(pickle.dumps(partitions)), copy.deepcopy(partitions)):
        assert isinstance(twin, AssignedPartitions)
        assert twin == partitions
    assert partitions != {**lists, "other": {}}
    assert partitions.get("other") is None
    assert "other" not in partitions
    with pytest.raises(TypeError):
        hash(partitions)


@given(assignments())
def test_bytes_are_those_of_kafka_python(case: tuple[AssignedPartitions, Lists]) -> None:
    partitions, lists = case
    encoded = encode_assignment(partitions)
    assert encoded == {member: assignment_bytes(topics) for member, topics in lists.items()}
    assert list(encoded) == list(lists)


def test_the_worked_layout() -> None:
    partitions = AssignedPartitions(
        ["m1", "m2"], ["t", "u"], np.array([0, 3, 9]), np.array([0, -1, 0] + [-1] * 5 + [1])
    )
    assert encode_assignment(partitions) == {
        "m1": bytes.fromhex("0000 00000001 000174 00000002 00000000 00000002 ffffffff"),
        "m2": bytes.fromhex("0000 00000001 000175 00000001 00000005 ffffffff"),
    }


def test_the_partitions_of_a_plan() -> None:
    members = [Member("a", frozenset({"t"}), "x"), Member("b", frozenset({"t"}), "y")]
    plan = LeaderRackAwareCooperativeSticky().assign(members, {"t": ["y", "x", "x", "y"]})
    expected: Mapping[str, Mapping[str, list[int]]] = {"a": {"t": [1, 2]}, "b": {"t": [0, 3]}}
    assert plan.partitions == expected
    assert pickle.loads(pickle.dumps(plan)) == plan
    plan.partitions["a"]["t"].append(9)
    assert plan.partitions["a"] == {"t": [1, 2, 9]}


def test_claims_that_cannot_be_partitions_are_left_out() -> None:
    odd: Any = [{"t": [1, "x", 0, 2.0, -1, 1 << 31, np.int32(7)], "u": None}, {"t": [1 << 70, 3]}]
    assert Claims.of(odd).keys("ab") == [("a", "t", 1), ("a", "t", 0), ("a", "t", 7), ("b", "t", 3)]
    assert Claims.of([]).keys("") == Claims.of([{"t": []}, {}]).keys("ab") == []


def test_claims_are_found_in_the_row() -> None:
    claims = Claims.of([{"u": [2, 4, 0], "t": [0, 2, -1]}, {}, {"t": [1], "absent": [0]}])
    # The row has two partitions of t, then three of u.
    rows = claims.rows(["t", "u"], np.array([0, 2, 5]))
    assert rows.tolist() == [4, -1, 2, 0, -1, -1, 1, -1]
    expected = [("a", "u", 2), ("a", "u", 0), ("a", "t", 0), ("c", "t", 1)]
    assert claims.where(rows >= 0).keys("abc") == expected
