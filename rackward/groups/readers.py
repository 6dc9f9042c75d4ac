"""The consumers of topics and their racks: from live groups, or as given on the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from assignors import LeaderRackAwareCooperativeSticky, LeaderRackAwareRange, Member
from assignors.model import Assignor
from placement_core import (
    LEADER_READING_PROTOCOLS,
    RACK_AWARE_SELECTOR,
    ClusterView,
    InvalidOptionError,
    TopicPartition,
    parse_rack,
)
from placement_core.leaders import DEFAULT_MAX_IMBALANCE, ConsumerDemand, CurrentAssignment
from placement_core.plugins import parse_properties
from rack_traffic.advice import BALANCED_BY_TOPIC, assigned_by_rackward
from rackward.groups.host_racks import HostRacks
from rackward.kafka import AdminConnection, ClusterState, read_partition_sizes
from rackward.kafka.groups import (
    DESCRIBED_TYPES,
    Group,
    GroupKind,
    GroupMember,
    ListedGroup,
    describe_groups,
    list_groups,
)
from rackward.units import matches_name, rackless_last


class AssignmentKind(StrEnum):
    """What a leader layout assumes of a group's assignment."""

    CURRENT = "current"
    """Members keep the partitions that they own."""

    REASSIGNED = "rackward"
    """Rackward's assignor assigns the partitions again, by the racks of their leaders."""


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of some groups, as the input of a leader layout."""

    demands: tuple[ConsumerDemand, ...] = ()
    assignments: tuple[CurrentAssignment, ...] = ()

    @property
    def topics(self) -> frozenset[str]:
        """All topics that they read."""
        of_demands = (demand.topics for demand in self.demands)
        of_assignments = (assignment.topics for assignment in self.assignments)
        return frozenset[str]().union(*of_demands, *of_assignments)

    @property
    def max_imbalance(self) -> float | None:
        """The default of ``max_imbalance`` in `placement_core.leaders.plan_leaders`."""
        return DEFAULT_MAX_IMBALANCE if self.assignments else None

    def weighted(self, amounts: Mapping[TopicPartition, float]) -> Readers:
        """Return the readers with weights: ``amounts`` of partitions, demands the mean of theirs.

        A partition that is not in ``amounts`` has 1.
        """
        demands = []
        for demand in self.demands:
            of_demand = [size for tp, size in amounts.items() if tp.topic in demand.topics]
            mean = sum(of_demand) / len(of_demand) if of_demand else 1.0
            demands.append(replace(demand, weight=mean))
        assignments = (
            replace(each, weights={tp: amounts.get(tp, 1.0) for tp in (*each.racks, *each.shared)})
            for each in self.assignments
        )
        return Readers(tuple(demands), tuple(assignments))


def read_leader_bytes(
    admin: AdminConnection, view: ClusterView, topics: Collection[str]
) -> dict[TopicPartition, float]:
    """Return the bytes that leaders store of the partitions of ``topics``.

    An empty partition counts as one byte: its weight is small, but not 0. Raises AdminError.
    """
    sizes = read_partition_sizes(admin, view, [tp for tp in view.replicas if tp.topic in topics])
    return {tp: float(max(size, 1)) for tp, size in sizes.items()}


def list_matching_groups(
    admin: AdminConnection,
    brokers: Iterable[int],
    patterns: Collection[str],
    types: Collection[str] = frozenset(DESCRIBED_TYPES),
) -> list[ListedGroup]:
    """Return the groups of these types whose name a pattern matches. Raises AdminError."""
    return [
        group
        for broker in sorted(brokers)
        for group in list_groups(admin, broker)
        if group.type in types and any(matches_name(group.id, pattern) for pattern in patterns)
    ]


def find_groups(
    admin: AdminConnection, brokers: Iterable[int], names: Collection[str]
) -> dict[str, Group]:
    """Return the groups of these names that exist, with their members, by name.

    Raises InvalidOptionError for a group of an unknown type, and AdminError.
    """
    groups: dict[str, Group] = {}
    for broker in sorted(brokers):
        listed = [group for group in list_groups(admin, broker) if group.id in names]
        for group in listed:
            if group.type not in DESCRIBED_TYPES:
                raise InvalidOptionError(
                    f"group {group.id} is a {group.type} group, which rackward cannot describe"
                )
        described, refused = describe_groups(admin, broker, listed)
        for error in refused.values():
            raise error
        groups.update((group.id, group) for group in described)
    return groups


def select_groups(
    admin: AdminConnection,
    brokers: Collection[int],
    patterns: Collection[str],
    check: Callable[[str, Group | None], Group],
) -> tuple[list[Group], dict[str, str]]:
    """Return the groups of names and patterns that ``check`` returns, sorted by name, and why it
    refuses others that only a pattern matches.

    ``check`` raises InvalidOptionError, which is raised for a group that is named. Raises it also
    if a pattern matches none, and AdminError.
    """
    exact = {pattern for pattern in patterns if "*" not in pattern}
    matched: set[str] = set()
    for pattern in sorted(set(patterns) - exact):
        listed = list_matching_groups(admin, brokers, [pattern])
        if not listed:
            raise InvalidOptionError(
                f"group {pattern}: no group matches it, or this user may not describe any: see "
                "rackward groups list"
            )
        matched.update(group.id for group in listed)
    found = find_groups(admin, brokers, exact | matched)
    selected: list[Group] = []
    refused: dict[str, str] = {}
    for name in sorted(exact | matched):
        try:
            selected.append(check(name, found.get(name)))
        except InvalidOptionError as error:
            if name in exact:
                raise
            refused[name] = str(error)
    return selected, refused


def check_exists(name: str, group: Group | None) -> Group:
    """Return the group; raise InvalidOptionError if there is none."""
    if group is None:
        raise InvalidOptionError(
            f"group {name} does not exist, or this user may not describe it: check the name, or "
            f"grant this user Describe on group {name}"
        )
    return group


def check_readers(name: str, group: Group | None) -> Group:
    """Return the group if brokers tell who reads what in it, or could.

    Raises InvalidOptionError if it does not exist or has no subscribed members.
    """
    group = check_exists(name, group)
    if (reason := why_no_readers(group)) is not None:
        raise InvalidOptionError(f"group {name}: {reason}; or use --readers")
    if not any(subscribed_topics(group, member) for member in group.members):
        raise InvalidOptionError(
            f"group {name}: it has no subscribed members (state {group.state}): start its "
            "consumers, or use --readers"
        )
    return group


def why_no_readers(group: Group) -> str | None:
    """Return why brokers do not tell who reads what in the group; None if they do, or could."""
    match group.kind:
        case GroupKind.CONNECT:
            return (
                "it has the workers of a Connect cluster, which read no partitions: give the "
                "groups of sink connectors (connect-NAME)"
            )
        case GroupKind.MANUAL:
            return (
                "it has only committed offsets: consumers that assign partitions to themselves "
                "(assign()) are no members, so brokers do not know where they are; rackward audit "
                "--measure measures what they read"
            )
        case GroupKind.OTHER:
            return f"it is a group of type {group.protocol_type}, not of consumers"
    return None


def is_stable(group: Group) -> bool:
    """Return whether the group is not rebalancing, so that its assignment is complete."""
    return group.state.lower() == "stable"


def readers_of_groups(
    groups: Iterable[Group], host_racks: HostRacks, kind: AssignmentKind | None = None
) -> Readers:
    """Return the readers of the groups. None: of the kind that fits each group's assignor.

    Raises InvalidOptionError for a group that is rebalancing, if its current assignment counts.
    """
    demands: list[ConsumerDemand] = []
    assignments: list[CurrentAssignment] = []
    for group in groups:
        follows = assigned_by_rackward(group) if kind is None else kind is AssignmentKind.REASSIGNED
        if follows:
            demands += demand_of_group(group, host_racks)
        elif is_stable(group):
            assignments.append(current_assignment(group, host_racks))
        else:
            raise InvalidOptionError(
                f"group {group.id}: it is rebalancing (state {group.state}): try again when it is "
                "stable"
            )
    return Readers(tuple(demands), tuple(assignments))


def current_assignment(group: Group, host_racks: HostRacks) -> CurrentAssignment:
    """Return what the members of a stable group own.

    As for `groups explain`, no one reads a partition that several members own, except in a share
    group.
    """
    reads = current_readers(group, host_racks)
    return CurrentAssignment(
        group.id,
        topics_read(group),
        {tp: readers[0].rack for tp, readers in reads.items() if len(readers) == 1},
        shared={
            tp: [reader.rack for reader in readers]
            for tp, readers in reads.items()
            if len(readers) > 1
        },
    )


def current_readers(
    group: Group, host_racks: HostRacks
) -> dict[TopicPartition, tuple[Reader, ...]]:
    """Return who reads each partition: in a share group one or more members, each an equal part;
    in any other group the one that owns it."""
    assigned = {member.id: member.assignment for member in group.members}
    readers = readers_by_id(group, host_racks)
    return partition_readers(assigned, readers, shared=group.kind is GroupKind.SHARE)


def may_read_followers(group: Group, selectors: Mapping[int, str]) -> bool:
    """Return whether members may read from followers, wherever leaders are.

    ``selectors`` is the replica.selector.class of each broker, as far as it is known.
    """
    return RACK_AWARE_SELECTOR in selectors.values() and not _reads_leaders(group)


def _reads_leaders(group: Group) -> bool:
    """Return whether the members read from leaders only, as share consumers do."""
    return group.kind is GroupKind.SHARE or group.protocol in LEADER_READING_PROTOCOLS


class Reader(NamedTuple):
    """A member's rack (None: unknown), and ``sends_rack`` as in `placement_core.source_rack`."""

    rack: str | None
    sends_rack: bool | None


