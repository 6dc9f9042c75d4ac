"""The residual network: shortest paths in it, and pushing units along all of them at once.

The residual network of a flow has a forward arc where units can be added (lanes and seats always,
direct arcs below their capacity) and a backward arc where units can be taken back.

A forward arc costs what it costs in the network, a backward arc the negative of that. Paths are
compared by cost and then by arcs: :func:`shortest_paths` finds the costs, and the
:class:`LevelGraph` has, of the arcs on cheapest paths, those on paths of fewest arcs. It is
acyclic, and the reverse of an arc is never in it. Pushing units only uses its arcs up, and after a
blocking flow the next path is costlier or has more arcs. That bounds the number of phases of
:mod:`~placement_core.flow.min_cost_flow`.

:class:`ResidualArcs` has all arcs of both directions in one row, so that a few array operations
find something among all kinds of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.network import (
    UNLIMITED,
    CostArray,
    Flow,
    IntArray,
    Network,
    Segments,
)

INT64_INFINITY = 1 << 61
"""Greater than the cost of any path in int64; twice this still fits."""

MAX_INT64_DISTANCE = 1 << 59
"""Arcs and paths in int64 cost less: what is beyond half of infinity then leads nowhere."""


@dataclass(frozen=True, slots=True)
class ResidualArcs:
    """The arcs of a network in both directions, in one row.

    First the lanes, direct arcs and seats, as in :class:`~placement_core.flow.network.Flow`, then
    backward the seats, lanes and direct arcs. Nodes are numbered classes first, then hubs, then
    members.

    tail, head, cost
        Per arc.
    capacity
        Per forward arc. That of lanes and seats is UNLIMITED.
    infinity
        The distance of a node that cannot be reached.
    lanes_by_hub, arcs_by_member, seats_by_hub
        The runs of forward arcs with one hub or one member.
    class_order, out_by_class
        The stable order by class of the backward lanes and direct arcs, and the runs in it.
    """

    tail: IntArray
    head: IntArray
    cost: CostArray
    capacity: IntArray
    infinity: int
    lanes_by_hub: Segments
    arcs_by_member: Segments
    seats_by_hub: Segments
    class_order: IntArray
    out_by_class: Segments
    backward: IntArray

    @classmethod
    def of(cls, network: Network, *, int64: bool = True) -> ResidualArcs:
        """Return the arcs; costs are Python integers without ``int64``, or if one exceeds it."""
        classes, members = len(network.supply), len(network.demand)
        first_member = classes + network.hub_count
        lanes = len(network.lane_class)
        cost: CostArray = np.concatenate((network.lane_cost, network.arc_cost))
        max_cost = int(cost.max(initial=0))
        fits = int64 and max_cost < MAX_INT64_DISTANCE
        cost = cost.astype(np.int64 if fits else object)
        free = np.zeros(members, np.int64)
        longest = 4 * (min(classes, network.hub_count + members) + 2) * max_cost
        capacity = np.full(len(cost) + members, UNLIMITED)
        capacity[lanes : len(cost)] = network.arc_capacity
        of_class = np.concatenate((network.lane_class, network.arc_class))
        class_order = np.argsort(of_class, kind="stable")
        lane_hub, arc_member = network.lane_hub + classes, network.arc_member + first_member
        seat_hub = network.member_hub + classes
        seat_member = np.arange(first_member, first_member + members)
        return cls(
            tail=np.concatenate((of_class, seat_hub, seat_member, lane_hub, arc_member)),
            head=np.concatenate((lane_hub, arc_member, seat_member, seat_hub, of_class)),
            cost=np.concatenate((cost, free, free, -cost)),
            capacity=capacity,
            infinity=INT64_INFINITY if fits else max(INT64_INFINITY, longest),
            lanes_by_hub=Segments.of(network.lane_hub),
            arcs_by_member=Segments.of(network.arc_member),
            seats_by_hub=Segments.of(network.member_hub),
            class_order=class_order,
            out_by_class=Segments.of(of_class[class_order]),
            backward=np.concatenate((np.arange(members, members + len(cost)), np.arange(members))),
        )

    def capacities(self, flow: Flow) -> IntArray:
        """Return how many units each arc can take, given ``flow``."""
        return np.concatenate((self.capacity - flow.units, flow.seats, flow.lanes, flow.arcs))


@dataclass(frozen=True, slots=True)
class Distances:
    """The distance of each node to the nearest target; ``infinity`` if it reaches none.

    ``classes``, ``hubs`` and ``members`` are parts of ``nodes``.
    """

    nodes: CostArray
    classes: CostArray
    hubs: CostArray
    members: CostArray


def split_by_layer(network: Network, nodes: CostArray) -> tuple[CostArray, CostArray, CostArray]:
    """Return the parts of ``nodes``, a value per node, that classes, hubs and members have."""
    first_hub = len(network.supply)
    first_member = first_hub + network.hub_count
    return nodes[:first_hub], nodes[first_hub:first_member], nodes[first_member:]


def shortest_paths(
    network: Network, flow: Flow, residual: ResidualArcs, targets: IntArray
) -> Distances:
    """Return the distances to ``targets`` (member numbers): Bellman-Ford, a layer at a time.

    Raises OverflowError if a distance gets too long for int64, and RuntimeError if the distances do
    not converge. That would mean a cycle of negative cost, which the solver never leaves in the
    residual network.
    """
    infinity = residual.infinity
    limit = infinity if residual.cost.dtype == object else MAX_INT64_DISTANCE
    count = len(network.supply) + network.hub_count + len(network.demand)
    nodes: CostArray = np.full(count, infinity, residual.cost.dtype)
    classes, hubs, members = split_by_layer(network, nodes)
    members[targets] = 0
    # What leads through an arc that can take nothing, or to a node that reaches no target, is
    # longer than half of infinity, and any path is shorter.
    lane_end, forward = len(network.lane_class), len(residual.capacity)
    lane = residual.cost[:lane_end]
    arc = residual.cost[lane_end : forward - len(members)]
    arc = np.where(flow.arcs < network.arc_capacity, arc, infinity)
    out = np.concatenate((lane, arc))[residual.class_order]
    out_head = residual.head[: len(out)][residual.class_order]
    has_flow = flow.units.any()
    if has_flow:
        back = np.where(flow.units > 0, residual.cost[forward:][residual.backward], infinity)
        lane_back, arc_back = back[:lane_end], back[lane_end : forward - len(members)]
        seat_back = back[forward - len(members) :]
    inner = nodes[len(classes) :]
    for _ in range(count + 2):
        before = inner.copy()
        residual.seats_by_hub.minimum_at(hubs, members)
        residual.out_by_class.minimum_at(classes, nodes[out_head] + out)
        if has_flow:
            residual.arcs_by_member.minimum_at(members, classes[network.arc_class] + arc_back)
            residual.lanes_by_hub.minimum_at(hubs, classes[network.lane_class] + lane_back)
            np.minimum(members, hubs[network.member_hub] + seat_back, out=members)
        nodes[nodes > infinity // 2] = infinity
        if (np.abs(nodes) >= limit).any() and (np.abs(nodes[nodes < infinity]) >= limit).any():
            raise OverflowError
        if (inner == before).all():
            return Distances(nodes, classes, hubs, members)
    raise RuntimeError("a cycle of negative cost in the residual network: a defect of the solver")


def reached_from(
    flow: Flow, residual: ResidualArcs, sources: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return flags of the nodes that can be reached from ``sources`` (flags by node)."""
    usable = residual.capacities(flow) > 0
    return _closure(residual.tail[usable], residual.head[usable], sources)


