"""plan_reassignment against CP-SAT and, for larger layouts, against a minimum-cost flow.

The flow (OR-tools) is one over single replicas:

    partition -> (partition, node) ... -> (partition, rack) -> broker -> sink

with the bounds of every node as capacities (lower bounds by a bonus that outweighs all else), and
for each broker an arc per unit of load at what it adds to the square.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.rack_bounds import RackTree
from placement_core.racks import parse_rack
from placement_core.reassignment import Move, Reassignment, moves_between, plan_reassignment
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


def best(view: ClusterView, factor: int, drain: tuple[int, ...]) -> tuple[int, int]:
    """Return the minimum sum of squared loads, and the fewest copies with it."""
    brokers = [broker for broker in view.brokers if broker.id not in drain]
    tree = RackTree.of([parse_rack(broker.rack) or ("",) for broker in brokers])
    lower, upper = tree.bounds(factor)
    square = len(view.replicas) * factor + 1
    bonus = square * (2 * len(view.replicas) + 2) * 4
    flow = SimpleMinCostFlow()
    first = 1 + len(brokers)
    node = first
    copy_arcs = []
    bonuses = 0
    for present in view.replicas.values():
        nodes = list(range(node, node + len(tree.parent)))
        node += len(tree.parent) + 1
        root = node - 1
        flow.set_node_supply(root, factor)
        for child, parent in enumerate(tree.parent.tolist()):
            tail = root if parent < 0 else nodes[parent]
            if lower[child]:
                flow.add_arc_with_capacity_and_unit_cost(tail, nodes[child], lower[child], -bonus)
                bonuses += int(lower[child])
            if upper[child] > lower[child]:
                flow.add_arc_with_capacity_and_unit_cost(
                    tail, nodes[child], upper[child] - lower[child], 0
                )
        for number, broker in enumerate(brokers):
            copy = int(broker.id not in present)
            rack = nodes[tree.nodes[tree.rack_of[number], -1]]
            copy_arcs.append(flow.add_arc_with_capacity_and_unit_cost(rack, 1 + number, 1, copy))
    for number in range(len(brokers)):
        for load in range(len(view.replicas)):
            flow.add_arc_with_capacity_and_unit_cost(1 + number, 0, 1, (2 * load + 1) * square)
    flow.set_node_supply(0, -factor * len(view.replicas))
    assert flow.solve() == flow.OPTIMAL
    total = flow.optimal_cost() + bonuses * bonus
    assert total >= 0, "a lower bound is not met"
    return total // square, total % square


@pytest.mark.parametrize("seed", range(24))
def test_plans_match_the_minimum_cost_flow(seed: int) -> None:
    rng = random.Random(seed)
    racks = [f"/d{n % 2}/r{n}" for n in range(6)] if seed % 3 == 0 else list("abcd")
    count = rng.randint(8, 16)
    brokers = tuple(Broker(n, rng.choice(racks)) for n in range(count))
    occupied = rng.sample(range(count), rng.randint(4, count))
    present = rng.randint(1, 3)
    view = ClusterView(
        brokers,
        {
            TopicPartition("t", n): tuple(rng.sample(occupied, present))
            for n in range(rng.randint(60, 200))
        },
    )
    drain = tuple(rng.sample(range(count), rng.choice((0, 1, 2))))
    factor = rng.randint(1, 4)
    plan = plan_reassignment(view, replication_factor=factor, drain=drain)
    check_reassignment(view, dict.fromkeys(view.replicas, factor), drain, plan)
    squares, _ = squares_of(view, drain, plan)
    assert (squares, plan.copies) == best(view, factor, drain)


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
