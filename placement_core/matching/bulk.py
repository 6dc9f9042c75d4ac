"""The paths of one take, filled by array operations before any path is searched for.

Most units go straight from their class to a member with need left. Filling those whole
arrays at a time, evenly, leaves little for the search of longer paths.
"""

from __future__ import annotations

import numpy as np

from placement_core.matching.distances import Distances, Ruler
from placement_core.matching.network import Flow, IntArray, Network, Segments
from placement_core.matching.pour import pour


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
