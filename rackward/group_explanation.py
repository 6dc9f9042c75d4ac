"""A live group, explained: who reads what, from where, and why not from nearer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.explain import Explanation, Remedy, explain
from placement_core import ClusterView, InvalidOptionError, TopicPartition, parse_rack
from rackward.admin.groups import CONSUMER, Group, GroupMember
from rackward.group_readers import BALANCED_BY_TOPIC, RackOf, topics_of

OURS = frozenset({"leader-rack-aware-range", "leader-rack-aware-cooperative-sticky"})
STABLE = "stable"
_NOBODY = frozenset({"empty", "dead"})


@dataclass(frozen=True, slots=True)
class RackShare:
    """What a rack (None: not known) leads of a group's partitions, and what its members read."""

    rack: str | None
    leaders: int
    members: int
    reads: int
    local: int


@dataclass(frozen=True, slots=True)
class ExplainedGroup:
    """``racks`` are those of its members, as they say or as they are mapped, by member id.

    ``assignor`` is the name of the one of ours that balances as the group's does, and that says
    what is best.
    """

    group: Group
    racks: Mapping[str, str | None]
    assignor: str
    found: Explanation
    view: ClusterView

    @property
    def ours(self) -> bool:
        """Whether the group is assigned by racks already."""
        return self.group.protocol in OURS

    @property
    def silent(self) -> int:
        """Members whose rack is not known."""
        return sum(parse_rack(rack) is None for rack in self.racks.values())

    @property
    def topics(self) -> tuple[str, ...]:
        """What the group reads, of what there is."""
        return tuple(sorted({place.topic for place in self.view.replicas}))

    def local(self, member: GroupMember) -> int:
        """How many partitions a member reads in its rack."""
        path = parse_rack(self.racks[member.id])
        leaders = self.view.racks()
        return sum(
            path is not None and parse_rack(leaders.get(self.view.leaders.get(place, -1))) == path
            for place in _places(member)
        )

    def shares(self) -> list[RackShare]:
        """By rack, those without members or leaders left out; the unknown one last."""
        of_broker = self.view.racks()
        led = Counter(of_broker.get(self.view.leaders.get(p, -1)) for p in self.view.replicas)
        names = {*led, *self.racks.values()}
        shares = []
        for rack in sorted(names, key=lambda each: (each is None, each or "")):
            there = [each for each in self.group.members if self.racks[each.id] == rack]
            shares.append(
                RackShare(
                    rack=rack,
                    leaders=led[rack],
                    members=len(there),
                    reads=sum(len(list(_places(each))) for each in there),
                    local=sum(map(self.local, there)),
                )
            )
        return shares

    def without_replica(self, remedy: Remedy) -> int:
        """How many of the leaders that would move have no replica where they would move to."""
        racks = self.view.racks()
        return sum(
            all(parse_rack(racks.get(b)) != parse_rack(rack) for b in self.view.replicas[place])
            for rack, partitions in remedy.moves.items()
            for topic, numbers in partitions.items()
            for place in (TopicPartition(topic, number) for number in numbers)
        )


def check_explainable(name: str, group: Group | None) -> Group:
    """The group, where its members have been assigned something.

    Raises InvalidOptionError, in one line, where there is none, or it is not at rest.
    """
    if group is None:
        raise InvalidOptionError(
            f"group {name}: there is no such group that this user may see: check the name"
        )
    state = group.state.lower()
    if group.protocol_type not in ("", CONSUMER):
        raise InvalidOptionError(
            f"group {name} is one of {group.protocol_type}: only consumers read partitions "
            "that are assigned by rack"
        )
    if state in _NOBODY or not group.members:
        raise InvalidOptionError(
            f"group {name} has no members now (state {group.state or 'unknown'}): start it"
        )
    if state != STABLE:
        raise InvalidOptionError(
            f"group {name} is rebalancing (state {group.state}): ask again when it has settled"
        )
    return group


def topics_read(group: Group) -> frozenset[str]:
    """All that its members subscribe to or are assigned."""
    return frozenset().union(*(_topics(group, member) for member in group.members))


def explained(group: Group, view: ClusterView, rack_of: RackOf) -> ExplainedGroup:
    """Explain ``group``; ``view`` has the topics that it reads, and no others."""
    by_topic = group.protocol in BALANCED_BY_TOPIC
    best = LeaderRackAwareRange() if by_topic else LeaderRackAwareCooperativeSticky()
    racks = {member.id: rack_of(member) for member in group.members}
    members = [
        Member(member.id, _topics(group, member), racks[member.id], member.instance_id)
        for member in group.members
    ]
    found = explain(
        members,
        view.leader_racks(),
        {member.id: member.assignment for member in group.members},
        best,
        leaders={(place.topic, place.partition): at for place, at in view.leaders.items()},
    )
    name = "leader-rack-aware-range" if by_topic else "leader-rack-aware-cooperative-sticky"
    return ExplainedGroup(group, racks, name, found, view)


def _topics(group: Group, member: GroupMember) -> frozenset[str]:
    return topics_of(group, member) | frozenset(member.assignment)


def _places(member: GroupMember) -> Iterator[TopicPartition]:
    for topic, numbers in member.assignment.items():
        for number in numbers:
            yield TopicPartition(topic, number)