@dataclass(slots=True)
class LevelGraph:
    """The residual arcs on shortest paths to some targets, as parallel lists in order of tail.

    ``first[n]`` to ``first[n + 1]`` are the arcs that leave node n, ``index`` their numbers among
    the residual arcs. ``capacity`` is used up by :meth:`push`.
    """

    first: list[int]
    tail: list[int]
    head: list[int]
    capacity: list[int]
    index: IntArray
    initial_capacity: IntArray
    _current_arc: list[int] = field(init=False)
    _dead_end: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self._current_arc = self.first[:-1]
        self._dead_end = [False] * (len(self.first) - 1)

    @classmethod
    def build(
        cls,
        flow: Flow,
        residual: ResidualArcs,
        distances: Distances,
        sources: NDArray[np.bool_],
        targets: IntArray,
        preference: NDArray[np.float64],
    ) -> LevelGraph:
        """Return the graph of the cheapest paths from ``sources`` (flags) to ``targets`` (nodes).

        Of the cheapest paths from each node, it has those of fewest arcs.

        Arcs that leave one node are tried in descending ``preference`` of their heads.
        """
        distance, capacity = distances.nodes, residual.capacities(flow)
        tight = distance[residual.head] + residual.cost == distance[residual.tail]
        index = (tight & (capacity > 0)).nonzero()[0]
        tail, head = residual.tail[index], residual.head[index]
        arcs_left = _fewest_arcs(tail, head, targets, len(distance))
        fewest = (arcs_left[tail] == arcs_left[head] + 1).nonzero()[0]
        tail, head, index = tail[fewest], head[fewest], index[fewest]
        useful = _closure(tail, head, sources)[tail].nonzero()[0]
        order = useful[np.lexsort((-preference[head[useful]], tail[useful]))]
        tail, index = tail[order], index[order]
        return cls(
            first=tail.searchsorted(np.arange(len(distance) + 1)).tolist(),
            tail=tail.tolist(),
            head=head[order].tolist(),
            capacity=capacity[index].tolist(),
            index=index,
            initial_capacity=capacity[index],
        )

    def push(self, source: int, amount: int, demand: list[int], received: list[int]) -> int:
        """Push up to ``amount`` units from ``source``; return how many were pushed.

        ``demand`` is what each node can still take and is reduced, ``received`` counts the units
        by node. The search is depth first with a current arc per node, so that no arc is tried
        again once it is full or leads nowhere.
        """
        current_arc, first, dead_end = self._current_arc, self.first, self._dead_end
        tail, head, capacity = self.tail, self.head, self.capacity
        left, node = amount, source
        path: list[int] = []
        while left:
            if demand[node]:
                units = min(left, demand[node])
                for arc in path:
                    if capacity[arc] < units:
                        units = capacity[arc]
                demand[node] -= units
                received[node] += units
                left -= units
                full = len(path)
                for at in range(len(path) - 1, -1, -1):
                    capacity[path[at]] -= units
                    if not capacity[path[at]]:
                        full = at
                if full < len(path):
                    node = tail[path[full]]
                    del path[full:]
                continue
            at, end = current_arc[node], first[node + 1]
            while at < end and (not capacity[at] or dead_end[head[at]]):
                at += 1
            current_arc[node] = at
            if at < end:
                path.append(at)
                node = head[at]
                continue
            dead_end[node] = True
            if not path:
                break
            node = tail[path.pop()]
        return amount - left

    def apply(self, flow: Flow) -> None:
        """Add what was pushed to ``flow``."""
        forward, members = len(flow.units), len(flow.unmet)
        pushed = np.zeros(2 * forward, np.int64)
        pushed[self.index] = self.initial_capacity - np.array(self.capacity, np.int64)
        flow.units += pushed[:forward]
        flow.seats -= pushed[forward : forward + members]
        flow.units[: forward - members] -= pushed[forward + members :]


def _closure(tail: IntArray, head: IntArray, sources: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return flags of the nodes that arcs lead to from ``sources``, and of the sources."""
    reached = sources.copy()
    while len(tail):
        onward = reached[tail]
        reached[head[onward]] = True
        remaining = ~onward & ~reached[head]
        if not onward.any():
            break
        tail, head = tail[remaining], head[remaining]
    return reached


def _fewest_arcs(tail: IntArray, head: IntArray, targets: IntArray, nodes: int) -> IntArray:
    """Return the arcs from each node to the nearest target; ``nodes`` if it reaches none."""
    fewest = np.full(nodes, nodes)
    fewest[targets] = 0
    for arcs in range(1, nodes):
        leads_there = (fewest[head] == arcs - 1) & (fewest[tail] > arcs)
        if not leads_there.any():
            break
        fewest[tail[leads_there]] = arcs
        tail, head = tail[~leads_there], head[~leads_there]
    return fewest
