"""Who leads each partition, and every exchange of one leader for another."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from placement_core.cluster import TopicPartition
from placement_core.flow import FAR, IntArray, even_out, settle
from placement_core.leaders.problem import LeaderCosts, Quotas, Ranks


@dataclass(slots=True)
class LeaderChoice:
    """The leader (a broker's number, not its id) of each partition; an ``Exchange``.

    options
        ``[partition, slot]``: the brokers that may lead it; -1 in slots that are not used.
    before
        Per partition, who leads it today; -1 where that one may not. Others cost 1: a change.
    chosen
        Per partition, one of its options.
    """

    options: IntArray
    before: IntArray
    chosen: IntArray
    brokers: int
    unit: int = 1
    loads: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.loads = np.bincount(self.chosen, minlength=self.brokers)

    @classmethod
    def of(cls, options: IntArray, before: IntArray, brokers: int) -> LeaderChoice:
        """Today's leaders where they may stay, the first that may elsewhere (there must be one)."""
        first = options[np.arange(len(options)), (options >= 0).argmax(axis=1)]
        stays = (options == before[:, None]).any(axis=1) & (before >= 0)
        before = np.where(stays, before, -1)
        return cls(options, before, np.where(stays, before, first), brokers)

    def changed(self) -> int:
        """The partitions that another leads than before, where that one could stay."""
        return int(((self.chosen != self.before) & (self.before >= 0)).sum())

    def take(self, chosen: IntArray) -> None:
        """Choose ``chosen`` instead."""
        self.chosen = chosen
        self.loads = np.bincount(chosen, minlength=self.brokers)

    def costs(self) -> IntArray:
        """See ``Exchange``: -1, 0 or 1, or FAR."""
        cost = np.full((self.brokers, self.brokers), FAR, np.int64)
        saved = (self.chosen != self.before).astype(np.int64)
        for column in self.options.T:
            rows = np.flatnonzero((column >= 0) & (column != self.chosen))
            price = (column[rows] != self.before[rows]) - saved[rows]
            pair = self.chosen[rows] * self.brokers + column[rows]
            for value in (1, 0, -1):
                there = np.bincount(pair[price == value], minlength=cost.size).reshape(cost.shape)
                np.minimum(cost, value, out=cost, where=there > 0)
        return cost

    def find(self, source: int, target: int, cost: int, most: int) -> IntArray:
        """See ``Exchange``. The partitions are spread evenly over all that can."""
        rows: IntArray = np.flatnonzero(self.chosen == source)
        rows = rows[(self.options[rows] == target).any(axis=1)]
        before = self.before[rows]
        rows = rows[(before != target).astype(np.int64) - (before != source) == cost]
        if len(rows) <= most:
            return rows
        return rows[np.arange(most) * len(rows) // most]

    def apply(self, partitions: IntArray, source: int, target: int) -> None:
        """See ``Exchange``."""
        self.chosen[partitions] = target
        self.loads[source] -= len(partitions)
        self.loads[target] += len(partitions)


# ---- The best leaders of one class of topics, for one set of readers or for several.
#
# For one set, or none, it is a single flow. For several, each set's quotas are what couples its
# racks: which racks get the rest of the partitions. Where quotas are fixed, surplus and
# shortage agree and a flow is exact; where they are a range, both are bounds. So the ranges are
# halved, best bound first, until the best choice found is as good as every bound that is left.

MOST_BRANCHES = 400
"""Flows to try at most; what is best by then is taken, and not called proved."""


def best_leaders(choice: LeaderChoice, costs: LeaderCosts, readers: Sequence[Quotas]) -> bool:
    """Change ``choice`` into the best there is; whether that is proved.

    By rank: weighted partitions not read locally, squared leaders per broker, changes of leader.
    ``costs`` are those without readers.
    """
    if len(readers) < 2:
        settle(choice, replace(costs, exact=readers[0] if readers else None))
        return True
    order = count()
    waiting = [(-1, next(order), tuple(readers))]
    least, best, tried = _value(choice, costs, readers), choice.chosen.copy(), 0
    while waiting:
        bound, _, ranges = heapq.heappop(waiting)
        if bound >= least or tried >= MOST_BRANCHES:
            choice.take(best)
            return bound >= least
        kinds = [True] * len(readers)
        for _ in range(2):
            tried += 1
            settle(choice, _relaxed(costs, ranges, kinds))
            led, lower = costs.leaders(choice.loads), _lower_ranks(choice, costs)
            off = [quotas.steps * quotas.off(led) for quotas in readers]
            if costs.ranks.local * sum(off) + lower < least:
                least, best = costs.ranks.local * sum(off) + lower, choice.chosen.copy()
            counted = [
                quotas.steps * (quotas.surplus(led) if of_surplus else quotas.shortage(led))
                for quotas, of_surplus in zip(ranges, kinds, strict=True)
            ]
            bound = max(bound, costs.ranks.local * sum(counted) + lower)
            gaps = [one - other for one, other in zip(off, counted, strict=True)]
            larger = [quotas.surplus(led) >= quotas.shortage(led) for quotas in ranges]
            if bound >= least or larger == kinds:
                break
            kinds = larger
        if bound < least:
            for half in _halves(ranges, int(np.argmax(gaps))):
                heapq.heappush(waiting, (bound, next(order), half))
    choice.take(best)
    return True


def _relaxed(
    costs: LeaderCosts, ranges: Sequence[Quotas], of_surplus: Sequence[bool]
) -> LeaderCosts:
    kinds = list(zip(ranges, of_surplus, strict=True))
    return replace(
        costs,
        surplus=[quotas for quotas, is_surplus in kinds if is_surplus],
        shortage=[quotas for quotas, is_surplus in kinds if not is_surplus],
    )


def _value(choice: LeaderChoice, costs: LeaderCosts, readers: Sequence[Quotas]) -> int:
    led = costs.leaders(choice.loads)
    off = sum(quotas.steps * quotas.off(led) for quotas in readers)
    return costs.ranks.local * off + _lower_ranks(choice, costs)


def _lower_ranks(choice: LeaderChoice, costs: LeaderCosts) -> int:
    total = choice.loads + costs.base
    return costs.ranks.square * int((total * total).sum()) + choice.changed()


def _halves(ranges: tuple[Quotas, ...], which: int) -> list[tuple[Quotas, ...]]:
    """The ranges with the widest one of a set of readers cut in two.

    That set is one whose bound is below what it costs, so that not all its ranges are single
    numbers; its quotas add up to its partitions, which narrows the others.
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


# ---- Where the search for the best leaders starts: racks first, then brokers within each rack.


def first_leaders(choice: LeaderChoice, costs: LeaderCosts, readers: Sequence[Quotas]) -> None:
    """Bring ``choice`` near its best in few steps, however many partitions it has.

    A choice of racks instead of brokers is the same problem with a handful of nodes, in which one
    cycle moves thousands of leaders; its locality is the best there is. Each partition then
    takes the replica in its rack (today's leader, or else the first), and brokers are evened out
    rack by rack.
    """
    base = costs.leaders(costs.base)
    in_racks = LeaderChoice(
        options=_racks_of(costs.rack, choice.options),
        before=_racks_of(costs.rack, choice.before),
        chosen=costs.rack[choice.chosen],
        brokers=costs.racks,
    )
    largest = int(base.max()) + len(choice.chosen)
    of_racks = replace(
        costs,
        rack=np.arange(costs.racks),
        base=base,
        ranks=Ranks.of(costs.racks, largest),
    )
    best_leaders(in_racks, of_racks, readers)
    there = (in_racks.options == in_racks.chosen[:, None]) & (choice.options >= 0)
    first = choice.options[np.arange(len(there)), there.argmax(axis=1)]
    stays = costs.rack[choice.chosen] == in_racks.chosen
    choice.take(np.where(stays, choice.chosen, first))
    even_out(choice, costs.base, costs.rack)


def _racks_of(rack: IntArray, brokers: IntArray) -> IntArray:
    """The racks of ``brokers``; -1 stays -1."""
    found: IntArray = np.where(brokers >= 0, rack[brokers], -1)
    return found


# ---- Topics that the same readers share, with their leaders in arrays.


@dataclass(slots=True)
class TopicClass:
    """Partitions whose leaders are chosen together, and who reads them.

    ``brokers`` are the numbers, in the whole cluster, of those that ``choice`` knows: the ones
    that hold a replica. ``readers`` are the places of those who read.
    """

    partitions: Sequence[TopicPartition]
    brokers: IntArray
    choice: LeaderChoice
    readers: tuple[int, ...]
    started: bool = False
    proved: bool = False

    @classmethod
    def of(
        cls,
        partitions: Sequence[TopicPartition],
        replicas: Mapping[TopicPartition, tuple[int, ...]],
        number: Mapping[int, int],
        readers: tuple[int, ...],
    ) -> TopicClass:
        """``replicas`` of ``partitions``, each with at least one broker that ``number`` has."""
        lists = [replicas[partition] for partition in partitions]
        options = np.full((len(lists), max(map(len, lists))), -1)
        for row, brokers in enumerate(lists):
            for slot, broker in enumerate(brokers):
                options[row, slot] = number.get(broker, -1)
        used = np.unique(options[options >= 0])
        place = np.full(int(used[-1]) + 2, -1)
        place[used] = np.arange(len(used))
        options = place[options]
        return cls(partitions, used, LeaderChoice.of(options, options[:, 0], len(used)), readers)

    def settle(self, rack: IntArray, racks: int, base: IntArray, readers: list[Quotas]) -> bool:
        """Choose the best leaders given everything else; whether that changed any.

        ``rack`` and ``base`` are per broker of the whole cluster; ``readers`` are this class's,
        with the leaders of other classes counted as elsewhere.
        """
        before = self.choice.chosen.copy()
        here, beside = rack[self.brokers], base[self.brokers]
        largest = int(beside.max()) + len(self.partitions)
        costs = LeaderCosts(here, beside, Ranks.of(len(self.brokers), largest), racks)
        if not self.started:
            self.started = True
            if readers:
                first_leaders(self.choice, costs, readers)
            else:
                even_out(self.choice, beside)
        self.proved = best_leaders(self.choice, costs, readers)
        return bool((self.choice.chosen != before).any())
