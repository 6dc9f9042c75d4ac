"""The residual network: shortest paths in it, and pushing units along all of them at once.

The residual network of a flow has a forward arc where units can be added (lanes and seats always,
direct arcs below their capacity) and a backward arc where units can be taken back.

The *length* of a forward arc is ``cost x length_per_cost + hops``, that of a backward arc
``-cost x length_per_cost + hops``. A lane and a seat count one hop, a direct arc two (as many as
the way through the hub). ``length_per_cost`` exceeds the hops of every simple path, so paths are
compared by cost and then by hops.

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

from placement_core.flow.network import MAX_INT64_COST, CostArray, Flow, IntArray, Network, Segments

INT64_INFINITY = 1 << 61
"""Greater than the length of any path in int64; twice this still fits."""


@dataclass(frozen=True, slots=True)
class ArcLengths:
    """The lengths of a network's forward arcs, without hops, and indexes for reading them in order.

    ``infinity`` is the distance of a node that cannot be reached.
    """

    length_per_cost: int
    lane: CostArray
    arc: CostArray
    infinity: int
    lanes_by_hub: Segments
    arcs_by_member: Segments
    seats_by_hub: Segments
    lane_class_order: IntArray
    arc_class_order: IntArray

    @classmethod
    def of(cls, network: Network) -> ArcLengths:
        """Return the lengths; Python integers if the longest path could exceed int64."""
        segments = min(len(network.supply), network.hub_count + len(network.demand)) + 2
        length_per_cost = 6 * segments
        costs = (network.lane_cost, network.arc_cost)
        max_cost = max((int(c.max()) for c in costs if len(c)), default=0)
        max_length = (max_cost * length_per_cost + 2) * 2 * segments
        fits = max_length < MAX_INT64_COST
        exact: type = np.int64 if fits else object
        lane: CostArray = network.lane_cost.astype(exact) * length_per_cost
        arc: CostArray = network.arc_cost.astype(exact) * length_per_cost
        return cls(
            length_per_cost=length_per_cost,
            lane=lane,
            arc=arc,
            infinity=INT64_INFINITY if fits else max(INT64_INFINITY, 4 * max_length),
            lanes_by_hub=Segments.of(network.lane_hub),
            arcs_by_member=Segments.of(network.arc_member),
            seats_by_hub=Segments.of(network.member_hub),
            lane_class_order=np.argsort(network.lane_class, kind="stable"),
            arc_class_order=np.argsort(network.arc_class, kind="stable"),
        )


@dataclass(frozen=True, slots=True)
class Distances:
    """The distance of each node from the nearest source; ``infinity`` if it cannot be reached."""

    classes: CostArray
    hubs: CostArray
    members: CostArray


def shortest_paths(
    network: Network, flow: Flow, lengths: ArcLengths, sources: IntArray
) -> Distances:
    """Return the distances from ``sources`` (class numbers): Bellman-Ford, a layer at a time.

    Raises RuntimeError if the distances do not converge. That would mean a cycle of negative cost,
    which the solver never leaves in the residual network.
    """
    exact = lengths.lane.dtype
    infinity = lengths.infinity
    classes = np.full(len(network.supply), infinity, exact)
    hubs = np.full(network.hub_count, infinity, exact)
    members = np.full(len(network.demand), infinity, exact)
    classes[sources] = 0
    forward_lane = lengths.lane + 1
    forward_arc = np.where(flow.arcs < network.arc_capacity, lengths.arc + 2, infinity)
    forward_arc = forward_arc.astype(exact)
    lanes = lengths.lane_class_order[flow.lanes[lengths.lane_class_order] > 0]
    arcs = lengths.arc_class_order[flow.arcs[lengths.arc_class_order] > 0]
    lanes_by_class = Segments.of(network.lane_class[lanes])
    arcs_by_class = Segments.of(network.arc_class[arcs])
    backward_lane = 1 - lengths.lane[lanes]
    backward_arc = 2 - lengths.arc[arcs]
    lane_hub, arc_member = network.lane_hub[lanes], network.arc_member[arcs]
    seat_in_use = flow.seats > 0
    for _ in range(len(classes) + len(hubs) + len(members) + 2):
        lengths.lanes_by_hub.minimum_at(hubs, classes[network.lane_class] + forward_lane)
        np.minimum(members, hubs[network.member_hub] + 1, out=members)
        lengths.arcs_by_member.minimum_at(members, classes[network.arc_class] + forward_arc)
        members[members > infinity // 2] = infinity  # full arcs, or tails that are not reached
        before_hubs, before_classes = hubs.copy(), classes.copy()
        lengths.seats_by_hub.minimum_at(hubs, np.where(seat_in_use, members + 1, infinity))
        lanes_by_class.minimum_at(classes, hubs[lane_hub] + backward_lane)
        arcs_by_class.minimum_at(classes, members[arc_member] + backward_arc)
        classes[classes > infinity // 2] = infinity
        if np.array_equal(before_classes, classes) and np.array_equal(before_hubs, hubs):
            return Distances(classes, hubs, members)
    raise RuntimeError("a cycle of negative cost in the residual network: a defect of the solver")


LANE, ARC, SEAT, SEAT_BACK, LANE_BACK, ARC_BACK = range(6)

UNLIMITED = 1 << 60
"""The capacity of lanes and seats; no number of units comes near it."""


@dataclass(slots=True)
class LevelGraph:
    """The residual arcs on shortest paths to some targets, as parallel lists in order of tail.

    Nodes are numbered classes first, then hubs, then members. ``first[n]`` to ``first[n + 1]`` are
    the arcs that leave node n. ``capacity`` is used up by :meth:`push`; ``kind`` and ``index`` name
    the lane, direct arc or seat that each arc stands for.
    """

    first: list[int]
    tail: list[int]
    head: list[int]
    capacity: list[int]
    kind: NDArray[np.int8]
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
        network: Network,
        flow: Flow,
        lengths: ArcLengths,
        distances: Distances,
        targets: NDArray[np.bool_],
        preference: NDArray[np.float64],
    ) -> LevelGraph:
        """Return the graph of all arcs on shortest paths to ``targets`` (flags by node).

        Arcs that leave one node are tried in descending ``preference`` of their heads.
        """
        classes, hubs = len(network.supply), network.hub_count
        distance = np.concatenate((distances.classes, distances.hubs, distances.members))
        members = np.arange(len(network.demand), dtype=np.int64) + classes + hubs
        seat_hub = network.member_hub + classes
        lane_hub, arc_member = network.lane_hub + classes, network.arc_member + classes + hubs
        open_arcs = np.flatnonzero(flow.arcs < network.arc_capacity)
        used_arcs, used_lanes = np.flatnonzero(flow.arcs), np.flatnonzero(flow.lanes)
        used_seats, seats = np.flatnonzero(flow.seats), np.arange(len(members), dtype=np.int64)
        lanes = np.arange(len(lane_hub), dtype=np.int64)
        tails, heads, indexes, capacities, kinds = [], [], [], [], []
        for kind, index, tail, head, length, capacity in (
            (LANE, lanes, network.lane_class, lane_hub, lengths.lane + 1, None),
            (ARC, open_arcs, network.arc_class[open_arcs], arc_member[open_arcs],
             lengths.arc[open_arcs] + 2, network.arc_capacity[open_arcs] - flow.arcs[open_arcs]),
            (SEAT, seats, seat_hub, members, 1, None),
            (SEAT_BACK, used_seats, members[used_seats], seat_hub[used_seats], 1,
             flow.seats[used_seats]),
            (LANE_BACK, used_lanes, lane_hub[used_lanes], network.lane_class[used_lanes],
             1 - lengths.lane[used_lanes], flow.lanes[used_lanes]),
            (ARC_BACK, used_arcs, arc_member[used_arcs], network.arc_class[used_arcs],
             2 - lengths.arc[used_arcs], flow.arcs[used_arcs]),
        ):  # fmt: skip
            tail_distance = distance[tail]
            tight = np.flatnonzero(
                (tail_distance + length == distance[head]) & (tail_distance < lengths.infinity)
            )
            tails.append(tail[tight])
            heads.append(head[tight])
            indexes.append(index[tight])
            capacities.append(
                np.full(len(tight), UNLIMITED) if capacity is None else capacity[tight]
            )
            kinds.append(np.full(len(tight), kind, np.int8))
        tail, head, index, capacity, kind_of = (
            np.concatenate(parts) for parts in (tails, heads, indexes, capacities, kinds)
        )
        useful = np.flatnonzero(_reaches_target(tail, head, targets)[head])
        order = useful[np.lexsort((-preference[head[useful]], tail[useful]))]
        tail = tail[order]
        return cls(
            first=np.searchsorted(tail, np.arange(len(distance) + 1)).tolist(),
            tail=tail.tolist(),
            head=head[order].tolist(),
            capacity=capacity[order].tolist(),
            kind=kind_of[order],
            index=index[order],
            initial_capacity=capacity[order],
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
        pushed = self.initial_capacity - np.array(self.capacity, np.int64)
        for kind, amounts, sign in (
            (LANE, flow.lanes, 1),
            (ARC, flow.arcs, 1),
            (SEAT, flow.seats, 1),
            (SEAT_BACK, flow.seats, -1),
            (LANE_BACK, flow.lanes, -1),
            (ARC_BACK, flow.arcs, -1),
        ):
            of_kind = self.kind == kind
            amounts[self.index[of_kind]] += sign * pushed[of_kind]


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
