"""The transportation solver: successive shortest paths, a blocking flow at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement_core.flow.network import Flow, IntArray, Network, Segments
from placement_core.flow.residual import Distances, Ruler, layer, measure

# ---- Pour units into vessels so that what stays open is level.


def pour(amount: int, gaps: IntArray, sizes: IntArray) -> IntArray:
    """How much of ``amount`` goes into each vessel, the relatively emptiest first.

    ``gaps`` is what each vessel can take, ``sizes`` (positive) what it takes when empty;
    what is left open is the same share of each size, up to rounding. Level gaps are what
    keeps later units, of which a vessel takes few, from needing long detours: this is a
    matter of speed, never of the optimum.
    """
    if amount >= int(gaps.sum()):
        return gaps.copy()
    shares = gaps / sizes
    order = np.argsort(-shares, kind="stable")
    gap, size = gaps[order], sizes[order]
    water_line = max(float(((np.cumsum(gap) - amount) / np.cumsum(size)).max()), 0.0)
    taken: IntArray = np.clip(np.floor(gap - water_line * size), 0, gap).astype(np.int64)
    _settle_rounding(amount - int(taken.sum()), taken, gap)
    poured = np.empty_like(taken)
    poured[order] = taken
    return poured


def _settle_rounding(rest: int, taken: IntArray, gap: IntArray) -> None:
    """Give the ``rest`` that rounding left, one each, or take back what it gave too much."""
    while rest:
        able: NDArray[np.intp] = np.flatnonzero(taken < gap if rest > 0 else taken > 0)
        chosen = able[: abs(rest)]
        taken[chosen] += 1 if rest > 0 else -1
        rest -= len(chosen) if rest > 0 else -len(chosen)


# ---- The paths of one take, filled by array operations before any path is searched for.
#
# Most units go straight from their class to a member with need left. Filling those whole
# arrays at a time, evenly, leaves little for the search of longer paths.


def fill_directly(
    network: Network,
    flow: Flow,
    ruler: Ruler,
    distances: Distances,
    sources: IntArray,
    targets: IntArray,
) -> None:
    """Send what the ``sources`` can through one lane or direct arc to the ``targets``.

    Only along shortest paths: the targets are the nearest members with need left, at one
    distance.
    """
    is_source = np.zeros(len(network.supply), bool)
    is_source[sources] = distances.classes[sources] == 0
    is_target = np.zeros(len(network.need), bool)
    is_target[targets] = True
    nearest = distances.members[targets[0]]
    arcs = np.flatnonzero(
        is_source[network.arc_class]
        & is_target[network.arc_member]
        & (flow.arcs < network.arc_room)
    )
    arcs = arcs[ruler.arc[arcs] + 2 == nearest]
    if len(arcs):
        _fill_arcs(network, flow, arcs)
    lanes = np.flatnonzero(is_source[network.lane_class] & (ruler.lane + 2 == nearest))
    if len(lanes):
        _fill_lanes(network, flow, ruler, lanes)


def _fill_arcs(network: Network, flow: Flow, arcs: IntArray) -> None:
    """Fill direct arcs (in order of their members) as far as need and supply go."""
    members, classes = network.arc_member[arcs], network.arc_class[arcs]
    units = _share(flow.need, members, network.arc_room[arcs] - flow.arcs[arcs])
    wanted = np.bincount(classes, units, len(flow.left)).astype(np.int64)
    if (wanted > flow.left).any():
        by_class = np.argsort(classes, kind="stable")
        units[by_class] = _share(flow.left, classes[by_class], units[by_class])
        wanted = np.bincount(classes, units, len(flow.left)).astype(np.int64)
    flow.arcs[arcs] += units
    flow.left -= wanted
    flow.need -= np.bincount(members, units, len(flow.need)).astype(np.int64)


def _share(budget: IntArray, keys: IntArray, wishes: IntArray) -> IntArray:
    """Grant ``wishes`` (in runs of equal keys) in order, within each key's budget."""
    total = np.cumsum(wishes)
    runs = Segments.of(keys)
    lengths = np.diff(np.append(runs.starts, len(keys)))
    before_run = np.repeat(total[runs.starts] - wishes[runs.starts], lengths)
    granted: IntArray = np.clip(budget[keys] - (total - wishes - before_run), 0, wishes)
    return granted


def _fill_lanes(network: Network, flow: Flow, ruler: Ruler, lanes: IntArray) -> None:
    """Pour each class over its hubs, then each hub's intake over its members."""
    starts = ruler.seats_by_hub.starts
    gaps = np.add.reduceat(flow.need, starts)
    sizes = np.maximum(np.add.reduceat(network.need, starts), 1)
    position = np.full(network.hubs, -1, np.int64)
    position[ruler.seats_by_hub.keys] = np.arange(len(starts))
    order = np.argsort(network.lane_class[lanes], kind="stable")
    lanes = lanes[order]
    runs = Segments.of(network.lane_class[lanes])
    intake = np.zeros(len(starts), np.int64)
    for class_, of_class in zip(runs.keys.tolist(), np.split(lanes, runs.starts[1:]), strict=True):
        hubs = position[network.lane_hub[of_class]]
        units = pour(int(flow.left[class_]), gaps[hubs], sizes[hubs])
        flow.lanes[of_class] += units
        flow.left[class_] -= int(units.sum())
        gaps[hubs] -= units
        intake[hubs] += units
    _seat(flow, np.append(starts, len(flow.need)), intake, network.need)


def _seat(flow: Flow, bounds: IntArray, intake: IntArray, sizes: IntArray) -> None:
    """Spread each hub's ``intake`` over its members, whose numbers run from bound to bound."""
    lonely = np.flatnonzero((np.diff(bounds) == 1) & (intake > 0))
    members = bounds[lonely]
    flow.seats[members] += intake[lonely]
    flow.need[members] -= intake[lonely]
    for hub in np.flatnonzero((np.diff(bounds) > 1) & (intake > 0)).tolist():
        of_hub = slice(bounds[hub], bounds[hub + 1])
        units = pour(int(intake[hub]), flow.need[of_hub], np.maximum(sizes[of_hub], 1))
        flow.seats[of_hub] += units
        flow.need[of_hub] -= units


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
