"""Unusual input: no data of a member, topic or broker makes an assignment fail.

Only invalid arguments of the caller raise, and then a RackwardError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member, Plan
from placement_core import InvalidGroupError, InvalidOptionError
from tests.support.assignments import check_plan

TOPIC = frozenset({"t"})
ASSIGNORS = (LeaderRackAwareRange, LeaderRackAwareCooperativeSticky)
AssignorClass = Callable[..., Any]

OWNED: dict[str, Any] = {
    "negative": [-1, -(2**63), -(2**80)],
    "huge": [2**31, 2**63, 2**80],
    "strings": ["0", "", "x"],
    "none": [None],
    "floats": [0.0, 1.5, float("nan"), float("inf")],
    "containers": [[0], (1,), {}],
    "repeated": [0, 0, 1, 1, 0],
    "a tuple": (0, 1),
    "a range": range(3),
    "empty": [],
}
RACKS: dict[str, Any] = {
    "empty": "",
    "slash": "/",
    "slashes": "///",
    "blank": " ",
    "bytes": b"a",
    "number": 7,
    "long": "r" * 10_000,
    "deep": "/" + "/".join("abcdefghij"),
    "not ascii": "räck-\u4e00\U0001f600",
    "lone surrogate": "\ud800",
    "line end": "a\n\x00b",
}


def checked_plan(assignor: AssignorClass, members: list[Member], leaders: Any, **more: Any) -> Plan:
    """Return the plan after checking it."""
    plan: Plan = assignor().assign(members, leaders, **more)
    check_plan(members, leaders, plan, more.get("weights"))
    return plan


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("case", OWNED)
def test_unusual_claims(assignor: AssignorClass, case: str) -> None:
    members = [
        Member("m1", TOPIC, rack="a", owned={"t": OWNED[case], "u": [0]}, generation=2),
        Member("m2", TOPIC, rack="b", owned={"t": [1, 2]}, generation=1),
    ]
    checked_plan(assignor, members, {"t": ["a", "b", "c", None]})


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("case", RACKS)
def test_unusual_racks_of_members_and_leaders(assignor: AssignorClass, case: str) -> None:
    members = [Member("m1", TOPIC, rack=RACKS[case]), Member("m2", TOPIC, rack="a")]
    checked_plan(assignor, members, {"t": ["a", RACKS[case], None, "b"]})


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("id_", ["", " ", "ä", "\ud800", "m" * 1000, "\x00"])
def test_unusual_names(assignor: AssignorClass, id_: str) -> None:
    members = [
        Member(id_, frozenset({"t", id_}), rack="a", instance_id=id_),
        Member("m", frozenset({"t"}), rack="b", instance_id=""),
    ]
    checked_plan(assignor, members, {"t": ["a", "b", "b"], id_: ["b", "a"]})


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize(
    "weight", [0.0, -0.0, -1.0, 5e-324, 1e308, float("nan"), float("inf"), float("-inf"), 10**30]
)
def test_unusual_weights(assignor: AssignorClass, weight: float) -> None:
    members = [Member("m1", TOPIC, rack="a"), Member("m2", TOPIC, rack="b")]
    leaders = {"t": ["a", "a", "a", "b"]}
    for row in ([weight], [weight] * 4, [weight, 1.0], [1.0, weight, 2.0, weight, weight]):
        checked_plan(assignor, members, leaders, weights={"t": row})
        checked_plan(assignor, members, leaders, weights={"t": row, "gone": [weight]})


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_empty_unknown_and_unsubscribed_topics(assignor: AssignorClass) -> None:
    members = [
        Member("none", frozenset()),
        Member("unknown", frozenset({"gone"}), rack="a", owned={"gone": [0]}, generation=1),
        Member("empty", frozenset({"empty"}), rack="b"),
        Member("some", frozenset({"t", "empty", "gone"}), rack="b"),
    ]
    plan = checked_plan(assignor, members, {"empty": [], "t": ["a", "b"], "unread": ["a"]})
    assert plan.partitions == {
        "none": {},
        "unknown": {},
        "empty": {},
        "some": {"t": [0, 1]},
    }
    assert checked_plan(assignor, members, {}).loads == dict.fromkeys(plan.partitions, 0)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_may_be_a_generator_and_rows_tuples(assignor: AssignorClass) -> None:
    def members() -> Iterator[Member]:
        yield Member("m1", TOPIC, rack="a")
        yield Member("m2", TOPIC, rack="b")

    plan = assignor().assign(members(), {"t": ("a", "b")})
    assert plan.partitions == {"m1": {"t": [0]}, "m2": {"t": [1]}}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_two_members_with_one_id_raise(assignor: AssignorClass) -> None:
    members = [Member("twin", TOPIC, rack="a"), Member("m", TOPIC), Member("twin", TOPIC)]
    with pytest.raises(InvalidGroupError, match="twin"):
        assignor().assign(members, {"t": ["a"]})


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("share", [-0.1, -1, 3.5, float("nan"), float("inf"), "much", None])
def test_a_max_imbalance_out_of_range_raises(assignor: AssignorClass, share: Any) -> None:
    with pytest.raises(InvalidOptionError, match="max_imbalance"):
        assignor(max_imbalance=share)
