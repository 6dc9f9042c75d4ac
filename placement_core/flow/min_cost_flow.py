"""The transportation solver: successive shortest paths, a blocking flow at a time.

Goal: send all supply of a :class:`~placement_core.flow.network.Network` into its members' demand
at minimum cost. If not all can be sent, as much as possible is, at any cost.

Algorithm. Start from the empty flow. In each phase, find the distances of all classes to the
nearest members with unmet demand (:func:`~placement_core.flow.residual.shortest_paths`), and push
units along shortest paths until no such path has capacity left: each class along its own, however
long those of others are. Repeat until nothing is left to send or nothing can be sent.

1. Most units go straight from their class to a target. These paths of one lane or direct arc are
   filled by array operations, evenly over hubs and members (:func:`water_fill`). Where a hub cannot
   take all, classes come in their order: heavier partitions should come first, because they would
   displace lighter ones later.
2. The longer paths, which take units back from other members, are found by depth-first search in
   the level graph (:class:`~placement_core.flow.residual.LevelGraph`).

Every push is along a shortest path, so the residual network never has a cycle of negative cost, and
the flow has the minimum cost among all that send as much from each class.

In the worked example of :mod:`~placement_core.flow.network` (demand 2 each, fillers deferred)::

    phase  distance   what is sent
    1      cost 1     leader a -> hub a -> m1: 2 units;  leader b -> hub b -> m2: 1 unit
    2      cost 0     filler -> m2: 1 unit

Only the order of classes differs from an ordinary solver: ``deferred`` classes follow when the
others are sent. The property above holds for any order of sources, and fillers that come last find
the gaps where they are.

Proof of optimality. :func:`lower_bound` does not rest on how the solution was found, but on linear
duality. Give every class a price w and every hub and member a price v such that no lane leads to a
price above its own (``v_hub <= w_class + cost``) and no seat does (``v_member <= v_hub``). Then no
solution of the network costs less than::

    sum(demand x v_member) - sum(supply x w_class)
        - sum(capacity x max(0, v_member - w_class - cost))

where the last sum runs over the direct arcs. A solution that costs as much is optimal. Sums are
exact whatever the size of the costs: in int64 where that is safe, else in Python integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.network import CostArray, Flow, IntArray, Network, Segments
from placement_core.flow.residual import (
    Distances,
    LevelGraph,
    ResidualArcs,
    reached_from,
    shortest_paths,
    split_by_layer,
)


@dataclass(frozen=True, slots=True)
class Solution:
    """An optimal flow in a network.

    ``min_cut`` is None if all supply was sent. Otherwise it has a flag per node: whether it can be
    reached from a class with unsent supply. These nodes are full, and form the source side of a
    minimum cut.
    """

    network: Network
    residual: ResidualArcs
    flow: Flow
    min_cut: NDArray[np.bool_] | None


def solve(network: Network) -> Solution:
    """Send all supply into the members' demand at minimum cost, or as much as can be at any cost.

    Raises RuntimeError on a defect of the solver itself, never for what the input contains.
    """
    try:
        return _solve(network, ResidualArcs.of(network))
    except OverflowError:
        return _solve(network, ResidualArcs.of(network, int64=False))


def _solve(network: Network, residual: ResidualArcs) -> Solution:
    flow = Flow.empty(network)
    deferred = np.zeros(len(network.supply), bool)
    deferred[network.deferred] = True
    for stage in (~deferred, deferred):
        while len(sources := (stage & (flow.unsent > 0)).nonzero()[0]):
            targets = flow.unmet.nonzero()[0]
            distances = shortest_paths(network, flow, residual, targets)
            if (distances.classes[sources] >= residual.infinity).all():
                nodes = np.zeros(len(distances.nodes), bool)
                nodes[sources] = True
                return Solution(network, residual, flow, reached_from(flow, residual, nodes))
            before = int(flow.unsent.sum())
            _fill_directly(network, flow, residual, distances, sources, targets)
            _push_along_paths(network, flow, residual, distances, sources, targets)
            if int(flow.unsent.sum()) == before:
                raise RuntimeError("a shortest path that takes no unit: a defect of the solver")
    return Solution(network, residual, flow, None)


def _push_along_paths(
    network: Network,
    flow: Flow,
    residual: ResidualArcs,
    distances: Distances,
    sources: IntArray,
    targets: IntArray,
) -> None:
    """Complete the blocking flow with paths of any number of arcs."""
    sources = sources[flow.unsent[sources] > 0]
    targets = targets[flow.unmet[targets] > 0]
    if not len(sources) or not len(targets):
        return
    first_member = len(network.supply) + network.hub_count
    nodes = first_member + len(network.demand)
    is_source = np.zeros(nodes, bool)
    is_source[sources] = True
    preference = np.zeros(nodes)
    preference[first_member:] = flow.unmet / np.maximum(network.demand, 1)
    graph = LevelGraph.build(
        flow, residual, distances, is_source, targets + first_member, preference
    )
    demand = np.zeros(nodes, np.int64)
    demand[targets + first_member] = flow.unmet[targets]
    demand_left, received = demand.tolist(), [0] * nodes
    for source in sources.tolist():
        flow.unsent[source] -= graph.push(source, int(flow.unsent[source]), demand_left, received)
    flow.unmet -= np.array(received[first_member:], np.int64)
    graph.apply(flow)


def _fill_directly(
    network: Network,
    flow: Flow,
    residual: ResidualArcs,
    distances: Distances,
    sources: IntArray,
    targets: IntArray,
) -> None:
    """Send what the ``sources`` can through one lane or direct arc to the ``targets``.

    Only along shortest paths. The targets are all members with unmet demand.
    """
    is_source = np.zeros(len(network.supply), bool)
    is_source[sources] = True
    is_target = np.zeros(len(network.demand), bool)
    is_target[targets] = True
    lane_end = len(network.lane_class)
    lane_cost = residual.cost[:lane_end]
    arc_cost = residual.cost[lane_end : lane_end + len(network.arc_class)]
    direct = is_source[network.arc_class] & is_target[network.arc_member]
    direct &= (arc_cost == distances.classes[network.arc_class]) & (
        flow.arcs < network.arc_capacity
    )
    arcs = direct.nonzero()[0]
    if len(arcs):
        _fill_arcs(network, flow, arcs)
    has_target = np.zeros(network.hub_count, bool)
    has_target[network.member_hub[targets]] = True
    direct = is_source[network.lane_class] & has_target[network.lane_hub]
    direct &= lane_cost == distances.classes[network.lane_class]
    lanes = direct.nonzero()[0]
    if len(lanes):
        _fill_lanes(network, flow, residual, lanes)


def _fill_arcs(network: Network, flow: Flow, arcs: IntArray) -> None:
    """Fill direct arcs (sorted by member) as far as demand and supply permit."""
    members, classes = network.arc_member[arcs], network.arc_class[arcs]
    units = _grant(flow.unmet, members, network.arc_capacity[arcs] - flow.arcs[arcs])
    by_class = np.bincount(classes, units, len(flow.unsent)).astype(np.int64)
    if (by_class > flow.unsent).any():
        order = np.argsort(classes, kind="stable")
        units[order] = _grant(flow.unsent, classes[order], units[order])
        by_class = np.bincount(classes, units, len(flow.unsent)).astype(np.int64)
    flow.arcs[arcs] += units
    flow.unsent -= by_class
    flow.unmet -= np.bincount(members, units, len(flow.unmet)).astype(np.int64)


def _grant(budget: IntArray, keys: IntArray, requests: IntArray) -> IntArray:
    """Grant ``requests`` (in runs of equal keys) in order, within each key's budget."""
    before = requests.cumsum() - requests
    runs = Segments.of(keys)
    before_run = np.repeat(before[runs.starts], runs.lengths(len(keys)))
    left = budget[keys] - before + before_run
    granted: IntArray = np.minimum(np.maximum(left, 0), requests)
    return granted


