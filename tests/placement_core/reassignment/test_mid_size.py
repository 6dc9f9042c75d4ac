"""Reassignments too large for CP-SAT, against OR-tools' minimum cost flow over single replicas.

    partition -> (partition, node) ... -> (partition, rack) -> broker -> sink

with the bounds of every node as capacities (lower bounds by a bonus that outweighs all else), and
for each broker an arc per unit of load at what it adds to the square.
"""

from __future__ import annotations

import random

import pytest
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from placement_core import Broker, ClusterView, TopicPartition
from placement_core.rack_bounds import RackTree
from placement_core.racks import parse_rack
from placement_core.reassignment import plan_reassignment
from tests.support.reassignments import check_reassignment, squares_of


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