def readers_by_id(group: Group, host_racks: HostRacks) -> dict[str, Reader]:
    """Return how each member reads, by member id.

    Members of LEADER_READING_PROTOCOLS and of share groups read from leaders. Others that send a
    rack when they join fetch with it. Those that do not may do so nevertheless, and brokers do not
    tell: kafka-python's and aiokafka's ``client_rack``, say.
    """
    reads_leaders = _reads_leaders(group)
    return {
        member.id: Reader(
            member_rack(member, host_racks),
            False if reads_leaders else True if parse_rack(member.rack) is not None else None,
        )
        for member in group.members
    }


def partition_readers(
    assigned: Mapping[str, Mapping[str, Sequence[int]]],
    readers: Mapping[str, Reader],
    *,
    shared: bool = False,
) -> dict[TopicPartition, tuple[Reader, ...]]:
    """Return who reads each partition, sorted by partition.

    ``assigned`` is member id to topic to partitions. Nobody reads a partition that several members
    own, unless members may share partitions.
    """
    owners: dict[TopicPartition, list[Reader]] = {}
    for member, share in assigned.items():
        for topic, numbers in share.items():
            for number in numbers:
                owners.setdefault(TopicPartition(topic, number), []).append(readers[member])
    return {tp: tuple(own) for tp, own in sorted(owners.items()) if shared or len(own) == 1}


