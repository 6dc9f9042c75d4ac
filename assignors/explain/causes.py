"""One reason for each partition that is not read in its leader's rack.

The assignment in force is compared with the best one that the group's assignor computes for the
same members and leaders. A partition that the best assignment reads more locally has a cause that a
rebalance removes. For every other one the cause is structural: the racks of members and leaders,
the subscriptions, or the balance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from assignors.assignment import UNASSIGNED
from assignors.explain.model import LeaderBrokers, Reason
from assignors.group import Assigned, Group
from assignors.model import Assignor, LeaderRacks, Member, WeightSource
from assignors.range import LeaderRackAwareRange, co_partitioned_topics
from assignors.weights import TrafficWeights, traffic_weights
from placement_core.flow import IntArray


@dataclass(frozen=True, slots=True)
class Analysis:
    """A group with the assignment in force and the best one, as arrays over all partitions.

    current, best
        Per partition a member's number; ``current`` may be UNASSIGNED. If several assignments are
        best, ``best`` is near to ``current`` if the assignor is sticky.
    best_partitions
        ``best`` as the assignor returned it.
    optimum
        The number of off-rack partitions of ``best``.
    best_is_better
        1 if ``best`` is more local than ``current``, 0 if equally, -1 if less.
    traffic
        The weight of each partition.
    unit
        Per partition, the number of what is assigned as a whole: an index of co-partitioned topics.
    """

    group: Group
    current: IntArray
    best: IntArray
    best_partitions: Assigned
    optimum: int
    best_is_better: int
    traffic: TrafficWeights
    unit: IntArray

    @property
    def reference(self) -> IntArray:
        """The more local assignment. If equal, ``current``, completed from ``best``."""
        return self.best if self.best_is_better > 0 else _complete(self.current, self.best)

    @property
    def leader_rack_known(self) -> NDArray[np.bool_]:
        """Per partition, whether its leader's rack is known."""
        return self.group.leader_rack > 0

    def members_in(self, rack: int) -> NDArray[np.bool_]:
        """Return per member whether it is in a rack, given as a leader's rack other than 0."""
        inside: NDArray[np.bool_] = self.group.crossed[rack, self.group.member_rack] == 0
        return inside

    def topic_partition(self, partition: int) -> tuple[str, int]:
        """Return the topic and the partition of a number in the row of all partitions."""
        return self.topic_partitions([partition])[0]

    def topic_partitions(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        """Return the topics and partitions of numbers in the row of all partitions."""
        numbers = np.asarray(partitions, np.int64)
        topics = np.searchsorted(self.group.base, numbers, side="right") - 1
        offsets = numbers - np.asarray(self.group.base)[topics]
        names = self.group.topics
        return [
            (names[topic], offset)
            for topic, offset in zip(topics.tolist(), offsets.tolist(), strict=True)
        ]


def analyse(
    members: Iterable[Member],
    leader_racks: LeaderRacks,
    assigned: Assigned,
    assignor: Assignor,
    weights: WeightSource | None,
) -> Analysis:
    """Compare ``assigned`` with what ``assignor`` computes. Raises what ``assignor`` raises."""
    owners = [replace(m, owned=assigned.get(m.id, {}), generation=0) for m in members]
    group = Group.of(owners, leader_racks)
    current = group.owners()
    plan = assignor.assign(owners, leader_racks, weights)
    best = group.members_of(plan.partitions)
    traffic = traffic_weights(group, weights)
    current_cost = traffic.crossings(group, _complete(current, best))
    best_cost = traffic.crossings(group, best)
    return Analysis(
        group=group,
        current=current,
        best=best,
        best_partitions=plan.partitions,
        optimum=plan.off_rack,
        best_is_better=(current_cost > best_cost) - (current_cost < best_cost),
        traffic=traffic,
        unit=_units(group, assignor),
    )


def _complete(current: IntArray, best: IntArray) -> IntArray:
    return np.where(current == UNASSIGNED, best, current)


def _units(group: Group, assignor: Assignor) -> IntArray:
    unit: IntArray = np.arange(int(group.base[-1]))
    if isinstance(assignor, LeaderRackAwareRange):
        for topics in co_partitioned_topics(group, co_partitioned=assignor.co_partitioned):
            first, count = group.base[topics[0]], group.sizes[topics[0]]
            unit[group.base[topics][:, None] + np.arange(count)] = np.arange(first, first + count)
    return unit


def current_reasons(
    analysis: Analysis,
    leaders: LeaderBrokers | None,
    previous_leader_racks: LeaderRacks | None,
    replica_unknown: Collection[tuple[str, int]],
) -> dict[int, Reason]:
    """Return the reason of each partition that is not local in the assignment in force.

    ``leaders`` has the broker that leads each partition, ``previous_leader_racks`` the racks of
    the leaders when the assignment was made; None if unknown. ``replica_unknown`` are partitions
    that may be read from a leader or a follower.
    """
    current = analysis.current
    reasons: dict[int, Reason] = {}
    for partition in np.flatnonzero(~analysis.leader_rack_known).tolist():
        if analysis.topic_partition(partition) in replica_unknown:
            reasons[partition] = Reason.REPLICA_UNKNOWN
        elif leaders is None:
            reasons[partition] = Reason.LEADER_UNKNOWN
        elif analysis.topic_partition(partition) in leaders:
            reasons[partition] = Reason.RACKLESS_BROKER
        else:
            reasons[partition] = Reason.NO_LEADER
    for partition in np.flatnonzero(current == UNASSIGNED).tolist():
        reasons[partition] = Reason.UNREAD
    reasons |= structural_reasons(analysis, current)
    was_local = _was_local(analysis, previous_leader_racks)
    for partition in _improvable(analysis):
        reasons[partition] = Reason.LEADER_MOVED if was_local[partition] else Reason.NOT_OPTIMAL
    return reasons


def structural_reasons(analysis: Analysis, assigned: IntArray) -> dict[int, Reason]:
    """Return the reason of each off-rack partition, as if ``assigned`` were optimal."""
    group = analysis.group
    crossed = group.levels_crossed(assigned)
    local = analysis.leader_rack_known & (crossed == 0) & (assigned != UNASSIGNED)
    # A unit of which a part is local to its member could not go elsewhere at no cost.
    unit_of_member = analysis.unit * len(group.members) + assigned
    partly_local = np.isin(unit_of_member, unit_of_member[local])
    topic_of = group.topic_of
    reason_of: dict[tuple[int, int], Reason] = {}
    reasons: dict[int, Reason] = {}
    for partition in np.flatnonzero(crossed > 0).tolist():
        if group.member_rack[assigned[partition]] == 0:
            reasons[partition] = Reason.RACKLESS_MEMBER
            continue
        key = (int(group.leader_rack[partition]), int(topic_of[partition]))
        if key not in reason_of:
            reason_of[key] = _rack_reason(analysis, *key)
        reason = reason_of[key]
        if reason is Reason.TOO_MANY_LEADERS and partly_local[partition]:
            reason = Reason.CO_PARTITIONED
        reasons[partition] = reason
    return reasons


def _rack_reason(analysis: Analysis, rack: int, topic: int) -> Reason:
    inside = analysis.members_in(rack)
    if not inside.any():
        return Reason.NO_MEMBER_IN_RACK
    group = analysis.group
    if not group.subscribed[topic, group.subscription[inside]].any():
        return Reason.NOT_SUBSCRIBED_IN_RACK
    return Reason.TOO_MANY_LEADERS


def _improvable(analysis: Analysis) -> list[int]:
    """Return the partitions that are read across more levels than in the best assignment.

    Partitions of the same leaders' rack, the same subscribers and the same traffic are alike, so
    their numbers are compared: the farthest of the current assignment with the farthest of the
    best, and so on. If the best assignment is better as a whole, one of these is; if it is not,
    no exchange of partitions gains anything.
    """
    if analysis.best_is_better <= 0:
        return []
    group = analysis.group
    current = group.levels_crossed(analysis.current)
    best = group.levels_crossed(analysis.best)
    subscribers = group.topic_classes()[0][group.topic_of]
    read = np.flatnonzero(analysis.current != UNASSIGNED)
    keys = np.stack([subscribers[read], group.leader_rack[read], analysis.traffic.index[read]])
    kind = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
    # Among those that are equally far now, those that the best assignment reads nearer come last.
    by_current = np.lexsort((read, -best[read], -current[read], kind))
    by_best = np.lexsort((-best[read], kind))
    nearer = current[read[by_current]] > best[read[by_best]]
    return sorted(read[by_current[nearer]].tolist())


def _was_local(analysis: Analysis, previous_leader_racks: LeaderRacks | None) -> NDArray[np.bool_]:
    """Return per partition whether it was local when the assignment was made."""
    group = analysis.group
    if previous_leader_racks is None:
        return np.zeros(len(analysis.current), bool)
    previous = {
        topic: [*previous_leader_racks.get(topic, ()), *[None] * size][:size]
        for topic, size in zip(group.topics, group.sizes.tolist(), strict=True)
    }
    then = Group.of(group.members, previous)
    crossed = then.levels_crossed(analysis.current)
    local: NDArray[np.bool_] = (
        (analysis.current != UNASSIGNED) & (then.leader_rack > 0) & (crossed == 0)
    )
    return local
