"""Cycle canceling ends at the same minimum cost from any initial choice."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from placement_core.flow import IntArray, SquaredLoads, cancel_negative_cycles
from placement_core.rack_bounds import RackTree
from placement_core.reassignment import plan_reassignment
from placement_core.reassignment.plan import ReassignmentProblem, read_problem
from placement_core.reassignment.replica_sets import ReplicaSets
from tests.support.reassignments import random_case, squares_of, valid_sets


def random_sets(problem: ReassignmentProblem, rng: random.Random) -> ReplicaSets:
    """Return random sets that satisfy the rack rules."""
    tree = RackTree.of(problem.racks)
    factors, bounds_of = np.unique(problem.replicas, return_inverse=True)
    bounds = [tree.bounds(factor) for factor in factors.tolist()]
    lower, upper = (np.stack(rows) for rows in zip(*bounds, strict=True))
    paths = dict(enumerate(problem.racks))
    depth = max(map(len, problem.racks))
    paths = {broker: path + ("",) * (depth - len(path)) for broker, path in paths.items()}
    chosen: IntArray = np.full((len(problem.partitions), int(problem.replicas.max())), -1)
    for row, factor in enumerate(problem.replicas.tolist()):
        chosen[row, :factor] = sorted(rng.choice(valid_sets(paths, factor)))
    unpinned = np.full(len(chosen), -1)
    return ReplicaSets(tree, chosen, problem.held, bounds_of, lower, upper, unpinned)


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
