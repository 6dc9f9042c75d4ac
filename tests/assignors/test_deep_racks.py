"""Racks of many levels: exact plans, and no member's rack can make a rebalance fail.

Racks are compared at the depth of the leaders' racks. With one cost per level, 18 levels are more
than 64-bit costs can rank. The solver of the other tests has that limit too, so the oracle here is
brute force, which compares vectors.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.group import Group
from tests.support.assignment_problems import (
    racks_matter,
    range_problem,
    read_group,
    sticky_parts,
    value,
)
from tests.support.assignments import assignees_of, check_plan
from tests.support.oracles import brute_force

TOPIC = frozenset({"t"})
ASSIGNORS = (LeaderRackAwareRange, LeaderRackAwareCooperativeSticky)
DEPTHS = (18, 60, 1000)


def deep(*widest: str, depth: int) -> str:
    """Return a rack of ``depth`` levels with these widest ones."""
    return "/" + "/".join([*widest, *(f"l{n}" for n in range(depth - len(widest)))])


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_member_levels_below_those_of_leaders_are_ignored(assignor: Any, depth: int) -> None:
    members = [Member("m1", TOPIC, "/a"), Member("m2", TOPIC, "/b"), Member("m3", TOPIC, "/b")]
    leaders = {"t": ["a", "b", "a", "b", "b", "a", None]}
    expected = assignor().assign(members, leaders)
    deeper = [replace(members[0], rack=deep("a", depth=depth)), *members[1:]]
    assert assignor().assign(deeper, leaders) == expected
    assert expected.off_rack == expected.optimum
    assert Group.of(deeper, leaders).depth == 1


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_one_deep_member_costs_others_no_locality(assignor: Any, depth: int) -> None:
    members = [
        Member("deep", TOPIC, deep("far", depth=depth)),
        *(Member(f"m{rack}", TOPIC, rack) for rack in "ab"),
    ]
    plan = assignor().assign(members, {"t": list("ababab")})
    check_plan(members, {"t": list("ababab")}, plan)
    assert plan.off_rack == 2


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("weighted", [False, True])
def test_leaders_and_members_of_many_levels(assignor: Any, depth: int, weighted: bool) -> None:
    racks = [deep("dc1", "x", depth=depth), deep("dc1", "y", depth=depth), deep("dc2", depth=depth)]
    members = [Member(f"m{n}", TOPIC, rack) for n, rack in enumerate(racks)]
    leaders = {"t": [racks[n] for n in (0, 0, 0, 1, 2, 2)]}
    weights = {"t": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]} if weighted else None
    plan = assignor().assign(members, leaders, weights)
    check_plan(members, leaders, plan, weights)
    # m1 reads one partition of rack 0, the lightest: across rooms, not across data centres.
    assert plan.crossings == (0, *[1] * (depth - 1))
    assert (plan.loads["m1"], plan.partitions["m2"]) == (2, {"t": [4, 5]})
    assert not weighted or plan.partitions["m1"] == {"t": [0, 3]}


def ragged_rack(rng: Random) -> str | None:
    """Return a rack that shares a random number of levels with the others, or none."""
    if rng.random() < 0.1:
        return None
    depth = rng.choice([1, 2, 3, 18, 60, 1000])
    branch = rng.randrange(depth)
    return "/" + "/".join("l" if n < branch else rng.choice("xy") for n in range(depth))


@pytest.mark.parametrize("seed", range(30))
def test_plans_for_random_racks_of_many_levels_are_optimal(seed: int) -> None:
    rng = Random(f"deep-{seed}")
    pool = [ragged_rack(rng) for _ in range(4)]
    members = [
        Member(
            f"m{n}", TOPIC, rng.choice([*pool, ragged_rack(rng)]), owned={"t": [n]}, generation=1
        )
        for n in range(3)
    ]
    leaders = {"t": [rng.choice(pool) for _ in range(rng.randint(1, 7))]}
    facts = read_group(members, leaders)

    plan = LeaderRackAwareCooperativeSticky().assign(members, leaders)
    check_plan(members, leaders, plan)
    (part,) = sticky_parts(facts)
    assigned = part.assignees(assignees_of(facts, plan))
    assert value(part.problem, assigned) == brute_force.best_value(part.problem)

    plan = LeaderRackAwareRange().assign(members, leaders)
    check_plan(members, leaders, plan)
    if racks_matter(facts, ("t",), leaders["t"]):
        problem, _ = range_problem(facts, ("t",), [0] * len(members))
        assert value(problem, assignees_of(facts, plan)) == brute_force.best_value(problem)
