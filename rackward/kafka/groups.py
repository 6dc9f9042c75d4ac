"""Consumer groups, their members and committed offsets, of the classic and the new protocol.

Each broker lists the groups that it coordinates, so a group is described by the broker that listed
it. If the group has moved to another coordinator since, that one group is refused, not all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assignors.consumer_protocol import (
    ConsumerProtocolError,
    SubscriptionReader,
    split_user_data,
)
from placement_core import TopicPartition
from rackward.kafka.client import AdminConnection
from rackward.kafka.errors import COORDINATOR_LOADING, AdminError, TooOldError, from_code
from rackward.units import Deadline

CLASSIC, CONSUMER = "classic", "consumer"
OWN_PROTOCOLS = "leader-rack-aware-range", "leader-rack-aware-cooperative-sticky"
"""Rackward's assignors."""

LEAD_CLIENT_ID = "rackward-lead"
"""Client id, or its prefix, of the members that ``rackward lead`` joins groups with."""

LEADER_MARKER = b"\0\0" + b"\0\0\0\1" + b"\0\x0erackward-leads" + b"\0\0\0\0" + b"\xff" * 4
"""The assignment of such a member if it has assigned the partitions of all members: no partition of
a topic of this name. It has no user data, with which brokers would refuse to turn the group into
one of the new protocol."""

RACK_AFFINITY = "rack-affinity"
"""kafka-go's assignor by racks, whose members send theirs as their user data."""

MAX_METADATA_BYTES = 1 << 20
"""Longer metadata of a member is not decoded: its topics, rack and assignment are then unknown."""

_RETRY_SECONDS = 0.1

_FIRST_VERSION_OF_SEVERAL_GROUPS = 8
_LAST_VERSION_WITH_TOPIC_NAMES = 9

Assignment = Mapping[str, Sequence[int]]
"""Topic to partitions."""

CommittedOffsets = dict[str, dict[TopicPartition, int]]
"""Group to partition to the offset of the next record to consume."""


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


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group.

    ``host`` is the address that the broker sees; ``rack`` is the member's own, None if it sends
    none. ``can_send_rack`` is whether what it sends has a field for its rack; None if unknown.
    ``errors`` describe those parts of its metadata that could not be decoded.
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

    ``protocol`` is the name of its assignor, empty while it has none. ``generation`` is the epoch
    of a group of the new protocol, None for a classic one. ``members`` are without those of
    ``rackward lead``, which read nothing: these are ``waiting``, and ``leader`` is the one of them
    that made the present assignment, None if another member did.
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


def list_groups(
    admin: AdminConnection, broker: int, deadline: Deadline | None = None
) -> list[ListedGroup]:
    """List the groups that ``broker`` coordinates and that this user may describe.

    Retries while the coordinator is loading. Raises AdminError.
    """
    from kafka.protocol.admin import ListGroupsRequest

    operation = f"listing the groups of broker {broker}"
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    until = deadline or admin.deadline()
    while (response := admin.send(operation, request, node=broker, deadline=until)).error_code:
        if response.error_code != COORDINATOR_LOADING or not until.remaining:
            raise from_code(
                operation, request.name, response.error_code, acl="Describe on the groups"
            )
        time.sleep(min(_RETRY_SECONDS, until.remaining))
    return [
        ListedGroup(
            each.group_id,
            each.protocol_type,
            (each.group_type or CLASSIC).lower(),
            each.group_state or "",
        )
        for each in response.groups
    ]


def describe_classic_groups(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> tuple[list[Group], dict[str, AdminError]]:
    """Describe groups of the classic protocol in one request to their coordinator.

    Returns the groups, and group id to error for the refused ones. Raises AdminError.
    """
    from kafka.protocol.admin import DescribeGroupsRequest

    request = DescribeGroupsRequest(groups=list(ids), include_authorized_operations=False)
    return _describe(admin, broker, request, _parse_classic_group, deadline)


def describe_consumer_groups(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> tuple[list[Group], dict[str, AdminError]]:
    """Describe groups of the new protocol (KIP-848); see `describe_classic_groups`."""
    from rackward.kafka.messages import ConsumerGroupDescribeRequest

    request = ConsumerGroupDescribeRequest(group_ids=list(ids), include_authorized_operations=False)
    return _describe(admin, broker, request, _parse_consumer_group, deadline)


def read_committed_offsets(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> tuple[CommittedOffsets, dict[str, AdminError]]:
    """Read the committed offsets of groups that ``broker`` coordinates, for all their topics.

    One request, or one for each group with brokers before Kafka 3.0. Offsets of open transactions
    do not count. Returns the offsets, and group id to error for the refused groups. Raises
    AdminError.
    """
    from kafka.protocol.consumer.group import OffsetFetchRequest as Request

    operation = f"reading committed offsets of broker {broker}'s groups"
    request = Request(
        groups=[Request.OffsetFetchRequestGroup(group_id=each, topics=None) for each in ids],
        require_stable=False,
        min_version=_FIRST_VERSION_OF_SEVERAL_GROUPS,
        max_version=_LAST_VERSION_WITH_TOPIC_NAMES,
    )
    results: dict[str, Any]
    try:
        response = admin.send(operation, request, node=broker, deadline=deadline)
        results = {each.group_id: each for each in response.groups}
    except TooOldError:
        results = {}
        for each in ids:
            single = Request(
                group_id=each, topics=None, max_version=_FIRST_VERSION_OF_SEVERAL_GROUPS - 1
            )
            results[each] = admin.send(operation, single, node=broker, deadline=deadline)
    offsets: CommittedOffsets = {}
    refused: dict[str, AdminError] = {}
    for group, result in results.items():
        if result.error_code:
            refused[group] = from_code(
                f"reading committed offsets of group {group}",
                "OffsetFetch",
                result.error_code,
                acl=f"Describe on group {group} and on its topics",
            )
        else:
            offsets[group] = {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in result.topics
                for each in topic.partitions
                if not each.error_code and each.committed_offset >= 0
            }
    return offsets, refused


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


def _describe(
    admin: AdminConnection,
    broker: int,
    request: Any,
    parse: Callable[[Any], Group],
    deadline: Deadline | None,
) -> tuple[list[Group], dict[str, AdminError]]:
    operation = f"describing groups of broker {broker}"
    response = admin.send(operation, request, node=broker, deadline=deadline)
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
        else:
            groups.append(parse(each))
    return groups, refused


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


def _parse_consumer_group(group: Any) -> Group:
    return Group(
        id=group.group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER,
        protocol=group.assignor_name,
        generation=group.group_epoch,
        members=tuple(_parse_consumer_member(each) for each in group.members),
    )


def _parse_consumer_member(member: Any) -> GroupMember:
    return GroupMember(
        id=member.member_id,
        instance_id=member.instance_id or None,
        client_id=member.client_id,
        host=member.client_host,
        rack=member.rack_id or None,
        topics=frozenset(member.subscribed_topic_names),
        assignment={
            each.topic_name: tuple(each.partitions) for each in member.assignment.topic_partitions
        },
        can_send_rack=True,
    )
