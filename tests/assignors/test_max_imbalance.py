"""``max_imbalance``: the two cases of KAFKA-17755, exact limits, and groups without racks."""

from __future__ import annotations

from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.model import load_factor
from tests.support.assignments import check_range, check_sticky
from tests.support.random_groups import Group

TOPIC = frozenset({"t"})


def one_per_rack(racks: str, leaders: str, max_imbalance: float) -> Group:
    """Return a group with one member per letter of ``racks``, named after it."""
    members = tuple(Member(rack, TOPIC, rack=rack) for rack in racks)
    return Group(members, {"t": list(leaders)}, max_imbalance=max_imbalance)


@pytest.mark.parametrize(
    ("share", "off_rack", "loads"),
    [(0.0, 2, [3, 3, 3]), (0.25, 2, [3, 3, 3]), (0.5, 1, [4, 2, 3]), (1.0, 0, [5, 2, 2])],
)
def test_a_rack_with_surplus_leaders(share: float, off_rack: int, loads: list[int]) -> None:
    group = one_per_rack("abc", "aaaaabbcc", share)
    for plan in (check_sticky(group), check_range(group)):
        assert plan.off_rack == off_rack
        assert plan.loads["a"] == loads[0]
        assert sorted(plan.loads.values()) == sorted(loads)


def test_only_the_component_that_may_exceed_its_level_changes() -> None:
    # A quarter more than level 2 is no whole partition, so 2, 1, 1 stays although 2, 2, 0 would
    # be local; a quarter more than level 4 is one.
    members = (
        Member("s1", frozenset({"small"}), rack="a"),
        Member("s2", frozenset({"small"}), rack="a"),
        Member("s3", frozenset({"small"}), rack="b"),
        Member("l1", frozenset({"large"}), rack="a"),
        Member("l2", frozenset({"large"}), rack="b"),
    )
    leaders = {"small": ["a"] * 4, "large": ["a"] * 8}
    plan = check_sticky(Group(members, leaders, max_imbalance=0.25))
    assert sorted(plan.loads[member] for member in ("s1", "s2", "s3")) == [1, 1, 2]
    assert (plan.loads["l1"], plan.loads["l2"]) == (5, 3)
    assert plan.off_rack == 1 + 3


def test_a_limit_applies_to_the_level_of_the_members_own_block() -> None:
    # The crowded member joins two blocks into one component, and is a separate block: the rest
    # consists of a block of level 1 (two for two) and one of level 2 (three for two).
    members = (
        Member("crowded", frozenset({"one", "two", "many"}), rack="z"),
        Member("one-a", frozenset({"one"}), rack="a"),
        Member("one-b", frozenset({"one"}), rack="b"),
        Member("two-a", frozenset({"two"}), rack="a"),
        Member("two-b", frozenset({"two"}), rack="b"),
    )
    leaders = {"one": ["a"] * 2, "two": ["a"] * 3, "many": ["z"] * 20}
    plan = check_sticky(Group(members, leaders, max_imbalance=0.5))
    assert plan.loads == {"crowded": 20, "one-a": 1, "one-b": 1, "two-a": 3, "two-b": 0}


def test_the_limit_of_every_load_and_hundredth_is_exact() -> None:
    # In floats, int(100 * (1 + 0.15)) is 114.
    for hundredths in range(301):
        factor = load_factor(hundredths / 100)
        for load in range(1, 201):
            assert int(load * factor) == load * (100 + hundredths) // 100


@pytest.mark.parametrize("share", [0.15, 0.1 + 0.05])
@pytest.mark.parametrize(
    "assignor", [LeaderRackAwareRange, LeaderRackAwareCooperativeSticky], ids=["range", "sticky"]
)
def test_a_member_is_filled_to_the_exact_limit(assignor: Any, share: float) -> None:
    members = [Member("a", TOPIC, rack="a"), Member("b", TOPIC, rack="b")]
    plan = assignor(max_imbalance=share).assign(members, {"t": ["a"] * 200})
    assert plan.loads == {"a": 115, "b": 85}
