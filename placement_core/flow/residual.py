"""Shortest distances in the residual network, from every class that has supply left.

The length of an arc is ``cost x scale + hops`` forwards and ``-cost x scale + hops``
backwards, where a lane and a seat count one hop and a direct arc two (as many as the
way through the hub). ``scale`` is more than the hops of any simple path, so that paths are
compared by cost and then by hops.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.network import Flow, IntArray, Lengths, Network, Segments

UNREACHED = 1 << 61
"""Further than any path; twice this still fits 64 bits."""

_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class Ruler:
    """The lengths of a network's arcs, and the order in which they are read."""

    scale: int
    lane: Lengths
    arc: Lengths
    unreached: int
    lanes_by_hub: Segments
    arcs_by_member: Segments
    seats_by_hub: Segments
    lane_class_order: IntArray
    arc_class_order: IntArray

    @classmethod
    def of(cls, network: Network) -> Ruler:
        """Measure ``network``; in Python integers where 64 bits could overflow."""
        segments = min(len(network.supply), network.hubs + len(network.need)) + 2
        scale = 6 * segments
        costs = (network.lane_cost, network.arc_cost)
        dearest = max((int(c.max()) for c in costs if len(c)), default=0)
        longest = (dearest * scale + 2) * 2 * segments
        exact: type = np.int64 if longest < _LIMIT else object
        lane: Lengths = network.lane_cost.astype(exact) * scale
        arc: Lengths = network.arc_cost.astype(exact) * scale
        return cls(
            scale=scale,
            lane=lane,
            arc=arc,
            unreached=max(UNREACHED, 4 * longest) if exact is object else UNREACHED,
            lanes_by_hub=Segments.of(network.lane_hub),
            arcs_by_member=Segments.of(network.arc_member),
            seats_by_hub=Segments.of(network.hub),
            lane_class_order=np.argsort(network.lane_class, kind="stable"),
            arc_class_order=np.argsort(network.arc_class, kind="stable"),
        )


@dataclass(frozen=True, slots=True)
class Distances:
    """From the nearest class with supply left to each node; ``unreached`` where there is no way."""

    classes: Lengths
    hubs: Lengths
    members: Lengths


@dataclass(frozen=True, slots=True)
class Returns:
    """The arcs that carry something, in order of the class that they lead back to."""

    lanes: IntArray
    lane_segments: Segments
    arcs: IntArray
    arc_segments: Segments

    @classmethod
    def of(cls, network: Network, flow: Flow, ruler: Ruler) -> Returns:
        """The backward arcs of ``flow``."""
        lanes = ruler.lane_class_order[flow.lanes[ruler.lane_class_order] > 0]
        arcs = ruler.arc_class_order[flow.arcs[ruler.arc_class_order] > 0]
        return cls(
            lanes=lanes,
            lane_segments=Segments.of(network.lane_class[lanes]),
            arcs=arcs,
            arc_segments=Segments.of(network.arc_class[arcs]),
        )


