"""The oracles agree with each other."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.assignment_problems import (
    Problem,
    levels,
    range_problem,
    read_group,
    sticky_parts,
    topic_classes,
    topic_groups,
)
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, random_group


def problems_of(seed: str) -> list[Problem]:
    """Return the problems of both assignors; those of Range have random loads of earlier topics."""
    group = random_group(seed, SMALL, imbalance=seed.endswith(("3", "7")))
    facts = read_group(group.members, group.leader_racks, group.weights)
    rng = Random(seed)
    before = [rng.randint(0, 5) for _ in facts.members]
    problems = [part.problem for part in sticky_parts(facts, group.max_imbalance)]
    problems.extend(
        range_problem(facts, topics, before, group.max_imbalance)[0]
        for topics in topic_groups(facts, co_partitioned=group.co_partitioned)
    )
    return problems


@pytest.mark.parametrize("chunk", range(4))
def test_flow_agrees_with_brute_force_on_small_groups(chunk: int) -> None:
    compared = 0
    for number in range(chunk * 75, chunk * 75 + 75):
        for problem in problems_of(f"agree-{number}"):
            if oracle_brute.count_solutions(problem) <= oracle_brute.MAX_SOLUTIONS:
                expected = oracle_brute.best_value(problem)
                assert oracle_solver.best_value(problem) == expected, f"seed agree-{number}"
                compared += 1
    assert compared > 100


def test_levels_of_a_known_group() -> None:
    # Ten partitions have only member 0 as a subscriber. Members 1 and 2 share three, to which
    # member 0 subscribes too. Member 3 has no subscription.
    classes = {frozenset({0}): 10, frozenset({0, 1, 2}): 3}
    members = frozenset(range(4))
    assert levels(classes, members) == {0: 10, 1: 2, 2: 2, 3: 0}


def test_balanced_loads_are_at_the_level_or_one_below() -> None:
    for number in range(150):
        group = random_group(f"blocks-{number}", MIDDLE)
        facts = read_group(group.members, group.leader_racks)
        members = frozenset(range(len(facts.members)))
        level = levels(topic_classes(facts), members)
        assignees = oracle_solver.best_solution(sticky_parts(facts)[0].problem)
        for member in members:
            load = sum(1 for assignee in assignees if assignee == member)
            assert load in (level[member], level[member] - 1), f"seed blocks-{number}"
