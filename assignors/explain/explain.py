"""From an assignment to the reasons why it is not more local, and what would remedy them.

The claims of remedies are not estimates: the group is assigned again as it would be afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assignors.assignment import UNASSIGNED
from assignors.explain.causes import (
    Analysis,
    analyse,
    current_reasons,
    structural_reasons,
)
from assignors.explain.model import (
    Explanation,
    LeaderBrokers,
    LocalityFinding,
    Partitions,
    Reason,
    Remedy,
    RemedyKind,
)
from assignors.group import Assigned
from assignors.model import Assignor, LeaderRacks, Member, WeightSource
from assignors.range import LeaderRackAwareRange
from placement_core import parse_rack

MAX_SOLVED = 6
"""The number of findings, largest first, for which remedies are solved. If each host is a rack of
its own there may be hundreds, and each takes several assignments to solve."""

MAX_MEMBER_FACTOR = 8
"""The maximum number of members to start, per member that the group has."""


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
        one that balances alike.
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

    Every partition that is not local has one reason. At least one has NOT_OPTIMAL or LEADER_MOVED
    if, and only if, another assignment is more local.

    Raises InvalidGroupError if two members have the same id, and what ``assignor`` raises.
    """
    members = tuple(replace(member, owned={}) for member in members)
    analysis = analyse(members, leader_racks, assigned, assignor, weights)
    reasons = current_reasons(analysis, leaders, previous_leader_racks, replica_unknown)
    found = _findings(analysis, reasons, leader_racks)
    findings = [finding for _, finding in found]
    if remedies:
        simulator = Simulator(members, leader_racks, assignor, weights, analysis.optimum)
        findings = _with_remedies(analysis, simulator, found, leaders)
    unread = int((analysis.current == UNASSIGNED).sum())
    off_rack = int(analysis.group.crossings(analysis.current)[-1])
    unknown = sum(reason.rack_unknown for reason in reasons.values())
    partitions = len(analysis.current)
    return Explanation(
        partitions=partitions,
        local=partitions - off_rack - unknown - unread,
        off_rack=off_rack,
        unknown=unknown,
        unread=unread,
        optimum=analysis.optimum,
        uneven=analysis.best_is_better < 0,
        findings=tuple(findings),
        best=analysis.best_partitions,
    )


# ---- Findings: partitions with the same reason and, if it matters, the same leaders' rack.

_RACK_REASONS = (
    Reason.NO_MEMBER_IN_RACK,
    Reason.NOT_SUBSCRIBED_IN_RACK,
    Reason.CO_PARTITIONED,
    Reason.TOO_MANY_LEADERS,
)

Key = tuple[Reason, int]
"""A reason and the number of the leaders' rack; 0 if the rack does not matter."""


def _key(analysis: Analysis, partition: int, reason: Reason) -> Key:
    rack = int(analysis.group.leader_rack[partition]) if reason in _RACK_REASONS else 0
    return (reason, rack)


def _findings(
    analysis: Analysis, reasons: Mapping[int, Reason], leader_racks: LeaderRacks
) -> list[tuple[Key, LocalityFinding]]:
    """Return the findings, sorted, without remedies."""
    rack_names = _rack_names(analysis, leader_racks)
    by_key: dict[Key, list[int]] = {}
    for partition, reason in sorted(reasons.items()):
        by_key.setdefault(_key(analysis, partition, reason), []).append(partition)
    ordered = sorted(
        by_key.items(), key=lambda each: (not each[0][0].off_rack, -len(each[1]), each[0][1])
    )
    return [(key, _finding(analysis, key, partitions, rack_names)) for key, partitions in ordered]


def _finding(
    analysis: Analysis, key: Key, partitions: list[int], rack_names: Mapping[int, str]
) -> LocalityFinding:
    reason, rack = key
    group, current = analysis.group, analysis.current
    finding = LocalityFinding(
        reason=reason,
        partitions=_by_topic(analysis, partitions),
        members=tuple(
            sorted({group.members[m].id for m in current[partitions] if m != UNASSIGNED})
        ),
    )
    if reason.fixed_by_rebalance:
        nearer = group.levels_crossed(analysis.best) < group.levels_crossed(current)
        better = [p for p in partitions if nearer[p]]
        owners = analysis.best[better].tolist()
        return replace(
            finding,
            better_members={
                tp: group.members[owner].id
                for tp, owner in zip(analysis.topic_partitions(better), owners, strict=True)
            },
        )
    if not rack:
        return finding
    inside = analysis.members_in(rack)
    led = group.leader_rack == rack
    read = inside[analysis.reference]
    return replace(
        finding,
        rack=rack_names[rack],
        leaders_in_rack=int(led.sum()),
        members_in_rack=int(inside.sum()),
        load_in_rack=int(read.sum()),
        local_in_rack=int((read & led).sum()),
    )


