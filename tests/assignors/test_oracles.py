"""The oracles agree with each other before anything is held against them."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.assignment_facts import Facts, read_group
from tests.support.assignment_problems import Problem, range_problem, sticky_parts, topic_groups
from tests.support.network_oracle import levels, topic_classes
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import levels as oracle_levels
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, Size, random_group


def facts_and_problems(seed: str, size: Size) -> tuple[Facts, list[Problem]]:
    """Problems of either assignor; Range's with made-up loads from earlier groups."""
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
    looked_at = 0
    for number in range(chunk * 150, chunk * 150 + 150):
        _, problems = facts_and_problems(f"agree-{number}", SMALL)
        for problem in problems:
            if oracle_brute.answers(problem) <= oracle_brute.MOST_ANSWERS:
                expected = oracle_brute.best_value(problem)
                assert oracle_solver.best_value(problem) == expected, f"seed agree-{number}"
                looked_at += 1
    assert looked_at > 200


def test_one_scaled_flow_agrees_with_linear_programs_level_by_level() -> None:
    for number in range(25):
        _, problems = facts_and_problems(f"levels-{number}", MIDDLE)
        for problem in problems:
            expected = oracle_levels.best_value(problem)
            assert oracle_solver.best_value(problem) == expected, f"seed levels-{number}"


def test_a_block_of_known_levels() -> None:
    # Ten partitions for member 0 alone; members 1 and 2 share three, and could share the ten's
    # topic with nobody; an empty-handed member 3.
    classes = {frozenset({0}): 10, frozenset({0, 1, 2}): 3}
    everyone = frozenset(range(4))
    assert levels(classes, everyone) == {0: 10, 1: 2, 2: 2, 3: 0}


def test_levels_hold_in_every_answer_with_the_least_squares() -> None:
    for number in range(300):
        group = random_group(f"blocks-{number}", MIDDLE)
        facts = read_group(group.members, group.leader_racks)
        everyone = frozenset(range(len(facts.members)))
        level = levels(topic_classes(facts), everyone)
        holders = oracle_solver.best_answer(sticky_parts(facts)[0].problem)
        for member in everyone:
            load = sum(1 for holder in holders if holder == member)
            assert load in (level[member], level[member] - 1), f"seed blocks-{number}"
