"""The optimum of a problem, one figure at a time, by SciPy's integer programs.

Nothing is scaled: the minimum of one figure becomes a constraint for the next. This is too slow for
thousands of groups; it checks the flow oracle, which scales.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from tests.support.assignment_problems import UNASSIGNED, Problem, Value, value

Terms = dict[int, float]
"""A linear expression: variable to coefficient."""


def best_value(problem: Problem) -> Value:
    """Return the minimum objective."""
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
