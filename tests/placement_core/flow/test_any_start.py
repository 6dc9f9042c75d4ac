"""Cycle canceling ends at the same minimum cost from any initial choice."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from placement_core.flow import SquaredLoads, cancel_negative_cycles
from placement_core.reassignment import plan_reassignment
from placement_core.reassignment.plan import read_problem
from tests.support.reassignments import random_case, random_sets, squares_of


@pytest.mark.parametrize("block", range(10))
def test_the_initial_choice_does_not_matter(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        case = random_case(seed)
        problem = read_problem(
            case.view, case.replication_factor, case.drain, case.topics, ignore_racks=False
        )
        sets = random_sets(problem, random.Random(seed))
        exchanged = cancel_negative_cycles(
            sets, SquaredLoads(problem.base, len(problem.brokers) + 2)
        )
        plan = plan_reassignment(
            case.view,
            replication_factor=case.replication_factor,
            drain=case.drain,
            topics=case.topics,
        )
        loads = sets.loads + problem.base
        assert exchanged >= 0
        assert int((loads * loads).sum()) == squares_of(case.view, case.drain, plan)[0]
        assert int(sets.copied().sum()) == plan.copies, f"seed {seed}"
        again = replace(sets, chosen=sets.chosen.copy())
        assert (again.loads == sets.loads).all(), "loads have drifted from the sets"
        assert (again.counts == sets.counts).all(), "counts per rack have drifted from the sets"
