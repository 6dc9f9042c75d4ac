"""Groups of all kinds, their members, what these read, and committed offsets.

Each broker lists the groups that it coordinates, so a group is described by the broker that listed
it. If the group has moved to another coordinator since, that one group is refused, not all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import JoinGroupRequest, LeaveGroupRequest, OffsetFetchRequest

from assignors.consumer_protocol import (
    ConsumerProtocolError,
    SubscriptionReader,
    split_user_data,
)
from placement_core import TopicPartition
from rack_traffic.advice import CLASSIC, OWN_PROTOCOLS, RACK_AFFINITY
from rackward.kafka.client import AdminConnection
from rackward.kafka.errors import COORDINATOR_LOADING, AdminError, from_code

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
"""Types of groups beside CLASSIC, as brokers list them."""

LEAD_CLIENT_ID = "rackward-lead"
"""Client id, or its prefix, of the members that ``rackward lead`` joins groups with."""

LEADER_MARKER = b"\0\0" + b"\0\0\0\1" + b"\0\x0erackward-leads" + b"\0\0\0\0" + b"\xff" * 4
"""The assignment of such a member if it has assigned the partitions of all members: no partition of
a topic of this name. It has no user data, with which brokers would refuse to turn the group into
one of the new protocol."""

MAX_METADATA_BYTES = 1 << 20
"""Longer metadata of a member is not decoded: its topics, rack and assignment are then unknown."""

_FIRST_VERSION_OF_SEVERAL_GROUPS, _LAST_VERSION_WITH_TOPIC_NAMES = 8, 9
"""Versions of OffsetFetch."""

Assignment = Mapping[str, Sequence[int]]
"""Topic to partitions."""

CommittedOffsets = dict[str, dict[TopicPartition, int]]
"""Group to partition to the offset of the next record to consume."""


class GroupKind(Enum):
    """What a group is, from the type and the protocol type that brokers list."""

    CLASSIC = "classic"
    """Consumers of the classic protocol; one of them, the leader, assigns the partitions."""

    CONSUMER = "consumer"
    """Consumers of the new protocol (KIP-848); brokers assign the partitions."""

    SHARE = "share"
    """Share consumers (KIP-932); brokers assign, and a partition has one or more readers."""

    STREAMS = "streams"
    """Kafka Streams with group.protocol=streams (KIP-1071); brokers assign tasks."""

    CONNECT = "connect"
    """The workers of a Connect cluster: they share connectors, and read no partitions of topics.
    The tasks of a sink connector are a CLASSIC group of their own, ``connect-NAME``."""

    MANUAL = "manual"
    """Only committed offsets: of consumers that assign partitions to themselves (``assign()``), or
    set by a tool."""

    OTHER = "other"
    """Other clients of the classic protocol, such as schema registries, and types to come."""

    @classmethod
    def of(cls, type: str, protocol_type: str) -> GroupKind:
        """Return the kind; both arguments as brokers list them, ``type`` in lower case."""
        if type != CLASSIC:
            return {CONSUMER: cls.CONSUMER, SHARE: cls.SHARE, STREAMS: cls.STREAMS}.get(
                type, cls.OTHER
            )
        return {CONSUMER: cls.CLASSIC, "connect": cls.CONNECT, "": cls.MANUAL}.get(
            protocol_type, cls.OTHER
        )


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it; ``type`` in lower case, ``state`` empty if unknown.

    ``protocol_type`` is ``consumer``, that of another client of the protocol (``connect``), or
    empty for a group whose consumers assign partitions to themselves and only commit.
    """

    id: str
    protocol_type: str
    type: str = CLASSIC
    state: str = ""

    @property
    def kind(self) -> GroupKind:
        """What the group is."""
        return GroupKind.of(self.type, self.protocol_type)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    ``host`` is the address that the broker sees; ``rack`` is the member's own, None if it sends
    none. ``can_send_rack`` is whether what it sends has a field for its rack; None if unknown.
    ``errors`` describe those parts of its metadata that could not be decoded.

    ``assignment`` is what it reads. In a share group, other members may read the same partitions.
    Of a member of a streams group, it is the partitions of its active tasks: those of the source
    topics of their subtopologies. A task's number may exceed the partitions that a topic has.
    """

    id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    assignment: Assignment = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    can_send_rack: bool | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group with its members.

    ``protocol`` is the name of its assignor, empty while it has none or if brokers do not tell it
    (streams groups). ``generation`` is the epoch of a group that brokers assign, None for a classic
    one. ``members`` are without those of ``rackward lead``, which read nothing: these are
    ``waiting``, and ``leader`` is the one of them that made the present assignment, None if another
    member did.
    """

    id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    generation: int | None
    members: tuple[GroupMember, ...]
    leader: str | None = None
    waiting: tuple[str, ...] = ()

    @property
    def kind(self) -> GroupKind:
        """What the group is."""
        return GroupKind.of(self.type, self.protocol_type)


