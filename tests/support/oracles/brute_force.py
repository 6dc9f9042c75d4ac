"""The optimum of a small problem, by enumerating all solutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.assignment_problems import UNASSIGNED, Problem, Value, value

MAX_SOLUTIONS = 70_000


def count_solutions(problem: Problem) -> int:
    """Return the number of solutions, without regard to bounds."""
    return math.prod(len(candidates) for candidates in problem.candidates)


def best_value(problem: Problem) -> Value:
    """Return the minimum objective. The problem has at most MAX_SOLUTIONS solutions."""
    assert count_solutions(problem) <= MAX_SOLUTIONS, (
        f"{count_solutions(problem)} solutions are too many"
    )
    units, members = len(problem.candidates), len(problem.before)
    if units == 0:
        return value(problem, ())
    # Solutions are numbered: each unit is a digit, to the base of the number of its candidates.
    number = np.arange(count_solutions(problem))
    columns = []
    for candidates in problem.candidates:
        columns.append(np.array(candidates)[number % len(candidates)])
        number //= len(candidates)
    assigned = np.stack(columns, axis=1)

    shares = np.stack([(assigned == member).sum(axis=1) for member in range(members)], axis=1)
    allowed = ((shares >= problem.low) & (shares <= problem.high)).all(axis=1)
    assigned, shares = assigned[allowed], shares[allowed]

    squares = ((np.array(problem.before) + problem.unit * shares) ** 2).sum(axis=1)
    most = sum(max((max(each) for each in row), default=0) for row in problem.costs)
    dtype = np.int64 if most < 2**62 else object
    costs = np.array(problem.costs, dtype=dtype).reshape(units, members, problem.depth)
    crossings = costs[np.arange(units), assigned].sum(axis=1)
    owner = np.array(problem.owner, dtype=np.int64)
    moved = ((owner != UNASSIGNED) & (assigned != owner)).sum(axis=1)

    figures: list[npt.NDArray[Any]] = list(crossings.T)
    figures.insert(len(figures) if problem.local_first else 0, squares)
    figures.append(moved)
    left = np.arange(len(assigned))
    best = []
    for figure in figures:
        best.append(int(figure[left].min()))
        left = left[figure[left] == best[-1]]
    return tuple(best)