def _fill_lanes(network: Network, flow: Flow, residual: ResidualArcs, lanes: IntArray) -> None:
    """Spread each class over its hubs, then the units of each hub over its members."""
    starts = residual.seats_by_hub.starts
    gaps = np.add.reduceat(flow.unmet, starts)
    sizes = np.maximum(np.add.reduceat(network.demand, starts), 1)
    position = np.full(network.hub_count, -1, np.int64)
    position[residual.seats_by_hub.keys] = np.arange(len(starts))
    lanes = lanes[np.argsort(network.lane_class[lanes], kind="stable")]
    runs = Segments.of(network.lane_class[lanes])
    received = np.zeros(len(starts), np.int64)
    if len(runs.keys) == len(lanes):
        # Each class has one hub to go to: what the classes before it leave.
        order = np.argsort(position[network.lane_hub[lanes]], kind="stable")
        lanes = lanes[order]
        hubs, classes = position[network.lane_hub[lanes]], network.lane_class[lanes]
        units = _grant(gaps, hubs, flow.unsent[classes])
        flow.lanes[lanes] += units
        flow.unsent[classes] -= units
        np.add.at(received, hubs, units)
    else:
        bounds = pairwise([*runs.starts.tolist(), len(lanes)])
        for class_, (start, end) in zip(runs.keys.tolist(), bounds, strict=True):
            of_class = lanes[start:end]
            hubs = position[network.lane_hub[of_class]]
            units = water_fill(int(flow.unsent[class_]), gaps[hubs], sizes[hubs])
            flow.lanes[of_class] += units
            flow.unsent[class_] -= int(units.sum())
            gaps[hubs] -= units
            received[hubs] += units
    _fill_seats(flow, starts, received, network.demand)


