"""The residual network: shortest paths in it, and pushing units along all of them at once.

The residual network of a flow has a forward arc where units can be added (lanes and seats always,
direct arcs below their capacity) and a backward arc where units can be taken back.

The *length* of a forward arc is ``cost x length_per_cost + hops``, that of a backward arc
``-cost x length_per_cost + hops``. A lane and a seat count one hop, a direct arc two (as many as
the way through the hub). ``length_per_cost`` exceeds the hops of every simple path, so paths are
compared by cost and then by hops.

:class:`ResidualArcs` has all arcs of both directions in one row, so that a few array operations
find something among all kinds of them.

Every arc has at least one hop in both directions, so no cycle of the residual network has length
zero. Hence the arcs with ``distance[head] = distance[tail] + length``, which lie on shortest
paths, form an acyclic graph, the :class:`LevelGraph`, and the reverse of such an arc is never in
it. Pushing units only uses its arcs up, and after a blocking flow the next shortest path is
strictly longer. That bounds the number of phases of :mod:`~placement_core.flow.min_cost_flow`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.network import (
    MAX_INT64_COST,
    UNLIMITED,
    CostArray,
    Flow,
    IntArray,
    Network,
    Segments,
)

INT64_INFINITY = 1 << 61
"""Greater than the length of any path in int64; twice this still fits."""


@dataclass(frozen=True, slots=True)
class ResidualArcs:
    """The arcs of a network in both directions, in one row.

    First the lanes, direct arcs and seats, as in :class:`~placement_core.flow.network.Flow`, then
    backward the seats, lanes and direct arcs. Nodes are numbered classes first, then hubs, then
    members.

    tail, head, length
        Per arc.
    capacity
        Per forward arc. That of lanes and seats is UNLIMITED.
    length_per_cost
        What a cost of 1 adds to a length.
    infinity
        The distance of a node that cannot be reached.
    lanes_by_hub, arcs_by_member, seats_by_hub
        The runs of forward arcs with one hub or one member.
    class_order, backward_by_class
        The stable order by class of the backward lanes and direct arcs, and the runs in it.
    """

    tail: IntArray
    head: IntArray
    length: CostArray
    capacity: IntArray
    length_per_cost: int
    infinity: int
    lanes_by_hub: Segments
    arcs_by_member: Segments
    seats_by_hub: Segments
    class_order: IntArray
    backward_by_class: Segments

    @classmethod
    def of(cls, network: Network) -> ResidualArcs:
        """Return the arcs; lengths are Python integers if the longest path could exceed int64."""
        classes, members = len(network.supply), len(network.demand)
        first_member = classes + network.hub_count
        lanes = len(network.lane_class)
        segments = min(classes, network.hub_count + members) + 2
        length_per_cost = 6 * segments
        cost: CostArray = np.concatenate((network.lane_cost, network.arc_cost))
        max_length = (int(cost.max(initial=0)) * length_per_cost + 2) * 2 * segments
        fits = max_length < MAX_INT64_COST
        cost = cost.astype(np.int64 if fits else object) * length_per_cost
        hops = np.full(len(cost), 2)
        hops[:lanes] = 1
        seat_length = np.ones(members, np.int64)
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
            length=np.concatenate((cost + hops, seat_length, seat_length, hops - cost)),
            capacity=capacity,
            length_per_cost=length_per_cost,
            infinity=INT64_INFINITY if fits else max(INT64_INFINITY, 4 * max_length),
            lanes_by_hub=Segments.of(network.lane_hub),
            arcs_by_member=Segments.of(network.arc_member),
            seats_by_hub=Segments.of(network.member_hub),
            class_order=class_order,
            backward_by_class=Segments.of(of_class[class_order]),
        )

    def capacities(self, flow: Flow) -> IntArray:
        """Return how many units each arc can take, given ``flow``."""
        return np.concatenate((self.capacity - flow.units, flow.seats, flow.lanes, flow.arcs))


@dataclass(frozen=True, slots=True)
class Distances:
    """The distance of each node from the nearest source; ``infinity`` if it cannot be reached.

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
    network: Network, flow: Flow, residual: ResidualArcs, sources: IntArray
) -> Distances:
    """Return the distances from ``sources`` (class numbers): Bellman-Ford, a layer at a time.

    Raises RuntimeError if the distances do not converge. That would mean a cycle of negative cost,
    which the solver never leaves in the residual network.
    """
    infinity = residual.infinity
    count = len(network.supply) + network.hub_count + len(network.demand)
    nodes: CostArray = np.full(count, infinity, residual.length.dtype)
    nodes[sources] = 0
    classes, hubs, members = split_by_layer(network, nodes)
    inner = nodes[: count - len(members)]
    # What leads through an arc that can take nothing, or from a node that is not reached, is
    # longer than half of infinity, and any path is shorter.
    length = np.where(residual.capacities(flow) > 0, residual.length, infinity)
    lane_end, forward = len(network.lane_class), len(residual.capacity)
    seat_end = forward + len(members)
    lane, arc = length[:lane_end], length[lane_end : forward - len(members)]
    seat_back, backward = length[forward:seat_end], length[seat_end:][residual.class_order]
    backward_tail = residual.tail[seat_end:][residual.class_order]
    has_flow = flow.units.any()
    for _ in range(count + 2):
        residual.lanes_by_hub.minimum_at(hubs, classes[network.lane_class] + lane)
        np.minimum(members, hubs[network.member_hub] + 1, out=members)
        residual.arcs_by_member.minimum_at(members, classes[network.arc_class] + arc)
        before = inner.copy()
        if has_flow:
            residual.seats_by_hub.minimum_at(hubs, members + seat_back)
            residual.backward_by_class.minimum_at(classes, nodes[backward_tail] + backward)
        nodes[nodes > infinity // 2] = infinity
        if (inner == before).all():
            return Distances(nodes, classes, hubs, members)
    raise RuntimeError("a cycle of negative cost in the residual network: a defect of the solver")


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
        targets: NDArray[np.bool_],
        preference: NDArray[np.float64],
    ) -> LevelGraph:
        """Return the graph of all arcs on shortest paths to ``targets`` (flags by node).

        Arcs that leave one node are tried in descending ``preference`` of their heads.
        """
        distance, capacity = distances.nodes, residual.capacities(flow)
        tight = distance[residual.tail] + residual.length == distance[residual.head]
        index = (tight & (capacity > 0)).nonzero()[0]
        tail, head = residual.tail[index], residual.head[index]
        useful = _reaches_target(tail, head, targets)[head].nonzero()[0]
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


def _reaches_target(
    tail: IntArray, head: IntArray, targets: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return flags of the nodes from which a target can be reached in an acyclic graph."""
    reaches = targets.copy()
    while len(tail):
        onward = reaches[head]
        reaches[tail[onward]] = True
        remaining = ~onward
        if remaining.all():
            break
        tail, head = tail[remaining], head[remaining]
    return reaches
