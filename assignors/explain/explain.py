"""From an assignment to the reasons why it is not more local, and what would remedy them.

The assignment in force is compared with the best one that the group's assignor computes for the
same members and leaders. A partition that the best assignment reads more locally has a cause that a
rebalance removes. For every other one the cause is structural: the racks of members and leaders,
the subscriptions, or the balance.

The claims of remedies are not estimates: the group is assigned again as it would be afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignors.explain.text import LocalityFinding, Partitions, Reason, Remedy, RemedyKind
from assignors.group import UNASSIGNED, Assigned, Group
from assignors.model import Assignor, LeaderRacks, Member, WeightSource
from assignors.range import LeaderRackAwareRange, co_partitioned_topics
from assignors.weights import TrafficWeights, traffic_weights
from placement_core import parse_rack
from placement_core.flow import IntArray

LeaderBrokers = Mapping[tuple[str, int], int]
"""(topic, partition) to the broker that leads it. A missing partition has no leader."""

MAX_SOLVED = 6
"""The number of findings, largest first, for which remedies are solved. If each host is a rack of
its own there may be hundreds, and each takes several assignments to solve."""

MAX_MEMBER_FACTOR = 8
"""The maximum number of members to start, per member that the group has."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The locality of an assignment, and why it is not higher.

    partitions
        The sum of those that are ``local`` (led in their member's rack), ``off_rack``, ``unknown``
        (led in an unknown rack, or read by a member whose rack is unknown), or ``unread``.
    optimum, unknown_at_best
        ``off_rack`` and ``unknown`` of the best assignment. If the racks of all members are known,
        ``optimum`` is the minimum of a balanced assignment; see `Plan.optimum`. With
        ``balance="bytes"``: what that assignor reaches, which is not proved to be the minimum.
    uneven
        Whether the assignment is more local than any balanced one: its loads differ by more than
        necessary, or another assignor balanced the group differently.
    findings
        Sorted by number of partitions, largest first; those that are not off-rack come last.
    best
        The best assignment: member id to topic to partitions.
    """

    partitions: int
    local: int
    off_rack: int
    unknown: int
    unread: int
    optimum: int
    unknown_at_best: int
    uneven: bool
    findings: tuple[LocalityFinding, ...]
    best: Assigned = field(default_factory=dict, repr=False)


def explain(
    members: Iterable[Member],
    leader_racks: LeaderRacks,
    assigned: Assigned,
    assignor: Assignor,
    weights: WeightSource | None = None,
    *,
    leaders: LeaderBrokers | None = None,
    previous_leader_racks: LeaderRacks | None = None,
    replica_unknown: Collection[tuple[str, int]] = (),
    remedies: bool = True,
) -> Explanation:
    """Return why each partition that is not read in its leader's rack is not, and remedies.

    members
        As for an assignor; what they own is ignored.
    assigned
        The assignment: member id to topic to partitions. A partition of several members counts as
        one that no member reads.
    assignor, weights
        What computes the best assignment: the group's own, or for a group of another assignor the
        one that balances alike. With ``balance="bytes"`` it is not proved to be the best.
    leaders
        The brokers that lead, to distinguish partitions without a leader from leaders without a
        rack. None: unknown. Empty: no partition has a leader.
    previous_leader_racks
        The racks of the leaders when the assignment was made, to distinguish leaders that moved
        since from an assignment that was not optimal. None: unknown.
    replica_unknown
        Partitions without a rack in ``leader_racks`` because it is not known which replica their
        member reads.
    remedies
        False leaves out the remedies, which take several times as long as all the rest.

    Every partition that is not local has one reason. If the racks of all members are known, at
    least one has NOT_OPTIMAL or LEADER_MOVED if, and only if, another assignment is more local.

    Raises InvalidGroupError if two members have the same id, and what ``assignor`` raises.
    """
    members = tuple(replace(member, owned={}) for member in members)
    analysis = _analyse(members, leader_racks, assigned, assignor, weights)
    reasons = _current_reasons(analysis, leaders, previous_leader_racks, replica_unknown)
    findings = _findings(analysis, reasons, leader_racks)
    if remedies:
        simulator = Simulator(members, leader_racks, assignor, weights, analysis.optimum)
        _add_remedies(analysis, simulator, findings, leaders)
    unread = int((analysis.current == UNASSIGNED).sum())
    off_rack = sum(reason.off_rack for reason in reasons.values())
    unknown = sum(reason.rack_unknown for reason in reasons.values())
    partitions = len(analysis.current)
    return Explanation(
        partitions=partitions,
        local=partitions - off_rack - unknown - unread,
        off_rack=off_rack,
        unknown=unknown,
        unread=unread,
        optimum=analysis.optimum,
        unknown_at_best=analysis.unknown_at_best,
        uneven=analysis.best_is_better < 0,
        findings=tuple(findings.values()),
        best=analysis.best_partitions,
    )


# ---- The assignment in force and the best one.


@dataclass(frozen=True, slots=True)
class Analysis:
    """A group with the assignment in force and the best one, as arrays over all partitions.

    current, best
        Per partition a member's number; ``current`` may be UNASSIGNED. If several assignments are
        best, ``best`` is near to ``current`` if the assignor is sticky.
    best_partitions
        ``best`` as the assignor returned it.
    optimum, unknown_at_best
        The numbers of off-rack partitions of ``best``, and of those with an unknown rack.
    best_is_better
        1 if ``best`` is more local than ``current``, 0 if equally, -1 if less.
    traffic
        The weight of each partition.
    co_partition
        Per partition, the number of the index that is assigned as a whole: of one topic, or of
        co-partitioned topics.
    """

    group: Group
    current: IntArray
    best: IntArray
    best_partitions: Assigned
    optimum: int
    unknown_at_best: int
    best_is_better: int
    traffic: TrafficWeights
    co_partition: IntArray

    def members_in(self, rack: int) -> NDArray[np.bool_]:
        """Return per member whether it is in a rack, given as a leader's rack other than 0."""
        inside: NDArray[np.bool_] = self.group.crossed[rack, self.group.member_rack] == 0
        return inside

    def topic_partitions(self, partitions: Sequence[int]) -> list[tuple[str, int]]:
        """Return the topics and partitions of numbers in the row of all partitions."""
        numbers = np.asarray(partitions, np.int64)
        topics = np.searchsorted(self.group.base, numbers, side="right") - 1
        offsets = numbers - self.group.base[topics]
        names = map(self.group.topics.__getitem__, topics.tolist())
        return list(zip(names, offsets.tolist(), strict=True))

    def by_topic(self, partitions: Iterable[int]) -> Partitions:
        """Return numbers in the row of all partitions as topic to partitions."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in self.topic_partitions(sorted(partitions)):
            by_topic.setdefault(topic, []).append(number)
        return {topic: tuple(numbers) for topic, numbers in by_topic.items()}


def _analyse(
    members: Sequence[Member],
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
    rackless = rackless_reads(members, leader_racks, plan.partitions)
    traffic = traffic_weights(group, weights)
    current_cost = traffic.crossings(group, _complete(current, best))
    best_cost = traffic.crossings(group, best)
    co_partition: IntArray = np.arange(int(group.base[-1]))
    if isinstance(assignor, LeaderRackAwareRange):
        for topics in co_partitioned_topics(group, co_partitioned=assignor.co_partitioned):
            index = np.arange(group.sizes[topics[0]])
            co_partition[group.base[topics][:, None] + index] = group.base[topics[0]] + index
    return Analysis(
        group=group,
        current=current,
        best=best,
        best_partitions=plan.partitions,
        optimum=plan.off_rack - rackless,
        unknown_at_best=int((group.leader_rack == 0).sum()) + rackless,
        best_is_better=(current_cost > best_cost) - (current_cost < best_cost),
        traffic=traffic,
        co_partition=co_partition,
    )


def rackless_reads(members: Iterable[Member], leader_racks: LeaderRacks, assigned: Assigned) -> int:
    """Return how many partitions members without a rack read from leaders with one.

    Assignors count them as off-rack, since no rack is near to an unknown one.
    """
    return sum(
        parse_rack(leader_racks[topic][number]) is not None
        for member in members
        if parse_rack(member.rack) is None
        for topic, numbers in assigned.get(member.id, {}).items()
        for number in numbers
    )


def _complete(current: IntArray, best: IntArray) -> IntArray:
    return np.where(current == UNASSIGNED, best, current)


# ---- One reason for each partition that is not local.


def _current_reasons(
    analysis: Analysis,
    leaders: LeaderBrokers | None,
    previous_leader_racks: LeaderRacks | None,
    replica_unknown: Collection[tuple[str, int]],
) -> dict[int, Reason]:
    """Return the reason of each partition that is not local in the assignment in force.

    The arguments are those of `explain`.
    """
    current = analysis.current
    reasons: dict[int, Reason] = {}
    unknown = np.flatnonzero(analysis.group.leader_rack == 0).tolist()
    for partition, key in zip(unknown, analysis.topic_partitions(unknown), strict=True):
        if key in replica_unknown:
            reasons[partition] = Reason.REPLICA_UNKNOWN
        elif leaders is None:
            reasons[partition] = Reason.LEADER_UNKNOWN
        else:
            reasons[partition] = Reason.RACKLESS_BROKER if key in leaders else Reason.NO_LEADER
    for partition in np.flatnonzero(current == UNASSIGNED).tolist():
        reasons[partition] = Reason.UNREAD
    reasons |= _structural_reasons(analysis, current)
    was_local = _was_local(analysis, previous_leader_racks)
    for partition in _improvable(analysis):
        if reasons[partition] is Reason.RACKLESS_MEMBER:
            # It may be local.
            continue
        reasons[partition] = Reason.LEADER_MOVED if was_local[partition] else Reason.NOT_OPTIMAL
    return reasons


def _structural_reasons(analysis: Analysis, assigned: IntArray) -> dict[int, Reason]:
    """Return the reason of each off-rack partition, as if ``assigned`` were optimal."""
    group = analysis.group
    crossed = group.levels_crossed(assigned)
    local = (group.leader_rack > 0) & (crossed == 0) & (assigned != UNASSIGNED)
    # An index of which a part is local to its member could not go elsewhere at no cost.
    index_of_member = analysis.co_partition * len(group.members) + assigned
    partly_local = np.isin(index_of_member, index_of_member[local])
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
    group, inside = analysis.group, analysis.members_in(rack)
    if not inside.any():
        return Reason.NO_MEMBER_IN_RACK
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
    group, current = analysis.group, analysis.current
    if previous_leader_racks is None:
        return np.zeros(len(current), bool)
    previous = {
        topic: [*previous_leader_racks.get(topic, ()), *[None] * size][:size]
        for topic, size in zip(group.topics, group.sizes.tolist(), strict=True)
    }
    then = Group.of(group.members, previous)
    local: NDArray[np.bool_] = (current != UNASSIGNED) & (then.leader_rack > 0)
    local &= then.levels_crossed(current) == 0
    return local


# ---- Findings: partitions with the same reason and, if it matters, the same leaders' rack.

Key = tuple[Reason, int]
"""A reason and the number of the leaders' rack; 0 if the rack does not matter."""


def _by_key(analysis: Analysis, reasons: Mapping[int, Reason]) -> dict[Key, list[int]]:
    by_key: dict[Key, list[int]] = {}
    for partition, reason in sorted(reasons.items()):
        rack = int(analysis.group.leader_rack[partition]) if reason.of_rack else 0
        by_key.setdefault((reason, rack), []).append(partition)
    return by_key


def _findings(
    analysis: Analysis, reasons: Mapping[int, Reason], leader_racks: LeaderRacks
) -> dict[Key, LocalityFinding]:
    """Return the findings, sorted, without remedies."""
    ordered = sorted(
        _by_key(analysis, reasons).items(),
        key=lambda found: (not found[0][0].off_rack, -len(found[1]), found[0][1]),
    )
    return {key: _finding(analysis, key, rows, leader_racks) for key, rows in ordered}


def _finding(
    analysis: Analysis, key: Key, partitions: list[int], leader_racks: LeaderRacks
) -> LocalityFinding:
    reason, rack = key
    group, current = analysis.group, analysis.current
    ids = group.members.ids
    readers = sorted({ids[m] for m in current[partitions].tolist() if m != UNASSIGNED})
    finding = LocalityFinding(reason, analysis.by_topic(partitions), members=tuple(readers))
    if reason.fixed_by_rebalance:
        nearer = group.levels_crossed(analysis.best) < group.levels_crossed(current)
        better = [p for p in partitions if nearer[p]]
        owners = [ids[m] for m in analysis.best[better].tolist()]
        keys = analysis.topic_partitions(better)
        return replace(finding, better_members=dict(zip(keys, owners, strict=True)))
    if not rack:
        return finding
    # The rack's name as a broker has it; ``/a`` and ``a`` are one rack.
    led = group.leader_rack == rack
    ((topic, number),) = analysis.topic_partitions([int(led.argmax())])
    inside = analysis.members_in(rack)
    # The more local assignment. If equal, the one in force, completed from the best.
    is_better = analysis.best_is_better > 0
    reference = analysis.best if is_better else _complete(current, analysis.best)
    read = inside[reference]
    return replace(
        finding,
        rack=str(leader_racks[topic][number]),
        leaders_in_rack=int(led.sum()),
        members_in_rack=int(inside.sum()),
        load_in_rack=int(read.sum()),
        local_in_rack=int((read & led).sum()),
    )


# ---- Remedies.


def _add_remedies(
    analysis: Analysis,
    simulator: Simulator,
    findings: dict[Key, LocalityFinding],
    leaders: LeaderBrokers | None,
) -> None:
    # What remedies act on: the partitions that would have this reason in the best assignment.
    at_best = _by_key(analysis, _structural_reasons(analysis, analysis.best))
    for number, (key, finding) in enumerate(findings.items()):
        remedies: list[Remedy] = []
        if not finding.reason.of_rack:
            remedies = _simple_remedies(analysis, finding, leaders)
        elif number < MAX_SOLVED:
            remedies = _solved_remedies(analysis, simulator, finding, at_best.get(key, []))
        findings[key] = replace(finding, remedies=tuple(remedies))


def _simple_remedies(
    analysis: Analysis, finding: LocalityFinding, leaders: LeaderBrokers | None
) -> list[Remedy]:
    """Return the remedies for which nothing has to be solved."""
    match finding.reason:
        case Reason.UNREAD:
            return [Remedy(RemedyKind.WAIT)]
        case Reason.NO_LEADER:
            return [Remedy(RemedyKind.RESTORE_LEADERS)]
        case Reason.RACKLESS_BROKER if leaders is not None:
            brokers = {
                leaders[topic, number]
                for topic, numbers in finding.partitions.items()
                for number in numbers
            }
            return [Remedy(RemedyKind.SET_BROKER_RACK, brokers=tuple(sorted(brokers)))]
        case Reason.LEADER_UNKNOWN:
            return [Remedy(RemedyKind.RESTORE_LEADERS), Remedy(RemedyKind.SET_BROKER_RACK)]
        case Reason.LEADER_MOVED | Reason.NOT_OPTIMAL:
            return [Remedy(RemedyKind.REBALANCE, analysis.optimum)]
        case Reason.RACKLESS_MEMBER:
            return [Remedy(RemedyKind.SET_MEMBER_RACK, members=finding.members)]
    return []


def _solved_remedies(
    analysis: Analysis, simulator: Simulator, finding: LocalityFinding, at_best: list[int]
) -> list[Remedy]:
    """Return the remedies that help, the most certain first.

    ``at_best`` are the partitions that have this reason in the best assignment.
    """
    assert finding.rack is not None
    topics = list(finding.partitions)
    move = simulator.move_leaders(_moves(analysis, at_best))
    remedies: list[Remedy | None]
    match finding.reason:
        case Reason.NO_MEMBER_IN_RACK:
            start = simulator.start_members(finding.rack, topics, len(at_best))
            remedies = [start, move]
        case Reason.NOT_SUBSCRIBED_IN_RACK:
            remedies = [simulator.subscribe(finding.rack, topics), move]
        case Reason.CO_PARTITIONED:
            remedies = [simulator.separate_topics(), move]
        case Reason.TOO_MANY_LEADERS:
            start = simulator.start_members(finding.rack, topics, len(at_best))
            remedies = [move, start, simulator.separate_topics()]
        case _:
            remedies = [move]
    return [remedy for remedy in remedies if remedy is not None]


def _moves(analysis: Analysis, partitions: Iterable[int]) -> dict[str, Partitions]:
    """Return, per rack of the members that read ``partitions`` at best, those they read."""
    by_rack: dict[str, list[int]] = {}
    for partition in partitions:
        rack = analysis.group.members.racks[analysis.best[partition]]
        assert rack is not None
        by_rack.setdefault(rack, []).append(partition)
    return {rack: analysis.by_topic(by_rack[rack]) for rack in sorted(by_rack)}


@dataclass(frozen=True, slots=True)
class Simulator:
    """The present group, and its number of off-rack partitions after each remedy.

    ``optimum`` is the number of off-rack partitions of the best assignment without a remedy.
    """

    members: Sequence[Member]
    leader_racks: LeaderRacks
    assignor: Assignor
    weights: WeightSource | None
    optimum: int

    def off_rack(self, **changes: Any) -> int:
        """Return the off-rack partitions at best after ``changes`` of these fields."""
        after = replace(self, **changes)
        plan = after.assignor.assign(after.members, after.leader_racks, after.weights)
        return plan.off_rack - rackless_reads(after.members, after.leader_racks, plan.partitions)

    def remedy(self, kind: RemedyKind, off_rack: int, **fields: Any) -> Remedy | None:
        """Return the remedy that leaves ``off_rack`` partitions; None if that is no gain."""
        return Remedy(kind, off_rack, **fields) if off_rack < self.optimum else None

    def move_leaders(self, moves: Mapping[str, Partitions]) -> Remedy | None:
        """Move the leaders of partitions to the racks of ``moves``; None if that does not help."""
        racks = {topic: list(row) for topic, row in self.leader_racks.items()}
        for rack, partitions in moves.items():
            for topic, numbers in partitions.items():
                for number in numbers:
                    racks[topic][number] = rack
        after = self.off_rack(leader_racks=racks)
        return self.remedy(RemedyKind.MOVE_LEADERS, after, moves=moves)

    def separate_topics(self) -> Remedy | None:
        """Assign each topic on its own; None if that does not help or is the case already."""
        if not (isinstance(self.assignor, LeaderRackAwareRange) and self.assignor.co_partitioned):
            return None
        separate = LeaderRackAwareRange(
            co_partitioned=False, max_imbalance=self.assignor.max_imbalance
        )
        return self.remedy(RemedyKind.SEPARATE_TOPICS, self.off_rack(assignor=separate))

    def subscribe(self, rack: str, topics: Sequence[str]) -> Remedy | None:
        """Subscribe the members in ``rack`` to ``topics`` as well; None if that does not help."""
        path = parse_rack(rack)
        members = [
            replace(member, topics=frozenset(member.topics) | frozenset(topics))
            if parse_rack(member.rack) == path
            else member
            for member in self.members
        ]
        after = self.off_rack(members=members)
        return self.remedy(RemedyKind.SUBSCRIBE, after, rack=rack, topics=tuple(topics))

    def start_members(self, rack: str, topics: Sequence[str], surplus: int) -> Remedy | None:
        """Start as few members in ``rack`` as make its ``surplus`` partitions local.

        If no number does, as few as help most; None if none helps. The number is searched by
        doubling and bisection: more members mean more locality, except where loads are rounded. The
        claim for the number returned is exact.
        """
        existing = frozenset(self.leader_racks)
        subscriptions = {frozenset(member.topics) & existing for member in self.members}
        subscription = subscriptions.pop() if len(subscriptions) == 1 else frozenset(topics)
        partitions = sum(len(self.leader_racks.get(topic, ())) for topic in subscription)
        max_count = max(1, min(partitions, MAX_MEMBER_FACTOR * len(self.members)))
        # Longer than any member id, and so different from all.
        prefix = max((member.id for member in self.members), key=len, default="")
        off_rack: dict[int, int] = {}

        def is_enough(count: int) -> bool:
            started = (Member(f"{prefix}+{n}", subscription, rack) for n in range(count))
            off_rack[count] = self.off_rack(members=[*self.members, *started])
            return off_rack[count] <= self.optimum - surplus

        high = 1
        while not is_enough(high) and high < max_count:
            high = min(2 * high, max_count)
        enough = off_rack[high] <= self.optimum - surplus
        low = high // 2
        while enough and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle) else (middle, high)
        after, count = min((after, count) for count, after in off_rack.items())
        if enough:
            after, count = off_rack[high], high
        topics = tuple(sorted(subscription))
        return self.remedy(RemedyKind.START_MEMBERS, after, rack=rack, count=count, topics=topics)
