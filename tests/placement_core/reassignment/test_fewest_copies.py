"""plan_reassignment against CP-SAT: every rank of its objective."""

from __future__ import annotations

import pytest

from placement_core.reassignment import plan_reassignment
from tests.support.reassignments import (
    best_leaders,
    best_replicas,
    check_reassignment,
    random_case,
    squares_of,
)


@pytest.mark.parametrize("block", range(20))
def test_plans_match_the_optimum_of_cp_sat(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        case = random_case(seed)
        even = seed % 4 != 0
        plan = plan_reassignment(
            case.view,
            replication_factor=case.replication_factor,
            drain=case.drain,
            topics=case.topics,
            even=even,
        )
        check_reassignment(case.view, case.wanted, case.drain, plan)
        squares, leader_squares = squares_of(case.view, case.drain, plan)
        best = best_replicas(case.view, case.wanted, case.drain, even=even)
        assert (squares, plan.copies) == best, f"seed {seed}: {case}"
        base = dict.fromkeys(case.view.racks().keys() - set(case.drain), 0)
        for partition, replicas in case.view.replicas.items():
            if partition not in plan.target and replicas[0] in base:
                base[replicas[0]] += 1
        leaders = best_leaders(plan.target, case.view.replicas, base)
        assert (leader_squares, plan.leader_changes) == leaders, f"seed {seed}: {case}"
