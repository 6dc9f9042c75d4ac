"""check_reassignment detects each planted fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.reassignment import Move, Reassignment, moves_between, plan_reassignment
from tests.support.reassignments import check_reassignment

T = [TopicPartition("t", n) for n in range(3)]
VIEW = ClusterView(
    tuple(Broker(n, "aabbc"[n]) for n in range(5)), {T[0]: (0, 1), T[1]: (4, 2), T[2]: (3, 0)}
)
WANTED = dict.fromkeys(T, 2)


def with_rows(plan: Reassignment, rows: dict[TopicPartition, tuple[int, ...]]) -> Reassignment:
    target = {**plan.target, **rows}
    return replace(plan, target=target, moves=moves_between(VIEW.replicas, target))


PLANTED: dict[str, Callable[[Reassignment], Reassignment]] = {
    "other partitions": lambda plan: replace(plan, target={}),
    "repeats a broker": lambda plan: with_rows(plan, {T[1]: (4, 4)}),
    "2 were requested": lambda plan: with_rows(plan, {T[1]: (4,)}),
    "missing or drained": lambda plan: with_rows(plan, {T[1]: (4, 9)}),
    "breaks the rack rules": lambda plan: with_rows(plan, {T[1]: (2, 3)}),
    "not of type int": lambda plan: with_rows(plan, {T[1]: (4, 2.0)}),  # type: ignore[dict-item]
    "moves of": lambda plan: replace(plan, moves=()),
    "starts from": lambda plan: replace(
        plan, moves=tuple(Move(m.partition, (2, 4), m.after) for m in plan.moves)
    ),
    "plan.copies": lambda plan: replace(plan, copies=plan.copies + 1),
    "leader changes": lambda plan: replace(plan, leader_changes=plan.leader_changes + 1),
}


@pytest.mark.parametrize("message", PLANTED)
def test_planted_faults_are_detected(message: str) -> None:
    plan = plan_reassignment(VIEW)
    check_reassignment(VIEW, WANTED, (), plan)
    assert plan.moves
    with pytest.raises(AssertionError, match=message):
        check_reassignment(VIEW, WANTED, (), PLANTED[message](plan))