def list_groups(admin: AdminConnection, broker: int) -> list[ListedGroup]:
    """List the groups that ``broker`` coordinates and that this user may describe.

    Retries while the coordinator is loading. Raises AdminError.
    """
    operation = f"listing the groups of broker {broker}"
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    response = admin.send_while(COORDINATOR_LOADING, operation, request, node=broker)
    if code := response.error_code:
        raise from_code(operation, request.name, code, acl="Describe on the groups")
    return [
        ListedGroup(
            each.group_id,
            each.protocol_type,
            (each.group_type or CLASSIC).lower(),
            each.group_state or "",
        )
        for each in response.groups
    ]


DESCRIBED_TYPES = (CLASSIC, CONSUMER, SHARE, STREAMS)
"""The types of groups that can be described."""


def describe_groups_of_type(
    admin: AdminConnection, broker: int, type: str, ids: Sequence[str]
) -> tuple[list[Group], dict[str, AdminError]]:
    """Describe groups of one of DESCRIBED_TYPES in one request to their coordinator.

    Returns the groups, and group id to error for the refused ones. Raises AdminError.
    """
    request = _describe_request(type, ids)
    response = admin.send(f"describing groups of broker {broker}", request, node=broker)
    groups, refused = [], {}
    for each in response.groups:
        if each.error_code:
            refused[each.group_id] = from_code(
                f"describing group {each.group_id}",
                request.name,
                each.error_code,
                getattr(each, "error_message", None),
                acl=f"Describe on group {each.group_id}",
            )
        elif type == CLASSIC:
            groups.append(_parse_classic_group(each))
        else:
            groups.append(_parse_group(each, type))
    return groups, refused


def _describe_request(type: str, ids: Sequence[str]) -> Any:
    if type == CLASSIC:
        return DescribeGroupsRequest(groups=list(ids), include_authorized_operations=False)
    # Here, since their schemas take a while to load.
    from rackward.kafka import messages

    request = {
        CONSUMER: messages.ConsumerGroupDescribeRequest,
        SHARE: messages.ShareGroupDescribeRequest,
        STREAMS: messages.StreamsGroupDescribeRequest,
    }[type]
    return request(group_ids=list(ids), include_authorized_operations=False)


def describe_groups(
    admin: AdminConnection, broker: int, listed: Collection[ListedGroup]
) -> tuple[list[Group], dict[str, AdminError]]:
    """Describe groups of any kinds that ``broker`` coordinates, in one request per type.

    Groups of other types than DESCRIBED_TYPES are left out. Returns the groups, and group id to
    error for the refused ones. Raises AdminError.
    """
    groups: list[Group] = []
    refused: dict[str, AdminError] = {}
    for type in DESCRIBED_TYPES:
        if ids := [each.id for each in listed if each.type == type]:
            described, errors = describe_groups_of_type(admin, broker, type, ids)
            groups += described
            refused |= errors
    return groups, refused


def read_committed_offsets(
    admin: AdminConnection, broker: int, ids: Sequence[str]
) -> tuple[CommittedOffsets, dict[str, AdminError]]:
    """Read the committed offsets of groups that ``broker`` coordinates, for all their topics.

    One request, which brokers have from Kafka 3.0 on. Offsets of open transactions do not count.
    Returns the offsets, and group id to error for the refused groups. Raises AdminError.
    """
    operation = f"reading committed offsets of broker {broker}'s groups"
    response = admin.send(operation, offsets_request(ids), node=broker)
    offsets: CommittedOffsets = {}
    refused: dict[str, AdminError] = {}
    for result in response.groups:
        group = result.group_id
        if result.error_code:
            refused[group] = from_code(
                f"reading committed offsets of group {group}",
                "OffsetFetch",
                result.error_code,
                acl=f"Describe on group {group} and on its topics",
            )
        else:
            offsets[group] = parse_offsets(result)
    return offsets, refused


def offsets_request(ids: Sequence[str]) -> Any:
    """Return an OffsetFetch request for all topics of these groups."""
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[group(group_id=each, topics=None) for each in ids],
        require_stable=False,
        min_version=_FIRST_VERSION_OF_SEVERAL_GROUPS,
        max_version=_LAST_VERSION_WITH_TOPIC_NAMES,
    )


