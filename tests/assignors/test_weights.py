"""Weights as a mapping or as a function from topic to the traffic of its partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.weights import resolve_weights
from tests.support.random_groups import MIDDLE, random_group

ASSIGNORS = pytest.mark.parametrize(
    "assignor", [LeaderRackAwareRange, LeaderRackAwareCooperativeSticky], ids=["range", "sticky"]
)
MEMBERS = [Member(rack, frozenset({"t", "u"}), rack) for rack in "ab"]
LEADERS = {"t": ["a", "a"], "u": ["b", "b"]}


@ASSIGNORS
def test_a_function_gives_the_plan_of_the_mapping(assignor: Any) -> None:
    for number in range(40):
        group = random_group(f"weights-{number}", MIDDLE)
        weights = group.weights or {}
        expected = assignor().assign(group.members, group.leader_racks, weights)
        assert assignor().assign(group.members, group.leader_racks, weights.get) == expected


@ASSIGNORS
def test_a_function_is_called_once_for_each_subscribed_topic(assignor: Any) -> None:
    calls: list[str] = []

    def weights(topic: str) -> Sequence[float] | None:
        calls.append(topic)
        return [1.0, 50.0] if topic == "t" else None

    plan = assignor().assign(MEMBERS, {**LEADERS, "unsubscribed": ["a"]}, weights)
    assert sorted(calls) == ["t", "u"]
    assert sum(plan.loads.values()) == 4


@ASSIGNORS
def test_a_function_decides_which_partition_is_local(assignor: Any) -> None:
    def weights(topic: str) -> Sequence[float]:
        return {"t": [1.0, 50.0]}[topic]

    members = [Member(rack, frozenset({"t"}), rack) for rack in "ab"]
    plan = assignor().assign(members, {"t": ["a", "a"]}, weights)
    assert plan.partitions["a"] == {"t": [1]}


@ASSIGNORS
def test_errors_of_a_function_are_raised(assignor: Any) -> None:
    def weights(topic: str) -> Sequence[float]:
        raise LookupError(topic)

    with pytest.raises(LookupError, match="t"):
        assignor().assign(MEMBERS, LEADERS, weights)


@ASSIGNORS
@pytest.mark.parametrize("row", ["text", object(), [[1.0], [2.0, 3.0]], [10**400]])
def test_weights_that_are_not_numbers_count_as_unknown(assignor: Any, row: Any) -> None:
    expected = assignor().assign(MEMBERS, LEADERS, {"u": [1.0, 2.0]})
    plan = assignor().assign(MEMBERS, LEADERS, {"t": row, "u": [1.0, 2.0]})
    assert plan == expected


@ASSIGNORS
@pytest.mark.parametrize("hot", [1e6, 1e18, 1e300])
def test_a_hot_topic_does_not_flatten_the_others(assignor: Any, hot: float) -> None:
    """Each member reads four partitions: the heaviest of its rack are local."""
    members = [Member(rack, frozenset({"hot", "t"}), rack) for rack in "ab"]
    leaders = {"hot": ["a", "b"], "t": ["a"] * 6}
    row = [800.0, 1.0, 700.0, 1.0, 600.0, 1.0]
    plan = assignor().assign(members, leaders, {"hot": [hot] * 2, "t": row})
    assert plan.partitions["b"]["t"] == [1, 3, 5]
    assert plan.off_rack == plan.optimum == 3


def test_resolved_weights() -> None:
    assert resolve_weights(None, ["t"]) is None
    # One number is that of one partition.
    single = resolve_weights({"t": 2.0}, ["t"])  # type: ignore[dict-item]
    assert single is not None
    assert single["t"].tolist() == [2.0]
