"""The oracles agree with each other, and with integer programs of each figure."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from tests.support.assignment_problems import (
    UNASSIGNED,
    Facts,
    Problem,
    Value,
    levels,
    range_problem,
    read_group,
    sticky_parts,
    topic_classes,
    topic_groups,
    value,
)
from tests.support.oracles import brute_force as oracle_brute
from tests.support.oracles import solver as oracle_solver
from tests.support.random_groups import MIDDLE, SMALL, Size, random_group

Terms = dict[int, float]
"""A linear expression: variable to coefficient."""


def best_value_by_level(problem: Problem) -> Value:
    """Return the minimum objective, one figure at a time, by SciPy's integer programs.

    Nothing is scaled: the minimum of one figure becomes a constraint for the next. This is too
    slow for thousands of groups; it checks the flow oracle, which scales.
    """
    if not problem.candidates:
        return value(problem, ())
    # Variables: unit u is assigned to member m; then member m has at least k units.
    choices = [(unit, member) for unit, row in enumerate(problem.candidates) for member in row]
    units, members = len(problem.candidates), range(len(problem.before))
    shares = [(m, k) for m in members for k in range(1, min(problem.high[m], units) + 1)]
    given = {choice: i for i, choice in enumerate(choices)}
    filled = {share: len(choices) + i for i, share in enumerate(shares)}

    rows: list[tuple[Terms, float, float]] = []
    for unit, row in enumerate(problem.candidates):
        rows.append(({given[unit, member]: 1.0 for member in row}, 1, 1))
    for member in members:
        steps = [filled[share] for share in shares if share[0] == member]
        has = {given[choice]: 1.0 for choice in choices if choice[1] == member}
        rows.append((has | dict.fromkeys(steps, -1.0), 0, 0))
        rows.append((dict.fromkeys(steps, 1.0), problem.low[member], np.inf))

    minima = []
    for figure, constant in figures(problem, given, filled):
        minimum_value = minimum(figure, rows, len(choices) + len(shares))
        rows.append((figure, -np.inf, minimum_value + 0.5))
        minima.append(minimum_value + constant)
    return tuple(minima)


def figures(
    problem: Problem, given: dict[tuple[int, int], int], filled: dict[tuple[int, int], int]
) -> list[tuple[Terms, int]]:
    """Return each figure of the objective, the most important first, and its constant term."""
    squares: Terms = {}
    for (member, k), variable in filled.items():
        load = problem.before[member] + problem.unit * k
        squares[variable] = load**2 - (load - problem.unit) ** 2
    crossings: list[tuple[Terms, int]] = [
        ({given[choice]: problem.costs[choice[0]][choice[1]][level] for choice in given}, 0)
        for level in range(problem.depth)
    ]
    moved: Terms = {
        variable: float(problem.owner[unit] not in (UNASSIGNED, member))
        for (unit, member), variable in given.items()
    }
    balance = (squares, sum(load * load for load in problem.before))
    crossings.insert(len(crossings) if problem.local_first else 0, balance)
    return [*crossings, (moved, 0)]


def minimum(figure: Terms, rows: list[tuple[Terms, float, float]], variables: int) -> int:
    """Return the minimum of a figure over 0/1 variables under rows of (terms, low, high)."""
    where = [(r, v, c) for r, (terms, _, _) in enumerate(rows) for v, c in terms.items()]
    row, column, coefficient = zip(*where, strict=True)
    matrix = coo_array((coefficient, (row, column)), shape=(len(rows), variables)).tocsr()
    costs = np.zeros(variables)
    for variable, coefficient_of in figure.items():
        costs[variable] = coefficient_of
    result = milp(
        costs,
        integrality=np.ones(variables),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, [r[1] for r in rows], [r[2] for r in rows]),
    )
    assert result.success, result.message
    return round(float(result.fun))


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
    compared = 0
    for number in range(40):
        _, problems = facts_and_problems(f"levels-{number}", MIDDLE)
        for problem in problems:
            if max((sum(cost) for row in problem.costs for cost in row), default=0) > 10**6:
                continue  # HiGHS computes in floats.
            compared += 1
            expected = best_value_by_level(problem)
            assert oracle_solver.best_value(problem) == expected, f"seed levels-{number}"
    assert compared > 40


def test_levels_of_a_known_group() -> None:
    # Ten partitions have only member 0 as a subscriber. Members 1 and 2 share three, to which
    # member 0 subscribes too. Member 3 has no subscription.
    classes = {frozenset({0}): 10, frozenset({0, 1, 2}): 3}
    members = frozenset(range(4))
    assert levels(classes, members) == {0: 10, 1: 2, 2: 2, 3: 0}


def test_balanced_loads_are_at_the_level_or_one_below() -> None:
    for number in range(300):
        group = random_group(f"blocks-{number}", MIDDLE)
        facts = read_group(group.members, group.leader_racks)
        members = frozenset(range(len(facts.members)))
        level = levels(topic_classes(facts), members)
        assignees = oracle_solver.best_solution(sticky_parts(facts)[0].problem)
        for member in members:
            load = sum(1 for assignee in assignees if assignee == member)
            assert load in (level[member], level[member] - 1), f"seed blocks-{number}"
