"""Shortest distances in the residual network, from every class that has supply left.

The length of an arc is ``cost x scale + hops`` forwards and ``-cost x scale + hops``
backwards, where a lane and a seat count one hop and a direct arc two (as many as the
way through the hub). ``scale`` is more than the hops of any simple path, so that paths are
compared by cost and then by hops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_core.matching.network import Flow, IntArray, Lengths, Network, Segments

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