def measure(network: Network, flow: Flow, ruler: Ruler, sources: IntArray) -> Distances:
    """Bellman-Ford from ``sources`` (class numbers), a layer of the network at a time.

    Raises RuntimeError if the distances do not settle, which would mean a cycle of negative
    cost: the flow is never left in such a state.
    """
    exact = ruler.lane.dtype
    far = ruler.unreached
    classes = np.full(len(network.supply), far, exact)
    hubs = np.full(network.hubs, far, exact)
    members = np.full(len(network.need), far, exact)
    classes[sources] = 0
    back = Returns.of(network, flow, ruler)
    take_arc = np.where(flow.arcs < network.arc_room, ruler.arc + 2, far).astype(exact)
    take_lane = ruler.lane + 1
    give_lane = 1 - ruler.lane[back.lanes]
    give_arc = 2 - ruler.arc[back.arcs]
    lane_hub, arc_member = network.lane_hub[back.lanes], network.arc_member[back.arcs]
    seated = flow.seats > 0
    for _ in range(len(classes) + len(hubs) + len(members) + 2):
        ruler.lanes_by_hub.lower(hubs, classes[network.lane_class] + take_lane)
        np.minimum(members, hubs[network.hub] + 1, out=members)
        ruler.arcs_by_member.lower(members, classes[network.arc_class] + take_arc)
        members[members > far // 2] = far  # an arc that is full leads nowhere
        before_hubs, before_classes = hubs.copy(), classes.copy()
        ruler.seats_by_hub.lower(hubs, np.where(seated, members + 1, far))
        back.lane_segments.lower(classes, hubs[lane_hub] + give_lane)
        back.arc_segments.lower(classes, members[arc_member] + give_arc)
        classes[classes > far // 2] = far  # a way back from a node that is not reached is none
        if np.array_equal(before_classes, classes) and np.array_equal(before_hubs, hubs):
            return Distances(classes, hubs, members)
    raise RuntimeError("a cycle of negative cost in the residual network")


# ---- The arcs that lie on a shortest path from supply to need, as a graph to push units through.
#
# With at least one hop in every arc's length, both ways, no cycle of the residual network has
# length zero: the arcs with ``distance[head] = distance[tail] + length`` form an acyclic graph,
# and the reverse of such an arc is never one itself. So pushing only uses arcs up, and after
# a blocking flow the next shortest path is strictly longer: the number of phases is bounded.

LANE, ARC, SEAT, SEAT_BACK, LANE_BACK, ARC_BACK = range(6)

_UNLIMITED = 1 << 60


@dataclass(slots=True)
class Layered:
    """Arcs as parallel lists in order of their tail; nodes are classes, then hubs, then members.

    ``first[n]`` to ``first[n + 1]`` are the arcs that leave node n. ``room`` is used up by
    :meth:`push_all`.
    """

    first: list[int]
    tail: list[int]
    head: list[int]
    room: list[int]
    kind: NDArray[np.int8]
    index: IntArray
    initial_room: IntArray
    _next: list[int] = field(init=False)
    _spent: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.first[:-1]
        self._spent = [False] * (len(self.first) - 1)

    def push(self, source: int, amount: int, target_room: list[int], taken: list[int]) -> int:
        """Push up to ``amount`` units from ``source`` into nodes that have ``target_room``.

        Depth first with a current arc per node, so that no arc is tried again once it is
        full or leads nowhere. ``taken`` counts the units by target. Returns what was pushed.
        """
        following, first, spent = self._next, self.first, self._spent
        tail, head, room = self.tail, self.head, self.room
        left, node = amount, source
        path: list[int] = []
        while left:
            if target_room[node]:
                units = min(left, target_room[node])
                for arc in path:
                    if room[arc] < units:
                        units = room[arc]
                target_room[node] -= units
                taken[node] += units
                left -= units
                full = len(path)
                for at in range(len(path) - 1, -1, -1):
                    room[path[at]] -= units
                    if not room[path[at]]:
                        full = at
                if full < len(path):
                    node = tail[path[full]]
                    del path[full:]
                continue
            at, end = following[node], first[node + 1]
            while at < end and (not room[at] or spent[head[at]]):
                at += 1
            following[node] = at
            if at < end:
                path.append(at)
                node = head[at]
                continue
            spent[node] = True
            if not path:
                break
            node = tail[path.pop()]
        return amount - left

    def apply(self, flow: Flow) -> None:
        """Add what was pushed to ``flow``."""
        pushed = self.initial_room - np.array(self.room, np.int64)
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


def layer(
    network: Network,
    flow: Flow,
    ruler: Ruler,
    distances: Distances,
    targets: NDArray[np.bool_],
    greed: NDArray[np.float64],
) -> Layered:
    """The layered graph: every arc on a shortest path to one of ``targets`` (flags by node).

    Arcs that leave a node are tried in descending ``greed`` of their head.
    """
    classes, hubs = len(network.supply), network.hubs
    distance = np.concatenate((distances.classes, distances.hubs, distances.members))
    members = np.arange(len(network.need), dtype=np.int64) + classes + hubs
    seat_hub = network.hub + classes
    lane_hub, arc_member = network.lane_hub + classes, network.arc_member + classes + hubs
    some_arc = np.flatnonzero(flow.arcs < network.arc_room)
    held_arc, held_lane = np.flatnonzero(flow.arcs), np.flatnonzero(flow.lanes)
    held_seat, seats = np.flatnonzero(flow.seats), np.arange(len(members), dtype=np.int64)
    lanes = np.arange(len(lane_hub), dtype=np.int64)
    tails, heads, indexes, rooms, kinds = [], [], [], [], []
    for kind, index, tail, head, length, room in (
        (LANE, lanes, network.lane_class, lane_hub, ruler.lane + 1, None),
        (ARC, some_arc, network.arc_class[some_arc], arc_member[some_arc],
         ruler.arc[some_arc] + 2, network.arc_room[some_arc] - flow.arcs[some_arc]),
        (SEAT, seats, seat_hub, members, 1, None),
        (SEAT_BACK, held_seat, members[held_seat], seat_hub[held_seat], 1, flow.seats[held_seat]),
        (LANE_BACK, held_lane, lane_hub[held_lane], network.lane_class[held_lane],
         1 - ruler.lane[held_lane], flow.lanes[held_lane]),
        (ARC_BACK, held_arc, arc_member[held_arc], network.arc_class[held_arc],
         2 - ruler.arc[held_arc], flow.arcs[held_arc]),
    ):  # fmt: skip
        tail_distance = distance[tail]
        tight = np.flatnonzero(
            (tail_distance + length == distance[head]) & (tail_distance < ruler.unreached)
        )
        tails.append(tail[tight])
        heads.append(head[tight])
        indexes.append(index[tight])
        rooms.append(np.full(len(tight), _UNLIMITED) if room is None else room[tight])
        kinds.append(np.full(len(tight), kind, np.int8))
    tail, head, index, room, kind_of = (
        np.concatenate(parts) for parts in (tails, heads, indexes, rooms, kinds)
    )
    useful = np.flatnonzero(_leads_on(tail, head, targets)[head])
    order = useful[np.lexsort((-greed[head[useful]], tail[useful]))]
    tail = tail[order]
    first = np.searchsorted(tail, np.arange(len(distance) + 1))
    return Layered(
        first=first.tolist(),
        tail=tail.tolist(),
        head=head[order].tolist(),
        room=room[order].tolist(),
        kind=kind_of[order],
        index=index[order],
        initial_room=room[order],
    )


def _leads_on(tail: IntArray, head: IntArray, targets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Flags of the nodes from which a target can be reached; the graph has no cycle."""
    leads = targets.copy()
    while len(tail):
        onward = leads[head]
        leads[tail[onward]] = True
        remaining = ~onward
        if remaining.all():
            break
        tail, head = tail[remaining], head[remaining]
    return leads
