"""Random transportation networks, solutions by OR-tools and by enumeration, and checks of flows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from ortools.graph.python import min_cost_flow

from placement_core.flow import Flow, Network
from tests.support.assignments import Facts

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


# ---- The balanced blocks of a group, by enumeration.
#
# ``max_imbalance`` is a share of the level of a member's block, so the tests need levels that are
# computed independently. In each connected component of topics and members, h is the average load
# rounded up. Either loads of h and h-1 alone are possible, and the component is one block of level
# h, or some set of topics is too large for its subscribers. Then the smallest set with the maximum
# excess is split off with its subscribers, and both parts are treated alike. Enumerating all sets
# of topic classes is slow, and simple enough for an oracle.

Sizes = dict[frozenset[int], int]
"""Subscribers of a class of topics to the partitions of all topics of that class."""


def topic_classes(facts: Facts) -> Sizes:
    """Return the number of partitions by set of subscribers, without empty topics."""
    sizes: Sizes = {}
    for candidates in facts.candidates:
        key = frozenset(candidates)
        sizes[key] = sizes.get(key, 0) + 1
    return sizes


def components(sizes: Sizes, members: frozenset[int]) -> Iterator[tuple[Sizes, frozenset[int]]]:
    """Yield the parts of a group that share no member, by their lowest member."""
    left = set(members)
    while left:
        inside = {min(left)}
        grown = True
        while grown:
            touching = [subscribers for subscribers in sizes if subscribers & inside]
            wider = inside.union(*touching)
            grown = wider != inside
            inside = wider
        left -= inside
        part = {subscribers: size for subscribers, size in sizes.items() if subscribers & inside}
        yield part, frozenset(inside)


def too_large(sizes: Sizes, members: int, h: int) -> tuple[set[frozenset[int]], set[int]] | None:
    """Return the classes that do not fit into loads of h and h-1, and their subscribers, or None.

    ``members * h - partitions`` blanks, at most one per member, turn "h or h-1" into "exactly h". A
    set of classes is too large if it exceeds the capacity of its subscribers, with the blanks (then
    members outside can still take one each) or without. The sets of maximum excess are closed under
    intersection; the smallest is returned.
    """
    classes = list(sizes)
    blanks = members * h - sum(sizes.values())
    max_excess = 0
    smallest: set[frozenset[int]] = set()
    for bits in range(1, 1 << len(classes)):
        chosen = {key for position, key in enumerate(classes) if bits >> position & 1}
        subscribers = len(frozenset().union(*chosen))
        size = sum(sizes[key] for key in chosen)
        excess = max(size - h * subscribers, size + blanks - members - (h - 1) * subscribers)
        if excess > max_excess:
            max_excess, smallest = excess, chosen
        elif excess == max_excess and max_excess > 0:
            smallest = smallest & chosen
    if max_excess == 0:
        return None
    return smallest, set(frozenset().union(*smallest))


def levels(sizes: Sizes, members: frozenset[int]) -> dict[int, int]:
    """Return the level of each member's block: its average load, rounded up."""
    level_of: dict[int, int] = {}
    for part, inside in components(sizes, members):
        h = -(-sum(part.values()) // len(inside))
        split = too_large(part, len(inside), h)
        if split is None:
            level_of.update(dict.fromkeys(inside, h))
            continue
        heavy, crowded = split
        level_of.update(levels({key: part[key] for key in heavy}, frozenset(crowded)))
        rest: Sizes = {}
        for key, size in part.items():
            if key not in heavy:
                outside = key - crowded
                rest[outside] = rest.get(outside, 0) + size
        level_of.update(levels(rest, inside - crowded))
    return level_of
