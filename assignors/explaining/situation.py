"""An assignment as it is beside one as it could be, as arrays over all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assignors.intake import Group, read_group
from assignors.model import Assignor, LeaderRacks, Member, Weights
from assignors.ownership import NOBODY, read_owners
from assignors.range import LeaderRackAwareRange, topic_groups
from assignors.traffic_steps import traffic_steps
from placement_core.matching import IntArray

Assigned = Mapping[str, Mapping[str, Sequence[int]]]
"""Member id to topic to partitions."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A group, who holds each partition now, and who would at best.

    now, best
        Per partition a member's number; ``now`` may be NOBODY. Of all assignments that are
        best, one near to ``now`` where the assignor is one that looks at what is owned.
    optimum
        The off-rack partitions of ``best``.
    better
        Whether ``best`` is more local than ``now``: -1 less, 0 equally, 1 more.
    steps
        Each partition's traffic.
    unit
        Per partition, what goes to one member as a whole (an index of co-partitioned topics).
    """

    group: Group
    now: IntArray
    best: IntArray
    optimum: int
    better: int
    steps: IntArray
    unit: IntArray

    @property
    def reference(self) -> IntArray:
        """The more local of the two; ``now``, with what nobody reads filled in, of equals."""
        return self.best if self.better > 0 else _filled(self.now, self.best)

    def crossed(self, holder: IntArray) -> IntArray:
        """How many levels each partition crosses; 0 also where nobody can say."""
        return _crossed(self.group, holder)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Per partition, whether its leader's rack is known."""
        return self.group.leader_rack > 0

    def standing_in(self, rack: int) -> NDArray[np.bool_]:
        """Per member, whether it is in this rack (a number of ``group.leader_rack``, not 0)."""
        there: NDArray[np.bool_] = self.group.crossed[rack, self.group.member_rack] == 0
        return there

    def place(self, partition: int) -> tuple[str, int]:
        """Topic and number of one of the row of all partitions."""
        topic = int(np.searchsorted(self.group.base, partition, side="right")) - 1
        return self.group.topics[topic], partition - int(self.group.base[topic])


def read_situation(
    members: Iterable[Member],
    leader_racks: LeaderRacks,
    assigned: Assigned,
    assignor: Assignor,
    weights: Weights | None,
) -> Situation:
    """Look at ``assigned``, and have ``assignor`` say what it would do in its place.

    Raises what ``assignor`` raises.
    """
    holding = _holding(members, assigned)
    group = read_group(holding, leader_racks)
    plan = assignor.assign(holding, leader_racks, weights)
    now = read_owners(group)
    best = read_owners(read_group(_holding(holding, plan.partitions), leader_racks))
    steps = traffic_steps(group, weights)
    costs = [_cost(group, holder, steps) for holder in (_filled(now, best), best)]
    return Situation(
        group=group,
        now=now,
        best=best,
        optimum=plan.off_rack,
        better=(costs[0] > costs[1]) - (costs[0] < costs[1]),
        steps=steps,
        unit=_units(group, assignor),
    )


def _holding(members: Iterable[Member], assigned: Assigned) -> list[Member]:
    return [replace(each, owned=assigned.get(each.id, {}), generation=0) for each in members]


def _filled(now: IntArray, best: IntArray) -> IntArray:
    """What nobody reads yet counts as read by whom it should be."""
    return np.where(now == NOBODY, best, now)


def _crossed(group: Group, holder: IntArray) -> IntArray:
    if not len(holder):
        return np.zeros(0, np.int64)
    found: IntArray = group.crossed[group.leader_rack, group.member_rack[holder]]
    found[holder == NOBODY] = 0
    return found


def _cost(group: Group, holder: IntArray, steps: IntArray) -> tuple[int, ...]:
    """The traffic across each level, widest first."""
    crossed = _crossed(group, holder)
    return tuple(int(steps[crossed >= group.depth - level].sum()) for level in range(group.depth))


def _units(group: Group, assignor: Assignor) -> IntArray:
    unit: IntArray = np.arange(int(group.base[-1]))
    if isinstance(assignor, LeaderRackAwareRange):
        for topics in topic_groups(group, co_partitioned=assignor.co_partitioned):
            for topic in topics[1:]:
                start, end = group.base[topic], group.base[topic + 1]
                first = group.base[topics[0]]
                unit[start:end] = np.arange(first, first + end - start)
    return unit
