"""Why the members of a live group read partitions from other racks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec

from assignors import Member
from assignors.explain import Explanation, LocalityFinding, Reason, Remedy, RemedyKind, explain
from placement_core import (
    ClusterView,
    InvalidOptionError,
    TopicPartition,
    is_off_rack,
    parse_rack,
    source_rack,
)
from placement_core.leaders import CurrentAssignment, plan_leaders
from rack_traffic.advice import (
    NextStep,
    assigned_by_rackward,
    assignor_is_fixed,
    rack_steps,
    reference_protocol,
)
from rackward.groups.host_racks import HostRacks
from rackward.groups.next_steps import finding_text, remedy_advice
from rackward.groups.readers import (
    Reader,
    check_exists,
    current_assignment,
    current_readers,
    in_sync_racks,
    is_stable,
    members_of,
    partition_readers,
    readers_by_id,
    reference_assignor,
    topics_read,
    why_no_readers,
)
from rackward.kafka import AdminConnection, read_state
from rackward.kafka.groups import Group, GroupKind, GroupMember
from rackward.kafka.metadata import by_topic
from rackward.units import rackless_last


class RackLocality(msgspec.Struct, frozen=True):
    """Partitions of a group by rack.

    rack
        None: unknown.
    leaders
        Partitions that are led in the rack.
    reads, local, off_rack, unknown
        Partitions assigned to the rack's members, and those of them that they read in the rack, in
        another one, and from an unknown rack. If this rack is unknown, all are ``unknown``.
    """

    rack: str | None
    leaders: int
    members: int
    reads: int
    local: int
    off_rack: int
    unknown: int


class MemberLocality(msgspec.Struct, frozen=True):
    """A member, its partitions, and those of them that it reads in its rack, in another one, and
    those of which one of the two racks is unknown."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    partitions: int
    local: int
    off_rack: int
    unknown: int


class LeaderMoves(msgspec.Struct, frozen=True):
    """Partitions whose leaders move to a rack, by topic."""

    rack: str
    partitions: Mapping[str, Sequence[int]]


class RemedyRow(msgspec.Struct, frozen=True):
    """A remedy as `assignors.explain.Remedy` describes it, in words and as values.

    without_replica
        The number of leaders to move that have no replica in their new rack.
    """

    kind: RemedyKind
    text: str
    off_rack_after: int | None
    rack: str | None
    count: int
    members: Sequence[str]
    topics: Sequence[str]
    brokers: Sequence[int]
    without_replica: int
    moves: Sequence[LeaderMoves]


class BetterMember(msgspec.Struct, frozen=True):
    """A partition, and a member that could read it locally."""

    topic: str
    partition: int
    member: str


class FindingRow(msgspec.Struct, frozen=True):
    """Partitions that are not read in their member's rack for the same reason.

    off_rack
        Whether they count as off-rack.
    why
        The reason in words.
    rack
        The rack of their leaders; None if it is unknown, or does not matter.
    led, members_there, load, local
        What that rack has: partitions that are led there, members, the partitions that these read
        in the best assignment, and those among them that are led there.
    """

    reason: Reason
    off_rack: bool
    why: str
    rack: str | None
    count: int
    led: int
    members_there: int
    load: int
    local: int
    members: Sequence[str]
    partitions: Mapping[str, Sequence[int]]
    better: Sequence[BetterMember]
    remedies: Sequence[RemedyRow]


class GroupExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The locality of a group now and at best, and why it is not better.

    protocol, reference_assignor
        The group's assignor, and rackward's that balances alike: the optimum is that assignor's.
    leader, waiting
        Ids of members of ``rackward lead``: the one that leads the group (None: another member
        does), and those that wait.
    local, off_rack, unknown, unread
        Partitions that are read in their member's rack, in another one, those of which one of the
        two racks is unknown, and those that no member reads. In a share group, a partition counts
        once for each member that reads it.
    optimum, unknown_at_best
        ``off_rack`` and ``unknown`` of the best balanced assignment.
    uneven
        Whether the assignment now is not balanced.
    read_from_followers
        Partitions that are read in another rack than their leader's.
    racks
        The unknown rack is last.
    rack_steps
        How members whose racks are unknown get one.
    """

    group: str
    type: str
    state: str
    protocol: str
    reference_assignor: str
    leader: str | None
    waiting: Sequence[str]
    partitions: int
    topics: int
    local: int
    off_rack: int
    unknown: int
    unread: int
    optimum: int
    unknown_at_best: int
    uneven: bool
    assigned_by_rackward: bool
    read_from_followers: int
    racks: Sequence[RackLocality]
    members: Sequence[MemberLocality]
    findings: Sequence[FindingRow]
    rack_steps: Sequence[NextStep] = ()


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """A group and the explanation of its off-rack partitions.

    readers
        How each member reads, by member id.
    view
        The topics that the group reads, and no others.
    in_sync
        The result of `rackward.groups.readers.in_sync_racks`.
    """

    group: Group
    readers: Mapping[str, Reader]
    explanation: Explanation
    view: ClusterView
    in_sync: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)

    @property
    def members(self) -> list[Member]:
        """The members as an assignor's input, with what they own."""
        return members_of(self.group, self.readers)

    @property
    def rackless(self) -> list[GroupMember]:
        """The members whose rack is unknown."""
        return [each for each in self.group.members if self.readers[each.id].rack is None]

    def summary(self, mapping: str | None = None) -> GroupExplanation:
        """Return the explanation by rack, by member and by reason.

        ``mapping`` is the option ``--mapping``, for the commands that are recommended.
        """
        group, explanation = self.group, self.explanation
        assigned = {member.id: member.assignment for member in group.members}
        current = partition_readers(assigned, self.readers)
        leaders = _sources(self.view, current, {})
        members = [self._member(member) for member in group.members]
        sources = _sources(self.view, current, self.in_sync)
        return GroupExplanation(
            group=group.id,
            type=group.type,
            state=group.state,
            protocol=group.protocol,
            reference_assignor=reference_protocol(group),
            leader=group.leader,
            waiting=group.waiting,
            partitions=explanation.partitions,
            topics=len({tp.topic for tp in self.view.replicas}),
            local=explanation.local,
            off_rack=explanation.off_rack,
            unknown=explanation.unknown,
            unread=explanation.unread,
            optimum=explanation.optimum,
            unknown_at_best=explanation.unknown_at_best,
            uneven=explanation.uneven,
            assigned_by_rackward=assigned_by_rackward(group),
            read_from_followers=sum(
                rack is not None and rack != leaders[tp] for tp, rack in sources.items()
            ),
            racks=self._racks(members),
            members=members,
            findings=[self._finding(finding) for finding in explanation.findings],
            rack_steps=self._rack_steps(mapping),
        )

    def _rack_steps(self, mapping: str | None) -> tuple[NextStep, ...]:
        racks = sorted({rack for rack in self.view.racks().values() if parse_rack(rack) and rack})
        if not racks or not self.rackless:
            return ()
        return rack_steps(self.group, self.rackless, racks, mapping)

    def _member(self, member: GroupMember) -> MemberLocality:
        reader = self.readers[member.id]
        # A task of Kafka Streams may have a higher number than a topic has partitions.
        owned = [
            tp
            for topic, numbers in member.assignment.items()
            for number in numbers
            if (tp := TopicPartition(topic, number)) in self.view.replicas
        ]
        sources = _sources(self.view, dict.fromkeys(owned, (reader,)), self.in_sync)
        crossed = [is_off_rack(source, reader.rack) for source in sources.values()]
        return MemberLocality(
            id=member.id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.host,
            rack=reader.rack,
            partitions=len(owned),
            local=crossed.count(False),
            off_rack=crossed.count(True),
            unknown=len(owned) - len(crossed) + crossed.count(None),
        )

    def _racks(self, members: Sequence[MemberLocality]) -> list[RackLocality]:
        leaders = Counter(chain.from_iterable(self.view.leader_racks().values()))
        rows = []
        for rack in sorted({*leaders, *(each.rack for each in members)}, key=rackless_last):
            there = [each for each in members if each.rack == rack]
            rows.append(
                RackLocality(
                    rack,
                    leaders[rack],
                    len(there),
                    reads=sum(each.partitions for each in there),
                    local=sum(each.local for each in there),
                    off_rack=sum(each.off_rack for each in there),
                    unknown=sum(each.unknown for each in there),
                )
            )
        return rows

    def _finding(self, finding: LocalityFinding) -> FindingRow:
        return FindingRow(
            reason=finding.reason,
            off_rack=finding.reason.off_rack,
            why=finding_text(self.group, finding),
            rack=finding.rack,
            count=finding.count,
            led=finding.leaders_in_rack,
            members_there=finding.members_in_rack,
            load=finding.load_in_rack,
            local=finding.local_in_rack,
            members=finding.members,
            partitions=finding.partitions,
            better=[
                BetterMember(topic, number, member)
                for (topic, number), member in finding.better_members.items()
            ],
            remedies=[self._remedy(remedy) for remedy in finding.remedies],
        )

    def _remedy(self, remedy: Remedy) -> RemedyRow:
        racks = self.view.racks()
        missing = sum(
            all(parse_rack(racks.get(b)) != parse_rack(rack) for b in self.view.replicas[tp])
            for rack, partitions in remedy.moves.items()
            for topic, numbers in partitions.items()
            for tp in (TopicPartition(topic, number) for number in numbers)
        )
        return RemedyRow(
            kind=remedy.kind,
            text=remedy_advice(self.group, remedy, missing),
            off_rack_after=remedy.off_rack_after,
            rack=remedy.rack,
            count=remedy.count,
            members=remedy.members,
            topics=remedy.topics,
            brokers=remedy.brokers,
            without_replica=missing,
            moves=[LeaderMoves(rack, partitions) for rack, partitions in remedy.moves.items()],
        )


