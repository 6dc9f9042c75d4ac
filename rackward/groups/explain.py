"""Why the members of a live group read partitions from other racks."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import Explanation, LocalityFinding, Reason, Remedy, RemedyKind, explain
from assignors.model import Assignor
from placement_core import (
    ClusterView,
    InvalidOptionError,
    TopicPartition,
    parse_rack,
    source_rack,
)
from placement_core.leaders import CurrentAssignment, plan_leaders
from rackward.groups.host_racks import HostRacks
from rackward.groups.readers import (
    BALANCED_BY_TOPIC,
    COOPERATIVE_STICKY,
    RANGE,
    Reader,
    assigned_by_rackward,
    current_assignment,
    in_sync_racks,
    is_stable,
    partition_readers,
    readers_by_id,
    subscribed_topics,
    topics_read,
)
from rackward.kafka import AdminConnection, read_state
from rackward.kafka.groups import CLASSIC, CONSUMER, Group, GroupMember


@dataclass(frozen=True, slots=True)
class RackLocality:
    """Partitions of a group by rack (None: unknown).

    ``leaders`` are partitions led in the rack. ``reads`` are partitions assigned to the rack's
    members, ``local`` those of them that they read in the rack.
    """

    rack: str | None
    leaders: int
    members: int
    reads: int
    local: int


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """A group and the explanation of its off-rack partitions.

    readers
        How each member reads, by member id.
    reference
        Name of rackward's assignor that balances as the group's assignor does. The optimum is
        that assignor's.
    view
        The topics that the group reads, and no others.
    in_sync
        The result of `rackward.groups.readers.in_sync_racks`.
    """

    group: Group
    readers: Mapping[str, Reader]
    reference: str
    explanation: Explanation
    view: ClusterView
    in_sync: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)

    @property
    def racks(self) -> dict[str, str | None]:
        """Rack of each member, by member id; None: unknown."""
        return {member: reader.rack for member, reader in self.readers.items()}

    @property
    def uses_rackward(self) -> bool:
        """True if the group is assigned by the racks of leaders."""
        return assigned_by_rackward(self.group)

    @property
    def rackless_members(self) -> int:
        """Number of members whose rack is unknown."""
        return sum(parse_rack(reader.rack) is None for reader in self.readers.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """The existing topics that the group reads, sorted."""
        return tuple(sorted({tp.topic for tp in self.view.replicas}))

    def local_partitions(self, member: GroupMember) -> int:
        """Return how many of a member's partitions it reads in its rack."""
        reader = self.readers[member.id]
        rack = parse_rack(reader.rack)
        if rack is None:
            return 0
        sources = _sources(self.view, dict.fromkeys(_assignment(member), reader), self.in_sync)
        return sum(parse_rack(source) == rack for source in sources.values())

    @property
    def read_from_followers(self) -> int:
        """Number of partitions that are read from another rack than their leader's."""
        readers = _current_readers(self.group, self.readers)
        leaders = _sources(self.view, readers, {})
        sources = _sources(self.view, readers, self.in_sync)
        return sum(rack is not None and rack != leaders[tp] for tp, rack in sources.items())

    def locality_by_rack(self) -> list[RackLocality]:
        """Return a row for each rack that has members or leaders; the unknown rack is last."""
        broker_racks = self.view.racks()
        leaders = Counter(
            None if (leader := self.view.leader(tp)) is None else broker_racks.get(leader)
            for tp in self.view.replicas
        )
        rows = []
        racks = self.racks
        for rack in sorted(
            {*leaders, *racks.values()}, key=lambda name: (name is None, name or "")
        ):
            members = [each for each in self.group.members if racks[each.id] == rack]
            rows.append(
                RackLocality(
                    rack=rack,
                    leaders=leaders[rack],
                    members=len(members),
                    reads=sum(len(list(_assignment(member))) for member in members),
                    local=sum(map(self.local_partitions, members)),
                )
            )
        return rows

    def count_without_replica(self, remedy: Remedy) -> int:
        """Return the number of leaders of ``remedy`` that have no replica in their new rack."""
        racks = self.view.racks()
        return sum(
            all(parse_rack(racks.get(b)) != parse_rack(rack) for b in self.view.replicas[tp])
            for rack, partitions in remedy.moves.items()
            for topic, numbers in partitions.items()
            for tp in (TopicPartition(topic, number) for number in numbers)
        )


def check_explainable(name: str, group: Group | None) -> Group:
    """Return the group if its members have an assignment.

    Raises InvalidOptionError if the group does not exist, is not of consumers, has no members or
    is rebalancing.
    """
    if group is None:
        raise InvalidOptionError(
            f"group {name} does not exist, or this user may not describe it: check the name, or "
            f"grant this user Describe on group {name}"
        )
    if group.protocol_type not in ("", CONSUMER):
        raise InvalidOptionError(
            f"group {name} has the protocol type {group.protocol_type}: only groups of type "
            "consumer can be explained"
        )
    if group.state.lower() in ("empty", "dead") or not group.members:
        raise InvalidOptionError(
            f"group {name} has no members (state {group.state or 'unknown'}): start its consumers"
        )
    if not is_stable(group):
        raise InvalidOptionError(
            f"group {name} is rebalancing (state {group.state}): try again when it is stable"
        )
    return group