def parse_offsets(group: Any) -> dict[TopicPartition, int]:
    """Return the offsets of one group of an OffsetFetch response."""
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def join_request(
    group: str,
    member_id: str,
    protocols: Sequence[tuple[str, bytes]],
    *,
    session_seconds: float,
    rebalance_seconds: float,
    reason: str,
    protocol_type: str = CONSUMER,
) -> Any:
    """Return a JoinGroup request of a dynamic member that lists ``protocols``, as name and
    subscription."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=int(session_seconds * 1000),
        rebalance_timeout_ms=int(rebalance_seconds * 1000),
        member_id=member_id,
        group_instance_id=None,
        protocol_type=protocol_type,
        protocols=[protocol(name=name, metadata=metadata) for name, metadata in protocols],
        reason=reason or None,
        # The first with member ids that are given before a member joins.
        min_version=4,
    )


def leave_request(group: str, members: Sequence[tuple[str, str | None]], reason: str) -> Any:
    """Return a LeaveGroup request for members, given as member id and instance id."""
    member = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group,
        member_id=members[0][0],
        members=[
            member(member_id=id, group_instance_id=instance, reason=reason or None)
            for id, instance in members
        ],
    )


def _parse_classic_member(
    member: Any,
    reader: SubscriptionReader,
    protocol: str,
) -> GroupMember:
    """Return a member of a DescribeGroupsResponse, with as much of its metadata as decodes.

    Its user data is read only if ``protocol``, the group's, is one of rackward's or RACK_AFFINITY:
    each assignor has a layout of its own.
    """
    metadata, assigned = member.member_metadata or b"", member.member_assignment or b""
    errors: list[str] = []
    rack, topics, assignment = None, frozenset[str](), {}
    if max(len(metadata), len(assigned)) > MAX_METADATA_BYTES:
        longest = max(len(metadata), len(assigned))
        errors.append(
            f"its metadata has {longest} bytes, and at most {MAX_METADATA_BYTES} are decoded"
        )
    else:
        if metadata:
            subscription = reader.read(bytes(metadata), user_data=protocol in OWN_PROTOCOLS)
            rack, topics = subscription.rack, subscription.topics
            if protocol == RACK_AFFINITY:
                rack = read_affinity_rack(split_user_data(bytes(metadata))[1])
            errors.extend(subscription.errors)
        if assigned:
            try:
                assignment = reader.read_assignment(bytes(assigned))
            except ConsumerProtocolError as error:
                errors.append(f"assignment: {error}")
    return GroupMember(
        id=member.member_id,
        instance_id=member.group_instance_id or None,
        client_id=member.client_id,
        host=member.client_host,
        rack=rack,
        topics=topics,
        assignment=assignment,
        errors=tuple(errors),
        # Version 3 of ConsumerProtocolSubscription added the rack.
        can_send_rack=(
            protocol == RACK_AFFINITY or int.from_bytes(metadata[:2]) >= 3 if metadata else None
        ),
    )


def read_affinity_rack(user_data: bytes) -> str | None:
    """Return the rack in the user data of RACK_AFFINITY; None if there is none."""
    try:
        return user_data.decode() or None
    except UnicodeDecodeError:
        return None


def _parse_classic_group(group: Any) -> Group:
    members = group.members if group.protocol_type == CONSUMER else ()
    leading = [each for each in members if leads_for_rackward(each.member_id)]
    reader = SubscriptionReader()
    return Group(
        id=group.group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        generation=None,
        members=tuple(
            _parse_classic_member(each, reader, group.protocol_data)
            for each in members
            if each not in leading
        ),
        leader=next((m.member_id for m in leading if _has_assigned(m)), None),
        waiting=tuple(m.member_id for m in leading if not _has_assigned(m)),
    )


def leads_for_rackward(member_id: str) -> bool:
    """Return whether this is the id of a member that is there to lead, by its client id."""
    return member_id.startswith(f"{LEAD_CLIENT_ID}-")


def _has_assigned(member: Any) -> bool:
    return bytes(member.member_assignment or b"") == LEADER_MARKER


def _parse_group(group: Any, type: str) -> Group:
    """Return a group that brokers assign; ``type`` is CONSUMER, SHARE or STREAMS."""
    sources = _sources(group) if type == STREAMS else {}
    return Group(
        id=group.group_id,
        type=type,
        state=group.group_state,
        protocol_type=type,
        protocol="" if type == STREAMS else group.assignor_name,
        generation=group.group_epoch,
        members=tuple(_parse_member(each, type, sources) for each in group.members),
    )


def _parse_member(member: Any, type: str, sources: Mapping[str, Sequence[str]]) -> GroupMember:
    """Return a member; ``sources`` are the topics that each subtopology reads."""
    assignment: dict[str, tuple[int, ...]] = {}
    if type == STREAMS:
        topics = frozenset(topic for read in sources.values() for topic in read)
        for tasks in member.assignment.active_tasks:
            for topic in sources.get(tasks.subtopology_id, ()):
                assignment[topic] = (*assignment.get(topic, ()), *tasks.partitions)
    else:
        topics = frozenset(member.subscribed_topic_names)
        for each in member.assignment.topic_partitions:
            assignment[each.topic_name] = tuple(each.partitions)
    return GroupMember(
        id=member.member_id,
        # Members of share groups have none.
        instance_id=getattr(member, "instance_id", None) or None,
        client_id=member.client_id,
        host=member.client_host,
        rack=member.rack_id or None,
        topics=topics,
        assignment=assignment,
        can_send_rack=True,
    )


def _sources(group: Any) -> dict[str, Sequence[str]]:
    """Return the topics that each subtopology of a streams group reads."""
    subtopologies = (group.topology.subtopologies if group.topology else None) or ()
    return {
        each.subtopology_id: (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        )
        for each in subtopologies
    }
