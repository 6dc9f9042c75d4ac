"""Why the members of a live group read partitions from other racks."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import Explanation, LocalityFinding, Reason, Remedy, RemedyKind, explain
from assignors.model import Assignor
from placement_core import ClusterView, InvalidOptionError, TopicPartition, parse_rack
from placement_core.leaders import CurrentAssignment, plan_leaders
from rackward.admin import AdminConnection, read_state
from rackward.admin.groups import CLASSIC, CONSUMER, Group, GroupMember
from rackward.group_readers import (
    BALANCED_BY_TOPIC,
    COOPERATIVE_STICKY,
    RANGE,
    assigned_by_rackward,
    current_assignment,
    is_stable,
    member_rack,
    subscribed_topics,
    topics_read,
)
from rackward.host_racks import HostRacks


@dataclass(frozen=True, slots=True)
class RackLocality:
    """Partitions of a group by rack (None: unknown).

    ``leaders`` are partitions led in the rack. ``reads`` are partitions assigned to the rack's
    members, ``local`` those of them that are led in the rack.
    """

    rack: str | None
    leaders: int
    members: int
    reads: int
    local: int


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """A group and the explanation of its off-rack partitions.

    racks
        Rack of each member, by member id; None: unknown.
    reference
        Name of rackward's assignor that balances as the group's assignor does. The optimum is
        that assignor's.
    view
        The topics that the group reads, and no others.
    """

    group: Group
    racks: Mapping[str, str | None]
    reference: str
    explanation: Explanation
    view: ClusterView

    @property
    def uses_rackward(self) -> bool:
        """True if the group is assigned by the racks of leaders."""
        return assigned_by_rackward(self.group)

    @property
    def rackless_members(self) -> int:
        """Number of members whose rack is unknown."""
        return sum(parse_rack(rack) is None for rack in self.racks.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """The existing topics that the group reads, sorted."""
        return tuple(sorted({tp.topic for tp in self.view.replicas}))

    def local_partitions(self, member: GroupMember) -> int:
        """Return how many of a member's partitions are led in its rack."""
        rack = parse_rack(self.racks[member.id])
        if rack is None:
            return 0
        broker_racks = self.view.racks()
        leaders = map(self.view.leader, _assignment(member))
        return sum(
            leader is not None and parse_rack(broker_racks.get(leader)) == rack
            for leader in leaders
        )

    def locality_by_rack(self) -> list[RackLocality]:
        """Return a row for each rack that has members or leaders; the unknown rack is last."""
        broker_racks = self.view.racks()
        leaders = Counter(
            None if (leader := self.view.leader(tp)) is None else broker_racks.get(leader)
            for tp in self.view.replicas
        )
        rows = []
        for rack in sorted(
            {*leaders, *self.racks.values()}, key=lambda name: (name is None, name or "")
        ):
            members = [each for each in self.group.members if self.racks[each.id] == rack]
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
    admin: AdminConnection, group: Group, host_racks: HostRacks
) -> ExplainedGroup:
    """Read the topics of ``group`` and explain it. Raises AdminError."""
    view = read_state(admin, topics_read(group), reassignments=False).view
    return explain_group(group, view, host_racks)


def explain_group(
    group: Group, view: ClusterView, host_racks: HostRacks, *, remedies: bool = True
) -> ExplainedGroup:
    """Explain ``group``; ``view`` has the topics that it reads, and no others.

    ``remedies`` False leaves out the remedies, see `assignors.explain.explain`.
    """
    racks = {member.id: member_rack(member, host_racks) for member in group.members}
    explanation = explain(
        members_of(group, racks),
        view.leader_racks(),
        {member.id: member.assignment for member in group.members},
        reference_assignor(group),
        leaders={(tp.topic, tp.partition): leader for tp, leader in view.known_leaders.items()},
        remedies=remedies,
    )
    if remedies and not assigned_by_rackward(group):
        fit = fit_leaders(view, current_assignment(group, host_racks), explanation.off_rack)
        explanation = replace(
            explanation,
            findings=tuple(_possible_remedies(group, each, fit) for each in explanation.findings),
        )
    return ExplainedGroup(group, racks, reference_protocol(group), explanation, view)


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
