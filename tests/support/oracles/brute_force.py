"""The optimum of a small problem, by looking at every answer there is."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tests.support.assignment_facts import NOBODY
from tests.support.assignment_problems import Problem, Value, value

MOST_ANSWERS = 70_000


def answers(problem: Problem) -> int:
    """How many answers there are to look at, bounds not counted."""
    return math.prod(len(takers) for takers in problem.takers)


def best_value(problem: Problem) -> Value:
    """The least objective vector; at most ``MOST_ANSWERS`` answers are looked at."""
    assert answers(problem) <= MOST_ANSWERS, f"{answers(problem)} answers are too many"
    units, members = len(problem.takers), len(problem.before)
    if units == 0:
        return value(problem, ())
    # Answers are numbered: each unit's choice is one digit, to the base of its choices.
    number = np.arange(answers(problem))
    columns = []
    for takers in problem.takers:
        columns.append(np.array(takers)[number % len(takers)])
        number //= len(takers)
    held = np.stack(columns, axis=1)

    shares = np.stack([(held == member).sum(axis=1) for member in range(members)], axis=1)
    allowed = ((shares >= problem.low) & (shares <= problem.high)).all(axis=1)
    held, shares = held[allowed], shares[allowed]

    squares = ((np.array(problem.before) + problem.unit * shares) ** 2).sum(axis=1)
    costs = np.array(problem.costs, dtype=np.int64).reshape(units, members, problem.depth)
    crossings = costs[np.arange(units), held].sum(axis=1)
    owner = np.array(problem.owner, dtype=np.int64)
    moved = ((owner != NOBODY) & (held != owner)).sum(axis=1)

    figures: list[npt.NDArray[np.int64]] = list(crossings.T)
    figures.insert(len(figures) if problem.local_first else 0, squares)
    figures.append(moved)
    left = np.arange(len(held))
    best = []
    for figure in figures:
        best.append(int(figure[left].min()))
        left = left[figure[left] == best[-1]]
    return tuple(best)
