"""The search for the best leaders of one class of topics: those that the same consumers read.

For one demand, or none, the best leaders are a single flow
(:mod:`placement_core.flow.cycle_canceling`). With several, the quotas of each demand couple the
racks: which racks get the remainder of the partitions. Surplus and shortage are two lower bounds of
what a demand reads across racks, and so is any mixture of them; with a mixture per demand, the
leaders are a single flow again. So flows are solved for changing mixtures: the larger of the two
counts more each time. A flow that costs as much as its mixture says is the optimum
(:func:`best_leaders`). If none does, the cheapest is improved by exchanges of leaders between two
racks, and :mod:`placement_core.leaders.bound` computes how far from the optimum it can be.

It starts from a choice of racks instead of brokers: the same problem with a handful of nodes
(:func:`set_initial_leaders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from placement_core.flow import INF, IntArray, cancel_negative_cycles, level_loads
from placement_core.leaders.problem import LeaderCosts, Quotas, RankScales

MAX_FLOWS = 24
"""The maximum number of mixtures to try."""


@dataclass(slots=True)
class LeaderChoice:
    """The leader of each partition; an :class:`~placement_core.flow.ExchangeGraph`.

    Brokers are numbers, not ids.

    options
        ``[partition, slot]``: the brokers that may lead it; -1 in unused slots.
    before
        Per partition, its present leader; -1 if that broker may not lead.
    chosen
        Per partition, one of its options.
    off_rack
        ``[partition, slot]``: the weight that members do not read locally if that option leads.
        The same for options in one rack.
    scales
        The cost of that weight, and of a leader other than ``before``.
    """

    options: IntArray
    before: IntArray
    chosen: IntArray
    off_rack: IntArray
    broker_count: int
    scales: RankScales
    cost_scale: int = 1
    loads: IntArray = field(init=False)
    _prices: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.loads = np.bincount(self.chosen, minlength=self.broker_count)
        self.set_scales(self.scales)

    @classmethod
    def of(
        cls,
        options: IntArray,
        before: IntArray,
        broker_count: int,
        off_rack: IntArray | None = None,
    ) -> LeaderChoice:
        """Return the choice of the leaders ``before`` where allowed, else of the first option.

        A change costs 1 until `set_scales`. Without ``off_rack``, nothing else costs anything.
        """
        first = options[np.arange(len(options)), (options >= 0).argmax(axis=1)]
        allowed = (options == before[:, None]).any(axis=1) & (before >= 0)
        before = np.where(allowed, before, -1)
        chosen = np.where(allowed, before, first)
        if off_rack is None:
            off_rack = np.zeros_like(options)
        return cls(options, before, chosen, off_rack, broker_count, RankScales(1, 1, 1))

    def set_scales(self, scales: RankScales) -> None:
        """Replace the costs of the ranks."""
        self.scales = scales
        changed = (self.options != self.before[:, None]).astype(np.int64)
        self._prices = self.off_rack * scales.off_rack + changed * scales.change

    def total_price(self) -> int:
        """Return the cost of all partitions: what members do not read locally, and changes.

        A partition whose present leader may not lead counts as changed.
        """
        return int(self._prices_of(np.arange(len(self.chosen)), self.chosen).sum())

    def total_off_rack(self) -> int:
        """Return the weight that members do not read locally."""
        chosen = self.options == self.chosen[:, None]
        slots = chosen.argmax(axis=1)
        return int(self.off_rack[np.arange(len(slots)), slots].sum())

    def choose(self, chosen: IntArray) -> None:
        """Replace the leaders of all partitions."""
        self.chosen = chosen
        self.loads = np.bincount(chosen, minlength=self.broker_count)

    def choose_cheapest(self) -> None:
        """Choose the cheapest option of each partition, the first of equal ones."""
        prices = np.where(self.options >= 0, self._prices, INF)
        self.choose(self.options[np.arange(len(prices)), prices.argmin(axis=1)])

    def relieve(self, max_loads: IntArray) -> bool:
        """Move leaders off brokers with more than ``max_loads``, the cheapest moves first.

        Returns whether none is left above. The result need not be the cheapest.
        """
        while (room := max_loads - self.loads).min() < 0:
            rows = np.flatnonzero(room[self.chosen] < 0)
            options = self.options[rows]
            prices = np.where((options >= 0) & (room[options] > 0), self._prices[rows], INF)
            slots = prices.argmin(axis=1)
            cheapest = prices[np.arange(len(rows)), slots]
            order = np.argsort(cheapest - self._prices_of(rows, self.chosen[rows]), kind="stable")
            moved = False
            for n in order[cheapest[order] < INF].tolist():
                source, target = int(self.chosen[rows[n]]), int(options[n, slots[n]])
                if room[source] < 0 < room[target]:
                    self.apply(rows[n : n + 1], source, target)
                    room[source] += 1
                    room[target] -= 1
                    moved = True
            if not moved:
                return False
        return True

    def costs(self) -> IntArray:
        """See ``ExchangeGraph``."""
        cost = np.full(self.broker_count * self.broker_count, INF, np.int64)
        present = self._prices_of(np.arange(len(self.chosen)), self.chosen)
        for slot, column in enumerate(self.options.T):
            rows = np.flatnonzero((column >= 0) & (column != self.chosen))
            pair = self.chosen[rows] * self.broker_count + column[rows]
            np.minimum.at(cost, pair, self._prices[rows, slot] - present[rows])
        return cost.reshape(self.broker_count, self.broker_count)

    def find(self, source: int, target: int, cost: int, limit: int) -> IntArray:
        """See ``ExchangeGraph``. The partitions are spread evenly over all that qualify."""
        rows: IntArray = np.flatnonzero(self.chosen == source)
        rows = rows[(self.options[rows] == target).any(axis=1)]
        rows = rows[self._prices_of(rows, target) - self._prices_of(rows, source) == cost]
        if len(rows) <= limit:
            return rows
        return rows[np.arange(limit) * len(rows) // limit]

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """See ``ExchangeGraph``."""
        self.chosen[partitions] = target
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)

    def _prices_of(self, partitions: IntArray, brokers: IntArray | int) -> IntArray:
        """Return the cost of each of ``partitions`` if ``brokers``, one of its options, leads."""
        wanted = np.broadcast_to(brokers, len(partitions))[:, None]
        slots = (self.options[partitions] == wanted).argmax(axis=1)
        prices: IntArray = self._prices[partitions, slots]
        return prices


def best_leaders(choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]) -> bool:
    """Change ``choice`` into the best one; return whether that is proved.

    By rank: weighted partitions not read locally, then squared leaders per broker and changes of
    leader, in the order of the scales. ``costs`` are those without any demand.
    """
    if len(demands) < 2:
        cancel_negative_cycles(choice, replace(costs, exact=demands[0] if demands else None))
        return True
    lowest, best = _total(choice, costs, demands), choice.chosen.copy()
    bound = -1
    of_surplus = [quotas.weight for quotas in demands]  # And the rest of its weight, of shortage.
    for n in range(MAX_FLOWS):
        cancel_negative_cycles(
            choice, replace(costs, mixture=list(zip(demands, of_surplus, strict=True)))
        )
        leaders = costs.leaders_per_rack(choice.loads)
        larger = [quotas.surplus(leaders) - quotas.shortage(leaders) for quotas in demands]
        mixed = sum(
            surplus * quotas.surplus(leaders) + (quotas.weight - surplus) * quotas.shortage(leaders)
            for quotas, surplus in zip(demands, of_surplus, strict=True)
        )
        bound = max(bound, costs.scales.off_rack * mixed + _other_costs(choice, costs))
        total = _total(choice, costs, demands)
        if total < lowest:
            lowest, best = total, choice.chosen.copy()
        if bound >= lowest:
            break
        of_surplus = [
            min(max(surplus + sign * (quotas.weight // (n + 1)), 0), quotas.weight)
            for quotas, surplus, sign in zip(
                demands, of_surplus, np.sign(larger).tolist(), strict=True
            )
        ]
    choice.choose(best)
    if bound >= lowest:
        return True
    _exchange(choice, costs, demands)
    return False


def _exchange(choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]) -> None:
    """Move single leaders between brokers while that is cheaper."""
    lowest, improved = _total(choice, costs, demands), True
    while improved:
        improved = False
        prices = choice.costs()
        for source, target in np.argwhere(prices < INF).tolist():
            if (
                costs.limit is not None
                and (choice.loads + costs.base)[target] >= costs.limit[target]
            ):
                continue
            moved = choice.find(source, target, int(prices[source, target]), 1)
            if not len(moved):
                continue
            choice.apply(moved, source, target)
            total = _total(choice, costs, demands)
            if total < lowest:
                lowest, improved = total, True
            else:
                choice.apply(moved, target, source)


def _total(choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]) -> int:
    leaders = costs.leaders_per_rack(choice.loads)
    off_rack = sum(quotas.weight * quotas.off_rack(leaders) for quotas in demands)
    return costs.scales.off_rack * off_rack + _other_costs(choice, costs)


def _other_costs(choice: LeaderChoice, costs: LeaderCosts) -> int:
    """Return the cost of everything but the demands."""
    total = choice.loads + costs.base
    return costs.scales.square * int((total * total).sum()) + choice.total_price()


def set_initial_leaders(
    choice: LeaderChoice, costs: LeaderCosts, demands: Sequence[Quotas]
) -> None:
    """Bring ``choice`` near the best one in few steps, however many partitions it has.

    First racks are chosen: there, one cycle moves thousands of leaders, and the locality is the
    best possible. Then each partition gets the replica in its rack (the present leader, or else the
    first), and leaders are leveled within each rack.
    """
    base = costs.leaders_per_rack(costs.base)
    changes_first = costs.scales.change > costs.scales.square
    scales = RankScales.of(
        costs.rack_slots, int(base.max()) + len(choice.chosen), changes_first=changes_first
    )
    in_racks = LeaderChoice(
        options=_racks_of(costs.rack_of, choice.options),
        before=_racks_of(costs.rack_of, choice.before),
        chosen=costs.rack_of[choice.chosen],
        off_rack=choice.off_rack,
        broker_count=costs.rack_slots,
        scales=scales,
    )
    rack_costs = replace(
        costs, rack_of=np.arange(costs.rack_slots), base=base, scales=scales, limit=None
    )
    best_leaders(in_racks, rack_costs, demands)
    in_rack = (in_racks.options == in_racks.chosen[:, None]) & (choice.options >= 0)
    first = choice.options[np.arange(len(in_rack)), in_rack.argmax(axis=1)]
    stays = costs.rack_of[choice.chosen] == in_racks.chosen
    choice.choose(np.where(stays, choice.chosen, first))
    if not changes_first:
        level_loads(choice, costs.base, costs.rack_of)


def _racks_of(rack_of: IntArray, brokers: IntArray) -> IntArray:
    """Return the racks of ``brokers``; -1 stays -1."""
    racks: IntArray = np.where(brokers >= 0, rack_of[brokers], -1)
    return racks