def in_sync_racks(
    state: ClusterState, selectors: Mapping[int, str]
) -> dict[TopicPartition, frozenset[str]]:
    """Return what `placement_core.source_rack` needs of each partition.

    Only of partitions whose leader selects replicas by rack. ``selectors`` is the
    replica.selector.class of each broker, as far as it is known.
    """
    selecting = {broker for broker, name in selectors.items() if name == RACK_AWARE_SELECTOR}
    broker_racks = state.view.racks()
    racks_of: dict[tuple[int, ...], frozenset[str]] = {}
    racks = {}
    for tp, leader in state.view.known_leaders.items():
        if leader in selecting:
            in_sync = state.in_sync.get(tp, ())
            if in_sync not in racks_of:
                known = map(broker_racks.get, in_sync)
                racks_of[in_sync] = frozenset(rack for rack in known if rack)
            racks[tp] = racks_of[in_sync]
    return racks


def topics_read(group: Group) -> frozenset[str]:
    """Return all topics that members subscribe to or are assigned."""
    return frozenset[str]().union(
        *(subscribed_topics(group, member) | set(member.assignment) for member in group.members)
    )


def subscribed_topics(group: Group, member: GroupMember) -> frozenset[str]:
    """Return the topics of a member's subscription.

    For a member that reports none (a regular expression), the topics assigned to its group.
    """
    if member.topics:
        return member.topics
    return frozenset(topic for each in group.members for topic in each.assignment)


