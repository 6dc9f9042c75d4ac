"""From one rebalance to the next, no more partitions move than necessary."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from tests.support.assignments import check_range, check_sticky
from tests.support.random_groups import (
    MIDDLE,
    Group,
    move_leaders,
    random_group,
    random_leaders,
    with_assignments,
)

RACKS = ("a", "b", "c")


@pytest.mark.parametrize("imbalance", [False, True])
def test_nothing_moves_if_nothing_changes(imbalance: bool) -> None:
    for number in range(200):
        group = random_group(f"still-{number}", MIDDLE, imbalance=imbalance)
        assignor = LeaderRackAwareCooperativeSticky(max_imbalance=group.max_imbalance)
        first = assignor.assign(group.members, group.leader_racks, group.weights)
        members = with_assignments(group.members, first, 8)
        second = assignor.assign(members, group.leader_racks, group.weights)
        assert second.moved == 0, f"seed still-{number}"
        assert second.partitions == first.partitions, f"seed still-{number}"


def test_a_range_plan_is_repeated_if_nothing_changes() -> None:
    for number in range(100):
        group = random_group(f"still-range-{number}", MIDDLE)
        assignor = LeaderRackAwareRange(co_partitioned=group.co_partitioned)
        first = assignor.assign(group.members, group.leader_racks, group.weights)
        members = with_assignments(group.members, first, 8)
        second = assignor.assign(members, group.leader_racks, group.weights)
        assert second.partitions == first.partitions, f"seed still-range-{number}"
        assert second.moved == 0


def test_local_partitions_stay_when_a_member_leaves() -> None:
    leaders = {"t": ["a", "b", "c"] * 4}
    members = [Member(f"{rack}{i}", frozenset({"t"}), rack) for rack in RACKS for i in range(2)]
    plan = check_sticky(Group(tuple(members), leaders))
    assert (plan.off_rack, set(plan.loads.values())) == (0, {2})
    left = with_assignments(members, plan, 1)[1:]
    after = check_sticky(Group(tuple(left), leaders))
    # Twelve partitions over five members: the two free ones go to two of the remaining members.
    assert after.moved == 0
    assert sorted(after.loads.values()) == [2, 2, 2, 3, 3]


@pytest.mark.parametrize("seed", range(12))
def test_plans_are_optimal_in_every_step_of_a_long_history(seed: int) -> None:
    """Members leave, join and change topics or racks, leaders move, partitions are added."""
    rng = Random(f"history-{seed}")
    racks = rng.choice((RACKS, ("/d1/a", "/d1/b", "/d2/a", "/d2")))
    leaders = random_leaders(rng, rng.randint(2, 5), rng.randint(4, 14), racks)
    topics = sorted(leaders)
    share = rng.choice((0.0, 0.0, 0.5))
    members = [Member(f"m-{i:02}", frozenset(topics), rng.choice(racks)) for i in range(5)]
    for step in range(16):
        group = Group(tuple(members), leaders, max_imbalance=share)
        plan = check_sticky(group)
        check_range(group)
        members = with_assignments(members, plan, step)
        event = rng.choice(("leave", "join", "leaders", "grow", "subscribe", "rack"))
        index = rng.randrange(len(members))
        if event == "leave" and len(members) > 1:
            del members[index]
        elif event == "join":
            members.append(Member(f"n-{step:02}", frozenset(topics), rng.choice(racks)))
        elif event == "leaders":
            leaders = move_leaders(rng, leaders, 0.2, racks)
        elif event == "grow":
            leaders[rng.choice(topics)].append(rng.choice(racks))
        elif event == "subscribe":
            wanted = frozenset(rng.sample(topics, rng.randint(1, len(topics))))
            members[index] = replace(members[index], topics=wanted)
        elif event == "rack":
            members[index] = replace(members[index], rack=rng.choice((*racks, None)))
