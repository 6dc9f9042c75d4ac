"""The transportation network of one group of co-partitioned topics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement_core.matching import IntArray, Lengths, Network, crossing_costs, units_of_rank


@dataclass(frozen=True, slots=True)
class IndexNetwork:
    """A network whose units are partition indexes.

    ``class_of`` is the class of each index, ``order`` the position of each of the network's members
    among those it was made from. ``off_rack_unit`` is the cost of crossing the narrowest
    level once.
    """

    network: Network
    class_of: IntArray
    order: IntArray
    off_rack_unit: int


def index_network(
    crossed: IntArray,
    steps: IntArray,
    depth: int,
    member_rack: IntArray,
    totals: IntArray,
    most: int,
    even: bool,
) -> IndexNetwork:
    """Write the choice of who gets which index as a network; each member is filled to ``most``.

    ``crossed[topic, index, member rack]`` counts levels, ``steps[topic, index]`` weighs them;
    ``totals`` are the members' partitions in the groups of topics before. With ``even``, a member
    may stay one index below ``most``, else any number.

    Costs, highest rank first: crossings of each level, widest first; the squares of the
    members' totals.
    """
    topics, count, _ = crossed.shape
    members = len(member_rack)
    order = np.argsort(member_rack, kind="stable")
    racks, hub = np.unique(member_rack[order], return_inverse=True)
    fillers = members * most - count
    below = np.ones(members, np.int64) if even else np.full(members, most)
    filler_member = np.repeat(np.arange(members), below)
    nth = np.arange(len(filler_member)) - np.repeat(np.cumsum(below) - below, below) + 1
    # Filler k of a member lowers its total by ``topics``: the square falls by ``topics``
    # times this.
    falls = 2 * totals[order][filler_member] + topics * (2 * (most - nth) + 1)
    squares = falls.max(initial=0) - falls
    squares //= max(int(np.gcd.reduce(squares, initial=0)), 1)

    cycle = min(count + 1, len(racks) + members) + 1
    heaviest = topics * int(steps.max(initial=1))
    worth = units_of_rank([int(squares.max(initial=0)), *[heaviest] * depth], cycle)
    of_crossing = crossing_costs(worth[1:], heaviest)
    cost = (of_crossing[crossed[:, :, racks]] * steps[:, :, None]).sum(axis=0)
    classes, class_of = _distinct_rows(cost)
    lane_hub = np.repeat(np.arange(len(racks)), len(classes))
    lane_class = np.tile(np.arange(len(classes)), len(racks))
    return IndexNetwork(
        network=Network(
            supply=np.append(np.bincount(class_of, minlength=len(classes)), fillers),
            need=np.full(members, most),
            hub=hub,
            hubs=len(racks),
            lane_class=lane_class,
            lane_hub=lane_hub,
            lane_cost=classes.T.reshape(-1),
            arc_class=np.full(len(nth), len(classes)),
            arc_member=filler_member,
            arc_room=np.ones(len(nth), np.int64),
            arc_cost=squares,
            late=np.array([len(classes)]),
        ),
        class_of=class_of,
        order=order,
        off_rack_unit=worth[1],
    )


def _distinct_rows(cost: Lengths) -> tuple[Lengths, IntArray]:
    """The distinct rows of ``cost``, and each row's place among them."""
    if cost.dtype == object:
        places: dict[tuple[int, ...], int] = {}
        place = [places.setdefault(tuple(row), len(places)) for row in cost.tolist()]
        return np.array(list(places), object).reshape(len(places), -1), np.array(place)
    rows, place_of = np.unique(cost, axis=0, return_inverse=True)
    return rows, place_of.reshape(-1)
