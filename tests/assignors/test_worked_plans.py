"""Small groups with known plans: those of KIP-881, and Apache's Range for groups without racks.

In KIP-881, members are in racks a, b and c, and the leader of partition i of a topic is in rack
(i + partitions of the topics before) mod 3.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from assignors import (
    LeaderRackAwareCooperativeSticky,
    LeaderRackAwareRange,
    LeaderRacks,
    Member,
    Plan,
)
from assignors.model import load_factor
from tests.support.assignments import check_range, check_sticky
from tests.support.random_groups import Group, random_leaders

ALL = ("t0", "t1", "t2")
FIRST_AND_THIRD = ("t0", "t2")


def kip_881(*counts: int, third: tuple[str, ...] = ALL, racks: str = "abc") -> Group:
    """Return three members, the third subscribed to ``third``, and leaders in a, b, c in turn."""
    leader_racks: dict[str, list[str | None]] = {}
    placed = 0
    for topic, count in zip(ALL, counts, strict=True):
        leader_racks[topic] = ["abc"[(placed + i) % 3] for i in range(count)]
        placed += count
    subscriptions = (ALL, ALL, third)
    members = tuple(
        Member(f"m{i}", frozenset(subscriptions[i]), rack=rack) for i, rack in enumerate(racks)
    )
    return Group(members, leader_racks)


@pytest.mark.parametrize(
    ("group", "by_range", "by_sticky"),
    [
        pytest.param(kip_881(6, 7, 2), 0, 0, id="all subscribe to all"),
        pytest.param(kip_881(6, 7, 2, third=FIRST_AND_THIRD), 2, 4, id="one topic of two"),
        pytest.param(kip_881(5, 5, 5), 10, 0, id="co-partitioned"),
        pytest.param(
            kip_881(5, 5, 5, third=FIRST_AND_THIRD), 9, 4, id="co-partitioned, one topic of two"
        ),
    ],
)
def test_at_most_as_many_off_rack_as_kip_881_expects(
    group: Group, by_range: int, by_sticky: int
) -> None:
    assert check_range(group).off_rack <= by_range
    assert check_sticky(group).off_rack <= by_sticky


@pytest.mark.parametrize("rackless", ["members", "leaders"])
def test_range_without_racks_equals_apaches_range(rackless: str) -> None:
    group = kip_881(6, 7, 2)
    members = [Member(m.id, m.topics) if rackless == "members" else m for m in group.members]
    leaders = {
        topic: [None if rackless == "leaders" else rack for rack in row]
        for topic, row in group.leader_racks.items()
    }
    plan = LeaderRackAwareRange().assign(members, leaders)
    assert plan.partitions == {
        "m0": {"t0": [0, 1], "t1": [0, 1, 2], "t2": [0]},
        "m1": {"t0": [2, 3], "t1": [3, 4], "t2": [1]},
        "m2": {"t0": [4, 5], "t1": [5, 6]},
    }


def test_static_members_come_first_by_instance_id() -> None:
    members = [
        Member("m0", frozenset({"t0"})),
        Member("m1", frozenset({"t0"}), instance_id="i-b"),
        Member("m2", frozenset({"t0"}), instance_id="i-a"),
        Member("a9", frozenset({"t0"})),
    ]
    plan = LeaderRackAwareRange().assign(members, {"t0": [None] * 6})
    assert plan.partitions == {
        "m2": {"t0": [0, 1]},
        "m1": {"t0": [2, 3]},
        "a9": {"t0": [4]},
        "m0": {"t0": [5]},
    }


def test_topics_are_assigned_together_or_separately() -> None:
    # Index 0 is local to a in one topic and to b in the other.
    members = [Member(rack, frozenset({"t0", "t1"}), rack=rack) for rack in "ab"]
    leaders = {"t0": ["a", "b"], "t1": ["b", "a"]}
    together = LeaderRackAwareRange().assign(members, leaders)
    assert together.off_rack == 2
    assert together.partitions["a"]["t0"] == together.partitions["a"]["t1"]
    separate = LeaderRackAwareRange(co_partitioned=False).assign(members, leaders)
    assert separate.off_rack == 0
    assert separate.partitions["a"] == {"t0": [0], "t1": [1]}


def test_range_balances_totals_among_equally_local_plans() -> None:
    # Three indexes over two members, twice: the second topic's extra goes to the other member.
    members = [
        Member("a1", frozenset({"t0", "t1"}), "a"),
        Member("a2", frozenset({"t0", "t1"}), "a"),
    ]
    leaders = {"t0": ["a", "a", "b"], "t1": ["a", "b", "b", "b", "a"]}
    plan = check_range(Group(tuple(members), leaders))
    assert plan.loads == {"a1": 4, "a2": 4}


# ---- ``max_imbalance``: the two cases of KAFKA-17755, exact limits, and groups without racks.

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


# ---- Within what the objectives leave open, each topic is spread over the members.
#
# This is the only property that is not exact. The bounds here are exceeded by far by a plan that
# assigns contiguous partitions of a topic to one member.


def max_partitions(plan: Plan, topic: str) -> int:
    """Return the maximum number of a topic's partitions that one member has."""
    return max(len(topics.get(topic, [])) for topics in plan.partitions.values())


def members_of(count: int, leaders: LeaderRacks, racks: str) -> list[Member]:
    """Return members that subscribe to all topics, in racks in turn."""
    topics = frozenset(leaders)
    return [Member(f"m-{i:02}", topics, rack=racks[i % len(racks)]) for i in range(count)]


@pytest.mark.parametrize(
    ("members", "topics", "partitions"), [(6, 12, 30), (10, 5, 7), (12, 40, 3), (12, 3, 120)]
)
def test_topic_is_spread_evenly_over_members_of_one_rack(
    members: int, topics: int, partitions: int
) -> None:
    leaders = random_leaders(Random(1), topics, partitions, "a")
    group = members_of(members, leaders, "a")
    plan = LeaderRackAwareCooperativeSticky().assign(group, leaders)
    for topic in leaders:
        assert max_partitions(plan, topic) <= -(-partitions // members)


@pytest.mark.parametrize("seed", range(5))
def test_over_three_racks_no_member_has_twice_its_even_share(seed: int) -> None:
    leaders = random_leaders(Random(seed), 6, 60, "abc")
    group = members_of(6, leaders, "abc")
    plan = LeaderRackAwareCooperativeSticky().assign(group, leaders)
    for topic in leaders:
        assert max_partitions(plan, topic) < 20


def test_a_large_topic_among_small_ones_is_spread_evenly() -> None:
    leaders = {"hot": ["a", "b", "c"] * 12, **{f"t{i}": ["a", "b", "c"] for i in range(60)}}
    group = members_of(12, leaders, "abc")
    plan = LeaderRackAwareCooperativeSticky().assign(group, leaders)
    assert (plan.off_rack, max_partitions(plan, "hot")) == (0, 3)
