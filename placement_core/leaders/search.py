"""The search for the best leaders of one class of topics: those that the same consumers read.

For one demand, or none, the best leaders are a single flow
(:mod:`placement_core.flow.cycle_canceling`). With several, the quotas of each demand couple the
racks: which racks get the remainder of the partitions. If all quotas are single numbers, surplus
and shortage agree and a flow is exact. If they are ranges, both are lower bounds. So the search
branches: ranges are halved, the branch with the lowest bound first, until the best choice so far
is as good as the bound of every branch that is left (:func:`best_leaders`).

It starts from a choice of racks instead of brokers: the same problem with a handful of nodes
(:func:`set_initial_leaders`).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from placement_core.flow import INF, IntArray, cancel_negative_cycles, level_loads
from placement_core.leaders.problem import LeaderCosts, Quotas, RankScales

MAX_FLOWS = 400
"""The maximum number of flows to solve. After that the best choice so far is used, unproved."""


@dataclass(slots=True)
class LeaderChoice:
    """The leader of each partition; an :class:`~placement_core.flow.ExchangeGraph`.

    Brokers are numbers, not ids.

    options
        ``[partition, slot]``: the brokers that may lead it; -1 in unused slots.
    before
        Per partition, its present leader; -1 if that broker may not lead. Any other leader costs 1.
    chosen
        Per partition, one of its options.
    """

    options: IntArray
    before: IntArray
    chosen: IntArray
    broker_count: int
    cost_scale: int = 1
    loads: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.loads = np.bincount(self.chosen, minlength=self.broker_count)

    @classmethod
    def of(cls, options: IntArray, before: IntArray, broker_count: int) -> LeaderChoice:
        """Return the choice of the leaders ``before`` where allowed, else of the first option."""
        first = options[np.arange(len(options)), (options >= 0).argmax(axis=1)]
        allowed = (options == before[:, None]).any(axis=1) & (before >= 0)
        before = np.where(allowed, before, -1)
        return cls(options, before, np.where(allowed, before, first), broker_count)

    def changed_count(self) -> int:
        """Return how many partitions have a new leader although the present one may stay."""
        return int(((self.chosen != self.before) & (self.before >= 0)).sum())

    def choose(self, chosen: IntArray) -> None:
        """Replace the leaders of all partitions."""
        self.chosen = chosen
        self.loads = np.bincount(chosen, minlength=self.broker_count)

    def costs(self) -> IntArray:
        """See ``ExchangeGraph``: -1, 0 or 1, or INF."""
        cost = np.full((self.broker_count, self.broker_count), INF, np.int64)
        saved = (self.chosen != self.before).astype(np.int64)
        for column in self.options.T:
            rows = np.flatnonzero((column >= 0) & (column != self.chosen))
            price = (column[rows] != self.before[rows]) - saved[rows]
            pair = self.chosen[rows] * self.broker_count + column[rows]
            for value in (1, 0, -1):
                exists = np.bincount(pair[price == value], minlength=cost.size).reshape(cost.shape)
                np.minimum(cost, value, out=cost, where=exists > 0)
        return cost

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        """See ``ExchangeGraph``. The partitions are spread evenly over all that qualify."""
        rows: IntArray = np.flatnonzero(self.chosen == source)
        rows = rows[(self.options[rows] == target).any(axis=1)]
        before = self.before[rows]
        rows = rows[(before != target).astype(np.int64) - (before != source) == cost]
        if len(rows) <= limit:
            return rows
        return rows[np.arange(limit) * len(rows) // limit]

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """See ``ExchangeGraph``."""
        self.chosen[partitions] = target
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)


def best_leaders(choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]) -> bool:
    """Change ``choice`` into the best one; return whether that is proved.

    By rank: weighted partitions not read locally, squared leaders per broker, changes of leader.
    ``costs`` are those without any demand.
    """
    if len(demands) < 2:
        cancel_negative_cycles(choice, replace(costs, exact=demands[0] if demands else None))
        return True
    order = count()
    branches = [(-1, next(order), tuple(demands))]
    lowest, best, flows = _total(choice, costs, demands), choice.chosen.copy(), 0
    while branches:
        bound, _, ranges = heapq.heappop(branches)
        if bound >= lowest or flows >= MAX_FLOWS:
            choice.choose(best)
            return bound >= lowest
        by_surplus = [True] * len(demands)
        for _ in range(2):
            flows += 1
            cancel_negative_cycles(choice, _relaxed(costs, ranges, by_surplus))
            leaders = costs.leaders_per_rack(choice.loads)
            lower_ranks = _lower_ranks(choice, costs)
            off_rack = [quotas.weight * quotas.off_rack(leaders) for quotas in demands]
            total = costs.scales.off_rack * sum(off_rack) + lower_ranks
            if total < lowest:
                lowest, best = total, choice.chosen.copy()
            bounds = [
                quotas.weight * (quotas.surplus(leaders) if surplus else quotas.shortage(leaders))
                for quotas, surplus in zip(ranges, by_surplus, strict=True)
            ]
            bound = max(bound, costs.scales.off_rack * sum(bounds) + lower_ranks)
            gaps = [cost - low for cost, low in zip(off_rack, bounds, strict=True)]
            larger = [quotas.surplus(leaders) >= quotas.shortage(leaders) for quotas in ranges]
            if bound >= lowest or larger == by_surplus:
                break
            by_surplus = larger
        if bound < lowest:
            for half in _halves(ranges, int(np.argmax(gaps))):
                heapq.heappush(branches, (bound, next(order), half))
    choice.choose(best)
    return True


def _relaxed(
    costs: LeaderCosts, ranges: Sequence[Quotas], by_surplus: Sequence[bool]
) -> LeaderCosts:
    """Return ``costs`` with a lower bound for each demand: its surplus or its shortage."""
    pairs = list(zip(ranges, by_surplus, strict=True))
    return replace(
        costs,
        surplus=[quotas for quotas, surplus in pairs if surplus],
        shortage=[quotas for quotas, surplus in pairs if not surplus],
    )


def _total(choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]) -> int:
    leaders = costs.leaders_per_rack(choice.loads)
    off_rack = sum(quotas.weight * quotas.off_rack(leaders) for quotas in demands)
    return costs.scales.off_rack * off_rack + _lower_ranks(choice, costs)


def _lower_ranks(choice: LeaderChoice, costs: LeaderCosts) -> int:
    total = choice.loads + costs.base
    return costs.scales.square * int((total * total).sum()) + choice.changed_count()


def _halves(ranges: tuple[Quotas, ...], which: int) -> list[tuple[Quotas, ...]]:
    """Return ``ranges`` twice, with the widest range of the ``which``-th demand cut in two.

    The bound of that demand is below its cost, so its ranges are not all single numbers. Its
    quotas add up to its partitions, which narrows its other ranges.
    """
    quotas = ranges[which]
    rack = int(np.argmax(quotas.high - quotas.low))
    middle = int(quotas.low[rack] + quotas.high[rack]) // 2
    halves = []
    for low_at, high_at in ((quotas.low[rack], middle), (middle + 1, quotas.high[rack])):
        low, high = quotas.low.copy(), quotas.high.copy()
        low[rack], high[rack] = low_at, high_at
        low, high = (
            np.maximum(low, quotas.partitions - high.sum() + high),
            np.minimum(high, quotas.partitions - low.sum() + low),
        )
        if (low <= high).all():
            half = replace(quotas, low=low, high=high)
            halves.append((*ranges[:which], half, *ranges[which + 1 :]))
    return halves


def set_initial_leaders(
    choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]
) -> None:
    """Bring ``choice`` near the best one in few steps, however many partitions it has.

    First racks are chosen: there, one cycle moves thousands of leaders, and the locality is the
    best possible. Then each partition gets the replica in its rack (the present leader, or else the
    first), and leaders are leveled within each rack.
    """
    base = costs.leaders_per_rack(costs.base)
    in_racks = LeaderChoice(
        options=_racks_of(costs.rack_of, choice.options),
        before=_racks_of(costs.rack_of, choice.before),
        chosen=costs.rack_of[choice.chosen],
        broker_count=costs.rack_slots,
    )
    rack_costs = replace(
        costs,
        rack_of=np.arange(costs.rack_slots),
        base=base,
        scales=RankScales.of(costs.rack_slots, int(base.max()) + len(choice.chosen)),
    )
    best_leaders(in_racks, rack_costs, demands)
    in_rack = (in_racks.options == in_racks.chosen[:, None]) & (choice.options >= 0)
    first = choice.options[np.arange(len(in_rack)), in_rack.argmax(axis=1)]
    stays = costs.rack_of[choice.chosen] == in_racks.chosen
    choice.choose(np.where(stays, choice.chosen, first))
    level_loads(choice, costs.base, costs.rack_of)


def _racks_of(rack_of: IntArray, brokers: IntArray) -> IntArray:
    """Return the racks of ``brokers``; -1 stays -1."""
    racks: IntArray = np.where(brokers >= 0, rack_of[brokers], -1)
    return racks
