"""Within what the objectives leave open, each topic is spread over the members.

This is the only property that is not exact. The bounds here are exceeded by far by a plan that
assigns contiguous partitions of a topic to one member.
"""

from __future__ import annotations

from random import Random

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRacks, Member, Plan
from tests.support.random_groups import random_leaders


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
