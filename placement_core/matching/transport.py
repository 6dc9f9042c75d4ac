"""The transportation solver: successive shortest paths, a blocking flow at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_core.matching.bulk import fill_directly
from placement_core.matching.distances import Distances, Ruler, measure
from placement_core.matching.layered import layer
from placement_core.matching.network import Flow, IntArray, Network


@dataclass(frozen=True, slots=True)
class Solution:
    """A flow of least cost among those that send as much, and whether it sends everything.

    Where it does not (``flow.left`` says what stayed), ``stuck`` holds the distances from
    the classes that are left: the reached side is a minimum cut.
    """

    network: Network
    ruler: Ruler
    flow: Flow
    stuck: Distances | None


def solve(network: Network) -> Solution:
    """Send all supply into the members' needs at least cost, or as much as can be sent.

    The classes in ``network.late`` follow when the others are sent: a flow without negative
    residual cycles stays so whichever sources open next, and fillers that come last find
    the gaps where they are.

    Raises RuntimeError on a defect of the solver itself, never for what the input says.
    """
    ruler = Ruler.of(network)
    flow = Flow.empty(network)
    is_late = np.zeros(len(network.supply), bool)
    is_late[network.late] = True
    for turn in (~is_late, is_late):
        while len(sources := np.flatnonzero(turn & (flow.left > 0))):
            distances = measure(network, flow, ruler, sources)
            wanting = np.flatnonzero(flow.need > 0)
            nearest = int(distances.members[wanting].min()) if len(wanting) else ruler.unreached
            if nearest >= ruler.unreached:
                return Solution(network, ruler, flow, distances)
            before = int(flow.left.sum())
            targets = wanting[distances.members[wanting] == nearest]
            fill_directly(network, flow, ruler, distances, sources, targets)
            _push_on(network, flow, ruler, distances, sources, targets)
            if int(flow.left.sum()) == before:
                raise RuntimeError("a shortest path that takes no unit")
    return Solution(network, ruler, flow, None)


def _push_on(
    network: Network,
    flow: Flow,
    ruler: Ruler,
    distances: Distances,
    sources: IntArray,
    targets: IntArray,
) -> None:
    """Complete the blocking flow through paths of any number of arcs."""
    sources = sources[flow.left[sources] > 0]
    targets = targets[flow.need[targets] > 0]
    if not len(sources) or not len(targets):
        return
    before_members = len(network.supply) + network.hubs
    nodes = before_members + len(network.need)
    is_target = np.zeros(nodes, bool)
    is_target[targets + before_members] = True
    greed = np.zeros(nodes)
    greed[before_members:] = flow.need / np.maximum(network.need, 1)
    graph = layer(network, flow, ruler, distances, is_target, greed)
    room = np.zeros(nodes, np.int64)
    room[targets + before_members] = flow.need[targets]
    target_room, taken = room.tolist(), [0] * nodes
    for source in sources.tolist():
        flow.left[source] -= graph.push(source, int(flow.left[source]), target_room, taken)
    flow.need -= np.array(taken[before_members:], np.int64)
    graph.apply(flow)
