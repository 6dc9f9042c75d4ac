"""Whatever the start, cancelling cycles ends at the same least cost."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from placement_core.flow import IntArray, SquaredLoads, settle
from placement_core.rack_bounds import RackTree
from placement_core.reassignment import plan_reassignment
from placement_core.reassignment.plan import Request, read_request
from placement_core.reassignment.replica_sets import ReplicaSets
from tests.support.reassignments import lawful_sets, random_case, squares_of


def random_sets(request: Request, rng: random.Random) -> ReplicaSets:
    """Lawful sets drawn without a thought."""
    tree = RackTree.of(request.racks)
    factors, share = np.unique(request.replicas, return_inverse=True)
    bounds = [tree.shares(factor) for factor in factors.tolist()]
    least, most = (np.stack(rows) for rows in zip(*bounds, strict=True))
    paths = dict(enumerate(request.racks))
    depth = max(map(len, request.racks))
    paths = {broker: path + ("",) * (depth - len(path)) for broker, path in paths.items()}
    chosen: IntArray = np.full((len(request.partitions), int(request.replicas.max())), -1)
    for row, factor in enumerate(request.replicas.tolist()):
        chosen[row, :factor] = sorted(rng.choice(lawful_sets(paths, factor)))
    free = np.full(len(chosen), -1)
    return ReplicaSets(tree, chosen, request.held, share, least, most, free)


@pytest.mark.parametrize("block", range(10))
def test_the_start_does_not_matter(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        case = random_case(seed)
        request = read_request(
            case.view, case.replication_factor, case.drain, case.topics, ignore_racks=False
        )
        sets = random_sets(request, random.Random(seed))
        exchanged = settle(sets, SquaredLoads(request.base, len(request.brokers) + 2))
        plan = plan_reassignment(
            case.view,
            replication_factor=case.replication_factor,
            drain=case.drain,
            topics=case.topics,
        )
        loads = sets.loads + request.base
        assert exchanged >= 0
        assert int((loads * loads).sum()) == squares_of(case.view, case.drain, plan)[0]
        assert int(sets.copied().sum()) == plan.copies, f"seed {seed}"
        again = replace(sets, chosen=sets.chosen.copy())
        assert (again.loads == sets.loads).all(), "loads have drifted from the sets"
        assert (again.counts == sets.counts).all(), "counts per rack have drifted from the sets"
