"""The transportation network that every assignment problem is written as, and its exact solver.

Nodes stand in three layers::

    class --> hub --> member
    class ----------> member

*Class*
    A set of interchangeable units, such as the partitions of topics with the same subscribers
    whose leaders are in the same rack. ``supply`` is the number of its units.
*Hub*
    A set of members that cost the same to every class: same subscription, same rack.
*Member*
    Takes exactly ``demand`` units.
*Class-to-hub arc*
    A cost per unit, no capacity limit.
*Hub-to-member arc*
    From a hub to each of its members: no cost, no limit.
*Direct arc*
    From a class to one member: a cost and a capacity. Direct arcs express what distinguishes a
    member from the others of its hub, such as the partitions that it already owns. Two direct
    arcs between the same class and member must differ in cost.
*Fillers*
    A last class, whose units take up the demand that the other classes leave. Its direct arcs say
    how many fillers a member may take, and at what cost.

Hubs keep the network small. A thousand members with one subscription in three racks need 3 x 3
class-to-hub arcs and a thousand hub-to-member arcs instead of 3 x 1000 arcs. Which unit of a hub
goes to which of its members is left open until the end, because it does not change the cost.

A worked example: partitions 0 and 1 have their leaders in rack a, partition 2 in rack b; member m1
is in a, m2 in b, and m1 owned partition 2. Each member gets 2 units, so there is one filler.
An off-rack unit costs 20, a moved one 1::

    class      supply   to hub a   to hub b   direct arcs (capacity, cost)
    leader a   2        1          21
    leader b   1        21         1          m1 (1, 20): kept, but off-rack
    filler     1                              m1 (1, 0), m2 (1, 0)

The optimum costs 3: m1 takes both units of leader a, m2 the unit of leader b and the filler; all
three partitions are new to their members, none is off-rack. Keeping partition 2 at m1 would cost
20 for it, 1 for a unit of leader a at m1 and 21 for the other at m2: 42.

Algorithm: successive shortest paths, a blocking flow at a time. Start from the empty flow. In each
phase, find the distances of all nodes to the nearest member with unmet demand, and push units
along shortest paths until no such path has capacity left: each class along its own, however long
those of others are. Repeat until nothing is left to send or nothing can be sent.

1. Most units go straight from their class to a member. These paths are filled by array operations,
   evenly over hubs and members. Where a hub cannot take all, classes come in their order: heavier
   partitions should come first, because they would displace lighter ones later.
2. The longer paths, which take units back from other members, are found by depth-first search in
   the *level graph*: the arcs on cheapest paths, and of these the ones on paths of fewest arcs. It
   is acyclic and never contains the reverse of one of its arcs, so after a blocking flow the next
   path costs more or has more arcs. That bounds the number of phases.

In the example::

    phase  distance   what is sent
    1      cost 1     leader a -> hub a -> m1: 2 units;  leader b -> hub b -> m2: 1 unit
    2      cost 0     filler -> m2: 1 unit

Why that is exact is in :mod:`placement_core.flow`. It holds for any order of classes; fillers come
last, when they find the gaps where they are.

Proof of optimality. :meth:`Network.lower_bound` does not rest on how the solution was found, but on
linear duality. Whatever price every node has, no solution costs less than::

    sum(demand x price of member) - sum(supply x price of class)
        - sum(capacity x max(0, price of head - price of tail - cost))

where the last sum runs over all arcs, and the price of no head of an unlimited arc may exceed that
of its tail plus the cost. A solution that costs as much is optimal.

Numbers. Costs are int64 where no path can get too long for it, and Python integers otherwise. Units
are whole numbers below 2^31, as Kafka's partitions are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]

CostArray = NDArray[Any]
"""Costs or lengths: int64, or Python integers (dtype object) where 64 bits could overflow."""

UNLIMITED = 1 << 40
"""The capacity of arcs without a limit; no number of units comes near it."""

_MAX_UNITS = 1 << 31
_INFINITY = 1 << 61
"""More than the length of any path; twice this still fits into int64."""

_FILL_PASSES = 8
"""The maximum passes of filling direct paths in a phase; the search for paths does the rest."""

_GOLDEN_RATIO = 0.6180339887498949


class Network:
    """A transportation problem, and a flow in it: the optimal one after :meth:`solve`.

    supply, demand, member_hub
        The units of each class; the units and the hub of each member. Hubs must not decrease.
    to_hub
        The class, the hub and the cost of each class-to-hub arc, sorted by hub.
    direct
        The class, the member, the capacity and the cost of each direct arc.
    fillers
        The same for fillers, without the class. Without any, demand may exceed supply.

    Costs are whole numbers, 0 or more, in int64 or as Python integers.

    unsent, unmet
        The part of each class's supply and of each member's demand that is not sent yet.
    min_cut
        None if all supply was sent. Otherwise flags of the classes and of the members that can be
        reached from a class with unsent supply. These members are full, and form the source side
        of a minimum cut.
    """

    def __init__(
        self,
        *,
        supply: IntArray,
        demand: IntArray,
        member_hub: IntArray,
        to_hub: tuple[IntArray, IntArray, CostArray],
        direct: tuple[IntArray, IntArray, IntArray, CostArray] | None = None,
        fillers: tuple[IntArray, IntArray, CostArray] | None = None,
    ) -> None:
        none = np.zeros(0, np.int64)
        arc_class, arc_hub, hub_cost = to_hub
        direct_class, direct_member, direct_capacity, direct_cost = direct or (none,) * 4
        filler_member, filler_capacity, filler_cost = fillers or (none,) * 3
        filler_count = int(demand.sum() - supply.sum()) if fillers else 0
        self.supply, self.demand = np.append(supply, filler_count), demand
        self.unsent, self.unmet = self.supply.copy(), demand.copy()
        self.min_cut: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None

        # Nodes are numbered classes first, the fillers last of them, then hubs, then members.
        hubs, members = int(member_hub[-1]) + 1, len(demand)
        self._first_hub = len(self.supply)
        self._first_member = self._first_hub + hubs
        self._nodes = self._first_member + members
        member_node = np.arange(self._first_member, self._nodes)
        unlimited, no_cost = np.full(len(arc_class), UNLIMITED), np.zeros(members, np.int64)
        arcs = (
            (arc_class, arc_hub + self._first_hub, unlimited, hub_cost),
            (direct_class, direct_member + self._first_member, direct_capacity, direct_cost),
            (
                np.full(len(filler_member), len(supply)),
                filler_member + self._first_member,
                filler_capacity,
                filler_cost,
            ),
            (member_hub + self._first_hub, member_node, np.full(members, UNLIMITED), no_cost),
        )
        tail, head, capacity, cost = map(np.concatenate, zip(*arcs, strict=True))
        max_cost = int(cost.max(initial=0))
        assert cost.min(initial=0) >= 0, "a negative cost: one that did not fit into int64"
        assert max(int(self.supply.sum()), int(demand.sum())) < _MAX_UNITS
        # A path alternates between classes and other nodes, and passes each once.
        longest = 4 * (min(self._first_hub, hubs + members) + 2) * max_cost
        in_int64 = longest < _INFINITY // 4
        self._infinity = _INFINITY if in_int64 else 4 * longest
        cost = cost.astype(np.int64 if in_int64 else object)

        # The residual network: every arc and its reverse, in order of the tail. Arc n of the
        # arguments is arc `_forward[n]` there, and its units are the capacity of the reverse.
        count = len(tail)
        tails = np.concatenate((tail, head))
        order = stable_order(tails)
        position = np.empty(2 * count, np.int64)
        position[order] = np.arange(2 * count)
        self._forward, self._backward = position[:count], position[count:]
        self._reverse = np.concatenate((self._backward, self._forward))[order]
        self._tail = tails[order]
        self._head = np.concatenate((head, tail))[order]
        self._cost = np.concatenate((cost, -cost))[order]
        self._capacity = np.concatenate((capacity, np.zeros(count, np.int64)))[order]
        self._limit = capacity
        self._direct_start = len(arc_class)
        self._direct_end = self._direct_start + len(direct_class)

    # ---- The flow.

    @property
    def hub_units(self) -> IntArray:
        """The units on each class-to-hub arc."""
        return self._capacity[self._backward[: self._direct_start]]

    @property
    def direct_units(self) -> IntArray:
        """The units on each direct arc."""
        return self._capacity[self._backward[self._direct_start : self._direct_end]]

    @property
    def member_units(self) -> IntArray:
        """The units that each member gets from its hub."""
        return self._capacity[self._backward[len(self._backward) - len(self.demand) :]]

    def total_cost(self) -> int:
        """Return the cost of the flow."""
        return _dot(self._cost[self._forward], self._capacity[self._backward])

    def lower_bound(self) -> int:
        """Return the minimum that any solution can cost, by the prices of the solved flow.

        Prices are the negated distances in the residual network to the nearest member. The flow
        must have sent everything and met every demand.
        """
        arcs = np.flatnonzero(self._capacity)
        price = -self._distances(arcs, np.arange(self._first_member, self._nodes))
        of_member = price[self._first_member :]
        # A class without arcs to hubs reaches no member if its direct arcs are full. Any price
        # that is low enough for those arcs is valid there.
        max_cost = int(self._cost.max(initial=0))
        price[price <= -self._infinity] = int(of_member.min()) - max_cost
        tail, head = self._tail[self._forward], self._head[self._forward]
        gain = np.maximum(price[head] - price[tail] - self._cost[self._forward], 0)
        limited = self._limit < UNLIMITED
        assert not gain[~limited].any(), "prices that prove nothing"
        return (
            _dot(of_member, self.demand)
            - _dot(price[: self._first_hub], self.supply)
            - _dot(gain[limited], self._limit[limited])
        )

    def optimality_gap(self) -> int:
        """Return by how much, at most, the cost exceeds the minimum: 0 if it is proved optimal."""
        return self.total_cost() - self.lower_bound()

    # ---- The solver.

    def solve(self) -> Network:
        """Send all supply at minimum cost, or as much as can be sent at any cost; return self."""
        classes = np.arange(self._first_hub)
        for stage in (classes[:-1], classes[-1:]):
            while len(sources := stage[self.unsent[stage] > 0]):
                arcs = np.flatnonzero(self._capacity)
                targets = self.unmet.nonzero()[0] + self._first_member
                distance = self._distances(arcs, targets)
                if (distance[sources] >= self._infinity).all():
                    reached = (
                        self._arcs_from(sources, self._tail[arcs], self._head[arcs]) < self._nodes
                    )
                    self.min_cut = reached[: self._first_hub - 1], reached[self._first_member :]
                    return self
                to_go = distance[self._head[arcs]]
                tight = to_go + self._cost[arcs] == distance[self._tail[arcs]]
                shortest = arcs[tight & (to_go < self._infinity)]
                left = int(self.unsent.sum())
                self._fill_directly(shortest, sources)
                self._push_along_paths(shortest, sources)
                assert int(self.unsent.sum()) < left, "a shortest path that takes no unit"
        return self

    def _distances(self, arcs: IntArray, targets: IntArray) -> CostArray:
        """Return the distance of every node to the nearest target: Bellman-Ford.

        ``arcs`` are those that can take units. What reaches no target is ``_infinity`` away.
        """
        distance: CostArray = np.full(self._nodes, self._infinity, self._cost.dtype)
        distance[targets] = 0
        runs = Segments.of(self._tail[arcs])
        head, cost = self._head[arcs], self._cost[arcs]
        for _ in range(self._nodes + 2):
            if not len(arcs):
                return distance
            nearest = np.minimum.reduceat(distance[head] + cost, runs.starts)
            # A path to a node that reaches no target: any other path is shorter.
            nearest[nearest > self._infinity // 2] = self._infinity
            nearest = np.minimum(distance[runs.keys], nearest)
            if (distance[runs.keys] == nearest).all():
                return distance
            distance[runs.keys] = nearest
        raise AssertionError("a cycle of negative cost in the residual network")

    def _fill_directly(self, arcs: IntArray, sources: IntArray) -> None:
        """Send what ``sources`` can straight to members with unmet demand along ``arcs``."""
        excess, gap = np.zeros(self._first_hub, np.int64), np.zeros(self._nodes, np.int64)
        excess[sources] = self.unsent[sources]
        gap[self._first_member :] = self.unmet
        arcs = arcs[self._tail[arcs] < self._first_hub]
        to_hub = self._head[arcs] < self._first_member
        self._fill(arcs[~to_hub], excess, gap)
        self.unmet = gap[self._first_member :]
        hub_arcs = self._forward[len(self._forward) - len(self.demand) :]
        hub = self._tail[hub_arcs]
        np.add.at(gap, hub, self.unmet)
        before = gap.copy()
        self._fill(arcs[to_hub], excess, gap)
        received = before - gap
        if received.any():
            units = _level(received[hub], hub, self.unmet)
            self._send(hub_arcs, units)
            self.unmet = self.unmet - units
        self.unsent[sources] = excess[sources]

    def _fill(self, arcs: IntArray, excess: IntArray, gap: IntArray) -> None:
        """Send ``excess`` (per class) along ``arcs`` into ``gap`` (per node); reduce both.

        Each class spreads its units over its arcs in proportion to the gaps, rounded up at
        different arcs for each class.
        """
        for _ in range(_FILL_PASSES):
            tail, head = self._tail[arcs], self._head[arcs]
            room = np.minimum(self._capacity[arcs], gap[head])
            usable = (room > 0) & (excess[tail] > 0)
            arcs, tail, head, room = arcs[usable], tail[usable], head[usable], room[usable]
            if not len(arcs):
                return
            runs = Segments.of(tail)
            run = np.repeat(np.arange(len(runs.keys)), runs.lengths(len(tail)))
            until = room.cumsum()
            until -= (until - room)[runs.starts][run]
            total = np.add.reduceat(room, runs.starts)
            amount = np.minimum(excess[runs.keys], total)
            phase = (runs.keys * _GOLDEN_RATIO % 1 * total).astype(np.int64)[run]
            units = (amount[run] * until + phase) // total[run]
            units -= (amount[run] * (until - room) + phase) // total[run]
            # Where a node cannot take all, the first classes come first.
            order = np.argsort(head, kind="stable")
            units[order] = _granted(gap, head[order], units[order])
            self._send(arcs, units)
            np.subtract.at(excess, tail, units)
            np.subtract.at(gap, head, units)

    def _send(self, arcs: IntArray, units: IntArray) -> None:
        """Send ``units`` along ``arcs``."""
        self._capacity[arcs] -= units
        self._capacity[self._reverse[arcs]] += units

    def _push_along_paths(self, arcs: IntArray, sources: IntArray) -> None:
        """Complete the blocking flow along ``arcs`` with paths of any number of arcs."""
        sources = sources[self.unsent[sources] > 0]
        unmet = np.zeros(self._nodes, np.int64)
        unmet[self._first_member :] = self.unmet
        if not len(sources) or not unmet.any():
            return
        arcs = arcs[self._capacity[arcs] > 0]
        tail, head = self._tail[arcs], self._head[arcs]
        arcs_left = self._arcs_from(unmet.nonzero()[0], head, tail)
        fewest = arcs_left[tail] == arcs_left[head] + 1
        arcs, tail, head = arcs[fewest], tail[fewest], head[fewest]
        useful = (self._arcs_from(sources, tail, head)[tail] < self._nodes).nonzero()[0]
        # The heads with most unmet demand are tried first.
        order = useful[np.lexsort((-unmet[head[useful]], tail[useful]))]
        arcs, tail = arcs[order], tail[order]
        first = tail.searchsorted(np.arange(self._nodes + 1)).tolist()
        capacity, demand = self._capacity[arcs].tolist(), unmet.tolist()
        self.unsent[sources] -= _push(
            list(zip(sources.tolist(), self.unsent[sources].tolist(), strict=True)),
            first,
            tail.tolist(),
            head[order].tolist(),
            capacity,
            demand,
        )
        self._send(arcs, self._capacity[arcs] - np.array(capacity, np.int64))
        self.unmet = np.array(demand[self._first_member :], np.int64)

    def _arcs_from(self, start: IntArray, tail: IntArray, head: IntArray) -> IntArray:
        """Return the number of arcs from the nearest of the nodes ``start`` to every node.

        A node that cannot be reached has the number of all nodes.
        """
        count = np.full(self._nodes, self._nodes)
        count[start] = 0
        for arcs in range(self._nodes):
            onward = count[tail] == arcs
            if not onward.any():
                break
            reached = head[onward]
            count[reached] = np.minimum(count[reached], arcs + 1)
            tail, head = tail[~onward], head[~onward]
        return count


def _push(
    sources: Sequence[tuple[int, int]],
    first: list[int],
    tail: list[int],
    head: list[int],
    capacity: list[int],
    demand: list[int],
) -> list[int]:
    """Push the units of ``sources`` (node, units) to nodes with demand; return how many of each.

    ``first[n]`` to ``first[n + 1]`` are the arcs that leave node n, in an acyclic graph. The search
    is depth first with a current arc per node, so that no arc is tried again once it is full or
    leads nowhere. ``capacity`` and ``demand`` are reduced.
    """
    current, dead_end = first[:-1], [False] * (len(first) - 1)
    pushed = []
    for source, amount in sources:
        left, node = amount, source
        path: list[int] = []
        while left:
            if demand[node]:
                units = min(left, demand[node], *[capacity[arc] for arc in path])
                demand[node] -= units
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
            at, end = current[node], first[node + 1]
            while at < end and (not capacity[at] or dead_end[head[at]]):
                at += 1
            current[node] = at
            if at < end:
                path.append(at)
                node = head[at]
                continue
            dead_end[node] = True
            if not path:
                break
            node = tail[path.pop()]
        pushed.append(amount - left)
    return pushed


def _granted(budget: IntArray, keys: IntArray, requests: IntArray) -> IntArray:
    """Grant ``requests`` (in runs of equal keys) in order, within each key's budget."""
    before = requests.cumsum() - requests
    runs = Segments.of(keys)
    before -= np.repeat(before[runs.starts], runs.lengths(len(keys)))
    granted: IntArray = np.minimum(np.maximum(budget[keys] - before, 0), requests)
    return granted


