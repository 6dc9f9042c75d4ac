"""Exchanges of replicas against the rack rules, partition by partition."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from placement_core.flow import INF
from placement_core.reassignment.plan import read_problem
from placement_core.reassignment.replica_sets import ReplicaSets
from tests.support.reassignments import random_case, random_sets

Exchanges = dict[tuple[int, int], dict[int, list[int]]]
"""Partitions by giver and receiver, and by the copies that the exchange adds."""


def sets_of(seed: int) -> ReplicaSets:
    """Return random sets of a random case, in which some partitions have a pinned broker."""
    case, rng = random_case(seed), random.Random(seed)
    problem = read_problem(
        case.view, case.replication_factor, case.drain, case.topics, ignore_racks=False
    )
    sets = random_sets(problem, rng)
    for row in range(len(sets.chosen)):
        if rng.random() < 0.3:
            sets.pinned[row] = sets.chosen[row, 0]
    return sets


def all_exchanges(sets: ReplicaSets) -> Exchanges:
    """Return every exchange after which the partition is within its bounds."""
    found: Exchanges = defaultdict(lambda: defaultdict(list))
    tree = sets.tree
    for row, (chosen, held) in enumerate(
        zip(sets.chosen.tolist(), sets.held.tolist(), strict=True)
    ):
        bounds = sets.bounds_of[row]
        for giver in set(chosen) - {-1, int(sets.pinned[row])}:
            for receiver in set(range(len(tree.rack_of))) - set(chosen):
                brokers = [broker for broker in {*chosen, receiver} - {giver} if broker >= 0]
                counts = np.bincount(
                    tree.nodes[tree.rack_of[brokers]].reshape(-1), minlength=len(tree.parent)
                )
                if (sets.lower[bounds] <= counts).all() and (counts <= sets.upper[bounds]).all():
                    copies = int(receiver not in held) - int(giver not in held)
                    found[giver, receiver][copies].append(row)
    return found


@pytest.mark.parametrize("block", range(8))
def test_exchanges_are_those_that_the_rack_rules_permit(block: int) -> None:
    for seed in range(block * 5, block * 5 + 5):
        sets = sets_of(seed)
        exchanges, costs = all_exchanges(sets), sets.costs()
        for giver, receiver in np.ndindex(costs.shape):
            by_copies = exchanges[giver, receiver]
            assert costs[giver, receiver] == min(by_copies, default=INF), seed
            for copies in (-1, 0, 1):
                found = sets.find(giver, receiver, copies, len(sets.chosen))
                assert sorted(found.tolist()) == by_copies[copies], seed
                few = sets.find(giver, receiver, copies, 2).tolist()
                assert len(set(few)) == len(few) == min(2, len(found))
                assert set(few) <= set(found.tolist())