def _fill_seats(flow: Flow, starts: IntArray, received: IntArray, demand: IntArray) -> None:
    """Spread the units of each hub over its members, which run from one start to the next."""
    bounds = np.concatenate((starts, [len(demand)]))
    sizes, some = bounds[1:] - starts, received > 0
    single = (some & (sizes == 1)).nonzero()[0]
    members = starts[single]
    flow.seats[members] += received[single]
    flow.unmet[members] -= received[single]
    for hub in (some & (sizes > 1)).nonzero()[0].tolist():
        of_hub = slice(bounds[hub], bounds[hub + 1])
        sizes = np.maximum(demand[of_hub], 1)
        units = water_fill(int(received[hub]), flow.unmet[of_hub], sizes)
        flow.seats[of_hub] += units
        flow.unmet[of_hub] -= units


def water_fill(amount: int, gaps: IntArray, sizes: IntArray) -> IntArray:
    """Return how much of ``amount`` goes into each vessel, the relatively emptiest first.

    ``gaps`` is what each vessel can still take, ``sizes`` (positive) what it takes when empty. The
    gaps that remain are the same share of each size, up to rounding. Level gaps keep later units,
    of which a vessel takes few, from needing long detours: this affects the speed, never the
    optimum.
    """
    if amount >= int(gaps.sum()):
        return gaps.copy()
    if len(gaps) == 1:
        return np.array([amount])
    order = (-(gaps / sizes)).argsort(kind="stable")
    gap, size = gaps[order], sizes[order]
    water_line = max(float(((gap.cumsum() - amount) / size.cumsum()).max()), 0.0)
    taken: IntArray = np.maximum(gap - water_line * size, 0).astype(np.int64)
    # Rounding leaves a few units over, or has given out a few too many.
    while rest := amount - int(taken.sum()):
        able = (taken < gap if rest > 0 else taken > 0).nonzero()[0]
        taken[able[: abs(rest)]] += 1 if rest > 0 else -1
    filled = np.empty_like(taken)
    filled[order] = taken
    return filled


def total_cost(solution: Solution) -> int:
    """Return the cost of the solution's flow."""
    network, flow = solution.network, solution.flow
    return _dot(network.lane_cost, flow.lanes) + _dot(network.arc_cost, flow.arcs)


def lower_bound(solution: Solution) -> int:
    """Return the minimum that any solution of the network can cost, by the solution's own prices.

    Prices are the negated distances in the residual network to the nearest member. The solution
    must have sent everything and met every demand. Raises RuntimeError if the prices violate the
    conditions above, which would be a defect of the solver.
    """
    network, residual = solution.network, solution.residual
    everyone = np.arange(len(network.demand))
    try:
        distance = shortest_paths(network, solution.flow, residual, everyone).nodes
    except OverflowError:
        residual = ResidualArcs.of(network, int64=False)
        distance = shortest_paths(network, solution.flow, residual, everyone).nodes
    price = -distance
    w, v_hub, v = split_by_layer(network, price)
    # A class without lanes reaches no member if its direct arcs are full. Any price that is low
    # enough for those arcs is valid there.
    price[distance >= residual.infinity] = int(v.min(initial=0)) - int(
        network.arc_cost.max(initial=0)
    )
    if (v_hub[network.lane_hub] > w[network.lane_class] + network.lane_cost).any() or (
        v > v_hub[network.member_hub]
    ).any():
        raise RuntimeError("prices that prove nothing: a defect of the solver")
    gain = np.maximum(v[network.arc_member] - w[network.arc_class] - network.arc_cost, 0)
    return _dot(v, network.demand) - _dot(w, network.supply) - _dot(gain, network.arc_capacity)


def _dot(costs: CostArray, units: IntArray) -> int:
    """Return the exact sum of ``costs x units`` as a Python integer."""
    if int(np.abs(costs).max(initial=0)) * int(units.sum()) >= 1 << 63:
        costs = costs.astype(object)
    return int((costs * units).sum())