def _level(amount: IntArray, keys: IntArray, gaps: IntArray) -> IntArray:
    """Return how much goes into each gap, the largest first, so that those left are level.

    Gaps are in runs of equal keys, and ``amount`` (the same in a run) goes into each run. Level
    gaps keep fillers, of which a member takes few, from needing long detours: that affects the
    speed, never the optimum.
    """
    order = np.lexsort((-gaps, keys))
    runs = Segments.of(keys)
    run = np.repeat(np.arange(len(runs.keys)), runs.lengths(len(keys)))
    amount, gap = amount[order], gaps[order]
    nth = np.arange(len(gap)) - runs.starts[run]
    before = gap.cumsum() - gap
    before -= before[runs.starts][run]
    level = np.maximum.reduceat(-((amount - before - gap) // (nth + 1)), runs.starts)[run]
    units = np.maximum(gap - level, 0)
    rest = amount - np.add.reduceat(units, runs.starts)[run]
    filled = np.empty_like(gaps)
    filled[order] = units + (nth < rest)
    return filled


def _dot(costs: CostArray, units: IntArray) -> int:
    """Return the exact sum of ``costs x units`` as a Python integer."""
    if int(np.abs(costs).max(initial=0)) * int(units.sum()) >= 1 << 63:
        costs = costs.astype(object)
    return int((costs * units).sum())


def stable_order(keys: IntArray) -> IntArray:
    """Return the stable argsort of ``keys``, none negative.

    numpy sorts 16-bit keys by radix, in linear time.
    """
    if int(keys.max(initial=0)) < 1 << 16:
        keys = keys.astype(np.uint16)
    order: IntArray = np.argsort(keys, kind="stable")
    return order


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of equal keys in a sorted array: the start and the key of each run."""

    starts: IntArray
    keys: IntArray

    @classmethod
    def of(cls, ordered: IntArray) -> Segments:
        """Return the runs of ``ordered``; none is empty, which ``ufunc.reduceat`` would misread."""
        changes = np.ones(len(ordered), bool)
        np.not_equal(ordered[1:], ordered[:-1], out=changes[1:])
        starts = changes.nonzero()[0]
        return cls(starts, ordered[starts])

    def lengths(self, total: int) -> IntArray:
        """Return the length of each run; ``total`` is that of the array."""
        ends = np.empty_like(self.starts)
        ends[:-1] = self.starts[1:]
        ends[-1:] = total
        return ends - self.starts