def _by_topic(analysis: Analysis, partitions: Iterable[int]) -> Partitions:
    by_topic: dict[str, list[int]] = {}
    for topic, number in analysis.topic_partitions(sorted(partitions)):
        by_topic.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in by_topic.items()}


def _rack_names(analysis: Analysis, leader_racks: LeaderRacks) -> dict[int, str]:
    """Return each rack's name as a broker has it; ``/a`` and ``a`` are one rack."""
    racks, first = np.unique(analysis.group.leader_rack, return_index=True)
    names = {}
    for rack, partition in zip(racks.tolist(), first.tolist(), strict=True):
        topic, number = analysis.topic_partition(partition)
        names[rack] = str(leader_racks[topic][number])
    return names


# ---- Remedies.


def _with_remedies(
    analysis: Analysis,
    simulator: Simulator,
    found: Sequence[tuple[Key, LocalityFinding]],
    leaders: LeaderBrokers | None,
) -> list[LocalityFinding]:
    """Return the findings with their remedies."""
    # What remedies act on: the partitions that would have this reason in the best assignment.
    at_best: dict[Key, list[int]] = {}
    for partition, reason in structural_reasons(analysis, analysis.best).items():
        at_best.setdefault(_key(analysis, partition, reason), []).append(partition)
    findings = []
    for number, (key, finding) in enumerate(found):
        if key[0] not in _RACK_REASONS:
            remedies = _simple_remedies(analysis, finding, leaders)
        elif number < MAX_SOLVED:
            remedies = _solved_remedies(analysis, simulator, finding, at_best.get(key, []))
        else:
            remedies = []
        findings.append(replace(finding, remedies=tuple(remedies)))
    return findings


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
        rack = analysis.group.members[analysis.best[partition]].rack
        assert rack is not None
        by_rack.setdefault(rack, []).append(partition)
    return {rack: _by_topic(analysis, by_rack[rack]) for rack in sorted(by_rack)}


@dataclass(frozen=True, slots=True)
class Simulator:
    """The group as it is, and its number of off-rack partitions after each remedy.

    ``optimum`` is the number of off-rack partitions of the best assignment without a remedy.
    """

    members: tuple[Member, ...]
    leader_racks: LeaderRacks
    assignor: Assignor
    weights: WeightSource | None
    optimum: int

    def off_rack(
        self, members: Sequence[Member] | None = None, leader_racks: LeaderRacks | None = None
    ) -> int:
        """Return the off-rack partitions at best with other members, or with other leaders."""
        return self.assignor.assign(
            self.members if members is None else members,
            self.leader_racks if leader_racks is None else leader_racks,
            self.weights,
        ).off_rack

    def move_leaders(self, moves: Mapping[str, Partitions]) -> Remedy | None:
        """Move the leaders of partitions to the racks of ``moves``; None if that does not help."""
        racks = {topic: list(row) for topic, row in self.leader_racks.items()}
        for rack, partitions in moves.items():
            for topic, numbers in partitions.items():
                for number in numbers:
                    racks[topic][number] = rack
        after = self.off_rack(leader_racks=racks)
        if not moves or after >= self.optimum:
            return None
        return Remedy(RemedyKind.MOVE_LEADERS, after, moves=moves)

    def separate_topics(self) -> Remedy | None:
        """Assign each topic on its own; None if that does not help or is the case already."""
        if not (isinstance(self.assignor, LeaderRackAwareRange) and self.assignor.co_partitioned):
            return None
        separate = LeaderRackAwareRange(
            co_partitioned=False, max_imbalance=self.assignor.max_imbalance
        )
        after = separate.assign(self.members, self.leader_racks, self.weights).off_rack
        return Remedy(RemedyKind.SEPARATE_TOPICS, after) if after < self.optimum else None

    def subscribe(self, rack: str, topics: Sequence[str]) -> Remedy | None:
        """Subscribe the members in ``rack`` to ``topics`` as well; None if that does not help."""
        path = parse_rack(rack)
        after = self.off_rack(
            [
                replace(member, topics=frozenset(member.topics) | frozenset(topics))
                if parse_rack(member.rack) == path
                else member
                for member in self.members
            ]
        )
        if after >= self.optimum:
            return None
        return Remedy(RemedyKind.SUBSCRIBE, after, rack=rack, topics=tuple(topics))

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
            off_rack[count] = self.off_rack([*self.members, *started])
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
        if after >= self.optimum:
            return None
        return Remedy(
            RemedyKind.START_MEMBERS,
            after,
            rack=rack,
            count=count,
            topics=tuple(sorted(subscription)),
        )
