"""The best leaders of one class of topics, for one set of readers or for several.

For one set, or none, it is a single flow. For several, each set's quotas are what couples its
racks: which racks get the rest of the partitions. Where quotas are fixed, surplus and
shortage agree and a flow is exact; where they are a range, both are bounds. So the ranges are
halved, best bound first, until the best choice found is as good as every bound that is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from placement_core.exchange import settle
from placement_core.leaders.choice import LeaderChoice
from placement_core.leaders.costs import LeaderCosts
from placement_core.leaders.quotas import Quotas

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