def leader_advice(group: Group) -> str:
    """Return why the group does not follow leaders that move, and what helps: a clause."""
    plan = shlex.join(["rackward", "leaders", "plan", "--group", group.id])
    protocol = group.protocol or "unknown"
    if group.type != CLASSIC:
        return (
            f"the brokers assign its partitions ({protocol}), without regard to leaders: move "
            f"leaders to its members with {plan}"
        )
    reference = reference_protocol(group)
    lead = shlex.join(["rackward", "lead", group.id])
    return (
        f"its assignor ({protocol}) has no regard to leaders: use the assignor {reference}, or "
        f"lead the group with {lead}, or move leaders to its members with {plan}"
    )


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
    current = _current_readers(group, readers)
    leaders, sources = _sources(view, current, {}), _sources(view, current, in_sync)
    leader_racks = view.leader_racks()
    for tp, rack in sources.items():
        leader_racks[tp.topic][tp.partition] = rack
    explanation = explain(
        members_of(group, {member: reader.rack for member, reader in readers.items()}),
        leader_racks,
        {member.id: member.assignment for member in group.members},
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
        optimum = sum(
            parse_rack(rack) not in (None, parse_rack(best[tp].rack))
            for tp, rack in _sources(view, best, in_sync).items()
        )
        uneven = explanation.uneven and optimum > explanation.off_rack
        explanation = replace(explanation, optimum=optimum, uneven=uneven)
    if remedies and not assigned_by_rackward(group):
        fit = fit_leaders(view, current_assignment(group, host_racks), explanation.off_rack)
        explanation = replace(
            explanation,
            findings=tuple(_possible_remedies(group, each, fit) for each in explanation.findings),
        )
    return ExplainedGroup(group, readers, reference_protocol(group), explanation, view, in_sync)


def _current_readers(group: Group, readers: Mapping[str, Reader]) -> dict[TopicPartition, Reader]:
    return partition_readers({each.id: each.assignment for each in group.members}, readers)


def _sources(
    view: ClusterView,
    readers: Mapping[TopicPartition, Reader],
    in_sync: Mapping[TopicPartition, frozenset[str]],
) -> dict[TopicPartition, str | None]:
    """Return the rack that each partition with a leader is read from."""
    leaders, racks = view.known_leaders, view.racks()
    return {
        tp: source_rack(reader.rack, racks.get(leaders[tp]), in_sync.get(tp, ()), reader.sends_rack)
        for tp, reader in readers.items()
        if tp in leaders
    }


def reference_protocol(group: Group) -> str:
    """Return the name of rackward's assignor that balances as the group's assignor does."""
    return RANGE if group.protocol in BALANCED_BY_TOPIC else COOPERATIVE_STICKY


def reference_assignor(group: Group) -> Assignor:
    """Return that assignor, with its default options."""
    if group.protocol in BALANCED_BY_TOPIC:
        return LeaderRackAwareRange()
    return LeaderRackAwareCooperativeSticky()


def members_of(group: Group, racks: Mapping[str, str | None]) -> list[Member]:
    """Return the group's members as an assignor's input, with what they own.

    ``racks`` are those of the members, by member id.
    """
    return [
        Member(
            id=member.id,
            topics=subscribed_topics(group, member) | frozenset(member.assignment),
            rack=racks[member.id],
            instance_id=member.instance_id,
            owned=member.assignment,
            generation=0,
        )
        for member in group.members
    ]


def fit_leaders(view: ClusterView, assignment: CurrentAssignment, off_rack: int) -> Remedy | None:
    """Return the move of leaders to the members that own their partitions.

    ``off_rack`` are the group's off-rack partitions now. None if that does not help. Other groups
    and a bound on leaders per broker do not count.
    """
    layout = plan_leaders(view, assignments=[assignment])
    racks = view.racks()
    leaders = {**view.leaders_or_preferred(), **{tp: row[0] for tp, row in layout.order.items()}}
    after = 0
    for tp, rack in assignment.racks.items():
        leader_rack = parse_rack(racks.get(leaders.get(tp, -1)))
        after += tp in view.replicas and leader_rack is not None and leader_rack != parse_rack(rack)
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
    leaders. That of a group of the new protocol runs on the brokers and cannot be replaced.
    """
    impossible = {
        RemedyKind.MOVE_LEADERS,
        RemedyKind.START_MEMBERS,
        RemedyKind.SUBSCRIBE,
        RemedyKind.SEPARATE_TOPICS,
    }
    if group.type != CLASSIC:
        impossible.add(RemedyKind.REBALANCE)
    remedies = [each for each in finding.remedies if each.kind not in impossible]
    if fit is not None and finding.reason.off_rack and finding.reason is not Reason.RACKLESS_MEMBER:
        remedies.insert(1 if finding.reason.fixed_by_rebalance else 0, fit)
    return replace(finding, remedies=tuple(remedies))


def _assignment(member: GroupMember) -> Iterator[TopicPartition]:
    for topic, numbers in member.assignment.items():
        for number in numbers:
            yield TopicPartition(topic, number)