def member_rack(member: GroupMember, host_racks: HostRacks) -> str | None:
    """Return the rack of a member: that of its subscription, else that of its host."""
    return host_racks.locate(member.rack, member.host)[0]


def reference_assignor(group: Group) -> Assignor:
    """Return rackward's assignor that balances as the group's does, with its default options."""
    if group.protocol in BALANCED_BY_TOPIC:
        return LeaderRackAwareRange()
    return LeaderRackAwareCooperativeSticky()


def members_of(group: Group, readers: Mapping[str, Reader]) -> list[Member]:
    """Return the group's members as an assignor's input, with what they own."""
    return [
        Member(
            id=member.id,
            topics=subscribed_topics(group, member) | frozenset(member.assignment),
            rack=readers[member.id].rack,
            instance_id=member.instance_id,
            owned=member.assignment,
            generation=0,
        )
        for member in group.members
    ]


def rackless_members(group: Group, host_racks: HostRacks) -> list[GroupMember]:
    """Return the members whose rack is unknown."""
    return [member for member in group.members if member_rack(member, host_racks) is None]


def demand_of_group(group: Group, host_racks: HostRacks) -> list[ConsumerDemand]:
    """Return the group as sets of consumers that share their topics evenly.

    A group whose assignor balances topic by topic (range) becomes one set per topic. Any other
    group becomes one set per distinct subscription.
    """
    topics_by_member = {member.id: subscribed_topics(group, member) for member in group.members}

    def demand(name: str, topics: frozenset[str], members: Iterable[GroupMember]) -> ConsumerDemand:
        racks = Counter(member_rack(member, host_racks) for member in members)
        sorted_racks = sorted(racks, key=rackless_last)
        return ConsumerDemand(name, topics, {rack: racks[rack] for rack in sorted_racks})

    if group.protocol in BALANCED_BY_TOPIC:
        return [
            demand(
                f"{group.id}: {topic}",
                frozenset({topic}),
                (member for member in group.members if topic in topics_by_member[member.id]),
            )
            for topic in sorted(frozenset().union(*topics_by_member.values()))
        ]
    subscriptions = sorted(set(topics_by_member.values()) - {frozenset()}, key=sorted)
    return [
        demand(
            group.id if len(subscriptions) == 1 else f"{group.id}: {', '.join(sorted(topics))}",
            topics,
            (member for member in group.members if topics_by_member[member.id] == topics),
        )
        for topics in subscriptions
    ]


def parse_readers(option: str, text: str) -> Mapping[str | None, int]:
    """Return the consumers per rack that ``a=2,b=1`` stands for.

    Raises InvalidOptionError, which names ``option``, for other texts and if all counts are 0.
    """
    try:
        consumers: dict[str | None, int] = {
            rack: int(count) for rack, count in parse_properties(text).items()
        }
    except ValueError as error:
        problem = error if isinstance(error, InvalidOptionError) else "write RACK=NUMBER,..."
        raise InvalidOptionError(f"{option} {text}: {problem}") from error
    if any(count < 0 for count in consumers.values()):
        raise InvalidOptionError(f"{option} {text}: a number of consumers is negative")
    if not any(consumers.values()):
        raise InvalidOptionError(f"{option} {text}: give at least one consumer, as in a=2,b=1")
    return consumers