def check_explainable(name: str, group: Group | None) -> Group:
    """Return the group if its members have an assignment.

    Raises InvalidOptionError if the group does not exist, is not of consumers, has no members or
    is rebalancing.
    """
    group = check_exists(name, group)
    if (reason := why_not_explainable(group)) is not None:
        raise InvalidOptionError(f"group {name}: {reason}")
    return group


def why_not_explainable(group: Group) -> str | None:
    """Return why the members of the group have no assignment; None if they have one."""
    if (reason := why_no_readers(group)) is not None:
        return reason
    if group.state.lower() in ("empty", "dead") or (is_stable(group) and not group.members):
        return f"it has no members (state {group.state or 'unknown'}): start its consumers"
    if not is_stable(group):
        return f"it is rebalancing (state {group.state}): try again when it is stable"
    return None


def explain_live_group(
    admin: AdminConnection, group: Group, host_racks: HostRacks, selectors: Mapping[int, str]
) -> ExplainedGroup:
    """Read the topics of ``group`` and explain it. Raises AdminError.

    ``selectors`` is the replica.selector.class of each broker, as far as it is known.
    """
    state = read_state(admin, topics_read(group), reassignments=False)
    return explain_group(group, state.view, host_racks, in_sync_racks(state, selectors))


def explain_group(
    group: Group,
    view: ClusterView,
    host_racks: HostRacks,
    in_sync: Mapping[TopicPartition, frozenset[str]] | None = None,
    *,
    remedies: bool = True,
) -> ExplainedGroup:
    """Explain ``group``; ``view`` has the topics that it reads, and no others.

    ``in_sync`` is the result of `rackward.groups.readers.in_sync_racks`. A partition that a
    follower serves is explained as if that follower led it. ``remedies`` False leaves out the
    remedies, see `assignors.explain.explain`.
    """
    in_sync = in_sync or {}
    readers = readers_by_id(group, host_racks)
    if group.kind is GroupKind.SHARE:
        explanation = _explain_shared(group, view, host_racks, remedies=remedies)
        return ExplainedGroup(group, readers, explanation, view)
    assigned = {member.id: member.assignment for member in group.members}
    current = partition_readers(assigned, readers)
    leaders, sources = _sources(view, current, {}), _sources(view, current, in_sync)
    leader_racks = view.leader_racks()
    for tp, rack in sources.items():
        leader_racks[tp.topic][tp.partition] = rack
    explanation = explain(
        members_of(group, readers),
        leader_racks,
        assigned,
        reference_assignor(group),
        leaders={(tp.topic, tp.partition): leader for tp, leader in view.known_leaders.items()},
        replica_unknown={
            (tp.topic, tp.partition)
            for tp, rack in sources.items()
            if rack is None and leaders[tp] is not None
        },
        remedies=remedies,
    )
    if in_sync:
        # Whoever gets a partition may be served by a follower.
        best = partition_readers(explanation.best, readers)
        crossed = [
            is_off_rack(rack, best[tp][0].rack)
            for tp, rack in _sources(view, best, in_sync).items()
        ]
        optimum, local = crossed.count(True), crossed.count(False)
        explanation = replace(
            explanation,
            optimum=optimum,
            unknown_at_best=explanation.partitions - optimum - local,
            uneven=explanation.uneven and optimum > explanation.off_rack,
        )
    if remedies and not assigned_by_rackward(group):
        fit = fit_leaders(view, current_assignment(group, host_racks), explanation.off_rack)
        explanation = replace(
            explanation,
            findings=tuple(_possible_remedies(group, each, fit) for each in explanation.findings),
        )
    return ExplainedGroup(group, readers, explanation, view, in_sync)


