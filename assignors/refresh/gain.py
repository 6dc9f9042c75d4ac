"""What a rebalance would gain: the plan in force against the best one, with the leaders of now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assignors.intake import Group, read_group
from assignors.model import LeaderRacks, Member, Plan, Weights
from assignors.ownership import NOBODY, read_owners
from assignors.traffic_steps import traffic_steps
from placement_core.matching import IntArray

Assign = Callable[[Sequence[Member], LeaderRacks, Weights | None], Plan]
"""The method of an assignor."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rebalance would gain.

    worth
        In partitions that would no longer be read from afar. With traffic weights, in partitions
        of average traffic. With levels of racks, at whichever level gains most, of those above
        the first that loses: the best plan may read more across rooms to read less across
        data centres, and never the other way round.
    off_rack, reachable
        Partitions that are off-rack now, and that would be after the rebalance.
    """

    worth: float
    off_rack: int
    reachable: int


NO_GAIN = Gain(0.0, 0, 0)


def crossing_gain(
    assign: Assign,
    members: Sequence[Member],
    leader_racks: LeaderRacks,
    weights: Weights | None = None,
) -> Gain:
    """The gain of assigning anew to ``members``, each of whom owns its part of the plan in force.

    Partitions that no member owns count for nothing. Raises what ``assign`` raises.
    """
    group = read_group(members, leader_racks)
    steps = traffic_steps(group, weights)
    plan = assign(members, leader_racks, weights)
    planned = (replace(m, owned=plan.partitions[m.id]) for m in group.members)
    before = read_owners(group)
    after = read_owners(replace(group, members=tuple(planned)))
    owned = np.flatnonzero((before != NOBODY) & (after != NOBODY))
    if not len(owned):
        return NO_GAIN
    worth = 0.0
    weighed = zip(
        _per_level(group, before, owned, steps), _per_level(group, after, owned, steps), strict=True
    )
    for now, then in weighed:
        if then > now:
            break
        worth = max(worth, float(now - then))
    ones = np.ones_like(steps)
    return Gain(
        worth=worth / float(steps.mean()),
        off_rack=int(_per_level(group, before, owned, ones)[-1]),
        reachable=int(_per_level(group, after, owned, ones)[-1]),
    )


def _per_level(
    group: Group, owner: IntArray, owned: IntArray, weight: IntArray
) -> NDArray[np.float64]:
    """The weight of what is read across each level, widest first."""
    levels = group.crossed[group.leader_rack[owned], group.member_rack[owner[owned]]]
    crossed = np.bincount(levels, weight[owned], group.depth + 1)
    # Level j from the top is crossed by what crosses at least depth - j + 1 levels from below.
    return np.cumsum(crossed[:0:-1])
