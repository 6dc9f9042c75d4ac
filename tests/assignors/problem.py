"""The one shape of question that both oracles answer, and the value of an answer.

A problem hands units out to members. For the sticky assignor a unit is a partition; for
the range assignor it is an index of a group of topics, worth as many partitions as the
group has topics. Everything is a small table of integers, so that brute force and flow
can work on the very same question without sharing a line of how they answer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.assignors.facts import NOBODY

Value = tuple[int, ...]
"""An objective vector, most important figure first; less is better."""


@dataclass(frozen=True)
class Problem:
    """takers     per unit: the members that may have it
    costs      per unit, per member: weight that crosses each level, widest first
    owner      per unit: who has it now, or NOBODY
    before     per member: partitions it has already
    low, high  per member: how many units it must and may have
    unit       partitions per unit
    local_first  whether crossings come before the sum of squared loads
    """

    takers: tuple[tuple[int, ...], ...]
    costs: tuple[tuple[tuple[int, ...], ...], ...]
    owner: tuple[int, ...]
    before: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    depth: int
    unit: int = 1
    local_first: bool = False


def value(problem: Problem, holders: Sequence[int]) -> Value:
    """The objective vector of an answer: squares, crossings by level, moves (or local first)."""
    loads = list(problem.before)
    crossings = [0] * problem.depth
    moved = 0
    for unit, holder in enumerate(holders):
        loads[holder] += problem.unit
        for level, cost in enumerate(problem.costs[unit][holder]):
            crossings[level] += cost
        if problem.owner[unit] not in (NOBODY, holder):
            moved += 1
    squares = sum(load * load for load in loads)
    if problem.local_first:
        return (*crossings, squares, moved)
    return (squares, *crossings, moved)


def check_bounds(problem: Problem, holders: Sequence[int]) -> None:
    """Every unit is with a taker, and every member has as many units as it must and may."""
    for unit, holder in enumerate(holders):
        assert holder in problem.takers[unit], f"unit {unit} is with {holder}, not a taker"
    for member, (low, high) in enumerate(zip(problem.low, problem.high, strict=True)):
        share = sum(1 for holder in holders if holder == member)
        assert low <= share <= high, f"member {member} has {share} units, not {low} to {high}"