def _explain_shared(
    group: Group, view: ClusterView, host_racks: HostRacks, *, remedies: bool
) -> Explanation:
    """Explain a share group, whose assignment cannot be another one: only leaders can move.

    Each pair of a partition and a member that reads it counts as a partition.
    """
    reads = current_readers(group, host_racks)
    racks, leaders = view.racks(), view.known_leaders
    found: dict[Reason, list[TopicPartition]] = {}
    local = 0
    for tp in sorted(view.replicas):
        leader_rack = racks.get(leaders.get(tp, -1))
        for reader in reads.get(tp, (None,)):
            if reader is None:
                reason = Reason.UNREAD
            elif tp not in leaders:
                reason = Reason.NO_LEADER
            elif parse_rack(leader_rack) is None:
                reason = Reason.RACKLESS_BROKER
            elif parse_rack(reader.rack) is None:
                reason = Reason.RACKLESS_MEMBER
            elif is_off_rack(leader_rack, reader.rack):
                reason = Reason.NOT_OPTIMAL
            else:
                local += 1
                continue
            found.setdefault(reason, []).append(tp)
    off_rack = len(found.get(Reason.NOT_OPTIMAL, ()))
    unread = len(found.get(Reason.UNREAD, ()))
    partitions = local + sum(map(len, found.values()))
    fit = fit_leaders(view, current_assignment(group, host_racks), off_rack) if remedies else None
    findings = []
    for reason, tps in sorted(found.items(), key=lambda it: (not it[0].off_rack, -len(it[1]))):
        by_topics = {topic: tuple(numbers) for topic, numbers in by_topic(tps).items()}
        members = tuple(
            sorted(
                member.id
                for member in group.members
                if any(tp.partition in member.assignment.get(tp.topic, ()) for tp in tps)
            )
        )
        simple = {
            Reason.UNREAD: Remedy(RemedyKind.WAIT),
            Reason.NO_LEADER: Remedy(RemedyKind.RESTORE_LEADERS),
            Reason.RACKLESS_BROKER: Remedy(RemedyKind.SET_BROKER_RACK),
            Reason.RACKLESS_MEMBER: Remedy(RemedyKind.SET_MEMBER_RACK, members=members),
        }
        known = (simple[reason],) if remedies and reason in simple else ()
        finding = LocalityFinding(reason, by_topics, members=members, remedies=known)
        findings.append(_possible_remedies(group, finding, fit))
    return Explanation(
        partitions=partitions,
        local=local,
        off_rack=off_rack,
        unknown=partitions - local - off_rack - unread,
        unread=unread,
        optimum=off_rack,
        unknown_at_best=partitions - local - off_rack,
        uneven=False,
        findings=tuple(findings),
    )


def _sources(
    view: ClusterView,
    readers: Mapping[TopicPartition, tuple[Reader, ...]],
    in_sync: Mapping[TopicPartition, frozenset[str]],
) -> dict[TopicPartition, str | None]:
    """Return the rack that each partition with a leader is read from, by its one reader."""
    leaders, racks = view.known_leaders, view.racks()
    return {
        tp: source_rack(reader.rack, racks.get(leaders[tp]), in_sync.get(tp, ()), reader.sends_rack)
        for tp, (reader,) in readers.items()
        if tp in leaders
    }


def fit_leaders(view: ClusterView, assignment: CurrentAssignment, off_rack: int) -> Remedy | None:
    """Return the move of leaders to the members that own their partitions.

    ``off_rack`` are the group's off-rack partitions now. None if that does not help. Other groups
    and a bound on leaders per broker do not count.
    """
    layout = plan_leaders(view, assignments=[assignment])
    racks = view.racks()
    leaders = {**view.leaders_or_preferred(), **{tp: row[0] for tp, row in layout.order.items()}}
    after = 0
    for tp in view.replicas:
        leader_rack = racks.get(leaders.get(tp, -1))
        after += sum(is_off_rack(leader_rack, rack) or False for rack in assignment.readers(tp))
    if not layout.moves or after >= off_rack:
        return None
    moves: dict[str, dict[str, tuple[int, ...]]] = {}
    for move in layout.moves:
        topics = moves.setdefault(racks[move.after[0]] or "", {})
        topic, number = move.partition
        topics[topic] = (*topics.get(topic, ()), number)
    return Remedy(RemedyKind.FIT_LEADERS, after, moves=dict(sorted(moves.items())))


def _possible_remedies(
    group: Group, finding: LocalityFinding, fit: Remedy | None
) -> LocalityFinding:
    """Return the finding with remedies for a group that is not assigned by leaders' racks.

    Other members, subscriptions or leaders per rack help only an assignor that has regard to
    leaders. An assignor that runs on the brokers, or is that of Kafka Streams, cannot be replaced.
    """
    impossible = {
        RemedyKind.MOVE_LEADERS,
        RemedyKind.START_MEMBERS,
        RemedyKind.SUBSCRIBE,
        RemedyKind.SEPARATE_TOPICS,
    }
    if assignor_is_fixed(group):
        impossible.add(RemedyKind.REBALANCE)
    remedies = [each for each in finding.remedies if each.kind not in impossible]
    if fit is not None and finding.reason.off_rack:
        remedies.insert(1 if finding.reason.fixed_by_rebalance else 0, fit)
    return replace(finding, remedies=tuple(remedies))
