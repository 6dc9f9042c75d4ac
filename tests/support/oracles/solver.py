"""The optimum of a mid-size problem, by OR-tools' minimum-cost flow of single units.

    source -> unit -> member -> sink               the first `low` units of a member, at no cost
                        member -> rest -> sink     the k-th unit above, at what it adds to the
                                                   member's squared load: increasing in k, so that
                                                   a minimum-cost flow fills them in order

The objective vector becomes one integer: each figure is multiplied by a base larger than any total
of the figures after it, so that a minimum-cost flow is a lexicographic minimum. The result is the
objective of the flow's solution, computed by ``value``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from tests.support.assignment_problems import UNASSIGNED, Problem, Value, check_bounds, value

LARGEST_COST = 2**61
"""OR-tools multiplies costs by the number of nodes, in 64 bits."""


def bases(problem: Problem) -> tuple[int, list[int], int]:
    """Return the cost of one unit of squares, of crossings per level, and of moves."""
    max_moved = sum(1 for owner in problem.owner if owner != UNASSIGNED)
    max_crossed = [
        sum(max((cost[level] for cost in row), default=0) for row in problem.costs)
        for level in range(problem.depth)
    ]
    total = problem.unit * len(problem.candidates)
    max_squares = (max(problem.before, default=0) + total) ** 2 * max(1, len(problem.before))

    move = 1
    base = max_moved + 1
    square = base
    if problem.local_first:
        base *= max_squares + 1
    crossed = [0] * problem.depth
    for level in reversed(range(problem.depth)):
        crossed[level] = base
        base *= max_crossed[level] + 1
    return square if problem.local_first else base, crossed, move


def best_solution(problem: Problem) -> tuple[int, ...]:
    """Return the member of each unit in an optimal solution."""
    units, members = len(problem.candidates), len(problem.before)
    if units == 0:
        return ()
    square, crossed, move = bases(problem)
    source, rest, sink = units + members, units + members + 1, units + members + 2
    arcs: list[tuple[int, int, int, int]] = [(source, unit, 1, 0) for unit in range(units)]
    choices = [(unit, member) for unit, row in enumerate(problem.candidates) for member in row]
    for unit, member in choices:
        cost = sum(
            price * base for price, base in zip(problem.costs[unit][member], crossed, strict=True)
        )
        if problem.owner[unit] not in (UNASSIGNED, member):
            cost += move
        arcs.append((unit, units + member, 1, cost))
    for member in range(members):
        low, high = problem.low[member], min(problem.high[member], units)
        arcs.append((units + member, sink, low, 0))
        for share in range(low + 1, high + 1):
            load = problem.before[member] + problem.unit * share
            step = load**2 - (load - problem.unit) ** 2
            arcs.append((units + member, rest, 1, step * square))
    arcs.append((rest, sink, units - sum(problem.low), 0))
    flows = run(arcs, source, sink, units)
    assignees = [UNASSIGNED] * units
    for (unit, member), flow in zip(choices, flows[units : units + len(choices)], strict=True):
        if flow:
            assignees[unit] = member
    check_bounds(problem, assignees)
    return tuple(assignees)


def best_value(problem: Problem) -> Value:
    """Return the minimum objective."""
    return value(problem, best_solution(problem))


def run(
    arcs: Sequence[tuple[int, int, int, int]], source: int, sink: int, amount: int
) -> list[int]:
    """Return the flow on each (tail, head, capacity, cost) in a minimum-cost flow of ``amount``."""
    if max(cost for *_, cost in arcs) * (sink + 2) >= LARGEST_COST:
        return run_in_python(arcs, source, sink, amount)
    table = np.array(arcs, dtype=np.int64)
    flow = SimpleMinCostFlow()
    added = flow.add_arcs_with_capacity_and_unit_cost(*table.T)
    flow.set_node_supply(source, amount)
    flow.set_node_supply(sink, -amount)
    status = flow.solve()
    assert status == flow.OPTIMAL, f"status of OR-tools: {status}"
    return [int(units) for units in flow.flows(added)]


def run_in_python(
    arcs: Sequence[tuple[int, int, int, int]], source: int, sink: int, amount: int
) -> list[int]:
    """Return the same for costs of any size: the cheapest paths one after the other."""
    residual = [[tail, head, capacity, cost] for tail, head, capacity, cost in arcs]
    residual += [[head, tail, 0, -cost] for tail, head, _, cost in arcs]
    leaving: dict[int, list[int]] = {}
    for number, (tail, *_) in enumerate(residual):
        leaving.setdefault(tail, []).append(number)
    for _ in range(amount):
        distance, arrival, pending = {source: 0}, {}, deque([source])
        while pending:
            node = pending.popleft()
            for number in leaving.get(node, ()):
                _, head, capacity, cost = residual[number]
                far = distance[node] + cost
                if capacity and (head not in distance or far < distance[head]):
                    distance[head], arrival[head] = far, number
                    pending.append(head)
        node = sink
        while node != source:
            number = arrival[node]
            residual[number][2] -= 1
            residual[(number + len(arcs)) % len(residual)][2] += 1
            node = residual[number][0]
    return [arc[2] for arc in residual[len(arcs) :]]
