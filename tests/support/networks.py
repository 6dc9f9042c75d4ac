"""Random transportation networks, and OR-tools' answer to them."""

from __future__ import annotations

import numpy as np
from ortools.graph.python import min_cost_flow

from placement_core.flow import Flow, Network

NO_LIMIT = 10**6


def random_network(seed: int, *, filled: bool = False) -> Network:
    """A small network; with ``filled``, supply and need are equal in sum."""
    rng = np.random.default_rng(seed)
    classes, hubs = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    members = int(rng.integers(hubs, 12))
    hub = np.sort(np.concatenate((np.arange(hubs), rng.integers(0, hubs, members - hubs))))
    lane_hub, lane_class = np.nonzero(rng.random((hubs, classes)) < 0.6)
    arc_member, arc_class = np.nonzero(rng.random((members, classes)) < 0.2)
    need = rng.integers(0, 9, members)
    supply = rng.integers(0, 12, classes)
    if filled:
        supply = np.bincount(rng.integers(0, classes, int(need.sum())), minlength=classes)
    return Network(
        supply=supply,
        need=need,
        hub=hub,
        hubs=hubs,
        lane_class=lane_class,
        lane_hub=lane_hub,
        lane_cost=rng.integers(0, 6, len(lane_class)),
        arc_class=arc_class,
        arc_member=arc_member,
        arc_room=rng.integers(0, 5, len(arc_class)),
        arc_cost=rng.integers(0, 6, len(arc_class)),
        late=np.arange(1 if rng.random() < 0.3 else 0),
    )


def most_for_least(network: Network) -> tuple[int, int]:
    """How much can be sent, and the least cost of sending that much."""
    solver = min_cost_flow.SimpleMinCostFlow()
    classes, hubs, members = len(network.supply), network.hubs, len(network.need)
    source = classes + hubs + members
    add = solver.add_arc_with_capacity_and_unit_cost
    for i, units in enumerate(network.supply.tolist()):
        add(source, i, units, 0)
    lanes = zip(network.lane_class, network.lane_hub, network.lane_cost, strict=True)
    for i, hub, cost in lanes:
        add(int(i), classes + int(hub), NO_LIMIT, int(cost))
    for member in range(members):
        node = classes + hubs + member
        add(classes + int(network.hub[member]), node, NO_LIMIT, 0)
        add(node, source + 1, int(network.need[member]), 0)
    arcs = zip(
        network.arc_class, network.arc_member, network.arc_room, network.arc_cost, strict=True
    )
    for i, member, room, cost in arcs:
        add(int(i), classes + hubs + int(member), int(room), int(cost))
    total = int(network.supply.sum())
    solver.set_node_supply(source, total)
    solver.set_node_supply(source + 1, -total)
    assert solver.solve_max_flow_with_min_cost() == solver.OPTIMAL
    return solver.maximum_flow(), solver.optimal_cost()


def check_flow(network: Network, flow: Flow) -> None:
    """The flow obeys every capacity and loses no unit on the way."""
    classes, members = len(network.supply), len(network.need)
    for amounts in (flow.lanes, flow.arcs, flow.seats, flow.left, flow.need):
        assert (amounts >= 0).all()
    assert (flow.arcs <= network.arc_room).all()
    sent = np.bincount(network.lane_class, flow.lanes, classes)
    sent = sent + np.bincount(network.arc_class, flow.arcs, classes)
    assert (sent == network.supply - flow.left).all()
    into = np.bincount(network.lane_hub, flow.lanes, network.hubs)
    assert (into == np.bincount(network.hub, flow.seats, network.hubs)).all()
    got = flow.seats + np.bincount(network.arc_member, flow.arcs, members)
    assert (got == network.need - flow.need).all()
