"""Random transportation networks, their solution by OR-tools, and a check of flows."""

from __future__ import annotations

import numpy as np
from ortools.graph.python import min_cost_flow

from placement_core.flow import Flow, Network

NO_LIMIT = 10**6


def random_network(seed: int, *, filled: bool = False) -> Network:
    """Return a small network; with ``filled``, the sums of supply and demand are equal."""
    rng = np.random.default_rng(seed)
    classes, hubs = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    members = int(rng.integers(hubs, 12))
    hub = np.sort(np.concatenate((np.arange(hubs), rng.integers(0, hubs, members - hubs))))
    lane_hub, lane_class = np.nonzero(rng.random((hubs, classes)) < 0.6)
    arc_member, arc_class = np.nonzero(rng.random((members, classes)) < 0.2)
    demand = rng.integers(0, 9, members)
    supply = rng.integers(0, 12, classes)
    if filled:
        supply = np.bincount(rng.integers(0, classes, int(demand.sum())), minlength=classes)
    return Network(
        supply=supply,
        demand=demand,
        member_hub=hub,
        hub_count=hubs,
        lane_class=lane_class,
        lane_hub=lane_hub,
        lane_cost=rng.integers(0, 6, len(lane_class)),
        arc_class=arc_class,
        arc_member=arc_member,
        arc_capacity=rng.integers(0, 5, len(arc_class)),
        arc_cost=rng.integers(0, 6, len(arc_class)),
        deferred=np.arange(1 if rng.random() < 0.3 else 0),
    )


def max_flow_at_min_cost(network: Network) -> tuple[int, int]:
    """Return the maximum number of units that can be sent, and the minimum cost of that many."""
    solver = min_cost_flow.SimpleMinCostFlow()
    classes, hubs, members = len(network.supply), network.hub_count, len(network.demand)
    source = classes + hubs + members
    add = solver.add_arc_with_capacity_and_unit_cost
    for i, units in enumerate(network.supply.tolist()):
        add(source, i, units, 0)
    lanes = zip(network.lane_class, network.lane_hub, network.lane_cost, strict=True)
    for i, hub, cost in lanes:
        add(int(i), classes + int(hub), NO_LIMIT, int(cost))
    for member in range(members):
        node = classes + hubs + member
        add(classes + int(network.member_hub[member]), node, NO_LIMIT, 0)
        add(node, source + 1, int(network.demand[member]), 0)
    arcs = zip(
        network.arc_class, network.arc_member, network.arc_capacity, network.arc_cost, strict=True
    )
    for i, member, capacity, cost in arcs:
        add(int(i), classes + hubs + int(member), int(capacity), int(cost))
    total = int(network.supply.sum())
    solver.set_node_supply(source, total)
    solver.set_node_supply(source + 1, -total)
    assert solver.solve_max_flow_with_min_cost() == solver.OPTIMAL
    return solver.maximum_flow(), solver.optimal_cost()


def check_flow(network: Network, flow: Flow) -> None:
    """Assert that the flow respects every capacity and conserves units."""
    classes, members = len(network.supply), len(network.demand)
    for amounts in (flow.lanes, flow.arcs, flow.seats, flow.unsent, flow.unmet):
        assert (amounts >= 0).all()
    assert (flow.arcs <= network.arc_capacity).all()
    sent = np.bincount(network.lane_class, flow.lanes, classes)
    sent = sent + np.bincount(network.arc_class, flow.arcs, classes)
    assert (sent == network.supply - flow.unsent).all()
    into = np.bincount(network.lane_hub, flow.lanes, network.hub_count)
    assert (into == np.bincount(network.member_hub, flow.seats, network.hub_count)).all()
    received = flow.seats + np.bincount(network.arc_member, flow.arcs, members)
    assert (received == network.demand - flow.unmet).all()
