"""Assignments in arrays: equal to the dictionary of the same contents, and their bytes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import LeaderRackAwareCooperativeSticky, Member
from assignors.encoding import encode_assignment
from assignors.group import UNASSIGNED, AssignedPartitions, Claims
from tests.support.kafka_python import assignment_bytes

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
