"""The oracles agree with each other."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.assignment_problems import (
    Facts,
    Problem,
    levels,
    range_problem,
    read_group,
    sticky_parts,
    topic_classes,
    topic_groups,
)
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import levels as oracle_levels
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, Size, random_group


def facts_and_problems(seed: str, size: Size) -> tuple[Facts, list[Problem]]:
    """Return the problems of both assignors; those of Range have random loads of earlier topics."""
    group = random_group(seed, size, imbalance=seed.endswith(("3", "7")))
    facts = read_group(group.members, group.leader_racks, group.weights)
    rng = Random(seed)
    before = [rng.randint(0, 5) for _ in facts.members]
    problems = [part.problem for part in sticky_parts(facts, group.max_imbalance)]
    problems.extend(
        range_problem(facts, topics, before, group.max_imbalance)[0]
        for topics in topic_groups(facts, co_partitioned=group.co_partitioned)
    )
    return facts, problems


@pytest.mark.parametrize("chunk", range(4))
def test_flow_agrees_with_brute_force_on_small_groups(chunk: int) -> None:
    compared = 0
    for number in range(chunk * 150, chunk * 150 + 150):
        _, problems = facts_and_problems(f"agree-{number}", SMALL)
        for problem in problems:
            if oracle_brute.count_solutions(problem) <= oracle_brute.MAX_SOLUTIONS:
                expected = oracle_brute.best_value(problem)
                assert oracle_solver.best_value(problem) == expected, f"seed agree-{number}"
                compared += 1
    assert compared > 200


def test_flow_agrees_with_integer_programs_of_each_level() -> None:
    for number in range(25):
        _, problems = facts_and_problems(f"levels-{number}", MIDDLE)
        for problem in problems:
            expected = oracle_levels.best_value(problem)
            assert oracle_solver.best_value(problem) == expected, f"seed levels-{number}"


def test_levels_of_a_known_group() -> None:
    # Ten partitions have only member 0 as a subscriber. Members 1 and 2 share three, to which
    # member 0 subscribes too. Member 3 has no subscription.
    classes = {frozenset({0}): 10, frozenset({0, 1, 2}): 3}
    members = frozenset(range(4))
    assert levels(classes, members) == {0: 10, 1: 2, 2: 2, 3: 0}


def test_loads_of_a_balanced_solution_are_at_the_level_or_one_below() -> None:
    for number in range(300):
        group = random_group(f"blocks-{number}", MIDDLE)
        facts = read_group(group.members, group.leader_racks)
        members = frozenset(range(len(facts.members)))
        level = levels(topic_classes(facts), members)
        assignees = oracle_solver.best_solution(sticky_parts(facts)[0].problem)
        for member in members:
            load = sum(1 for assignee in assignees if assignee == member)
            assert load in (level[member], level[member] - 1), f"seed blocks-{number}"
