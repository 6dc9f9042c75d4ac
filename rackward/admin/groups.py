"""Consumer groups and their members, of the classic and of the new protocol; read only.

A broker lists the groups that it coordinates, so whoever lists a group is the one to be asked
about it. A group that moves to another broker meanwhile is refused there, by name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assignors.consumer_protocol import SubscriptionReader, WireError
from placement_core import TopicPartition
from rackward.admin.client import AdminConnection
from rackward.admin.errors import COORDINATOR_LOADING, AdminError, Deadline, TooOldError, refusal

CLASSIC, CONSUMER = "classic", "consumer"
MOST_METADATA_BYTES = 1 << 20
"""More than this, of one member, is not read: topics, rack and assignment are then not known."""

_PAUSE_SECONDS = 0.1

Shares = Mapping[str, Sequence[int]]
"""Topic to partitions."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it; ``type`` in lower case, ``state`` empty where not said.

    ``protocol_type`` is ``consumer``, that of another client of the protocol (``connect``), or
    empty for a group whose consumers assign partitions to themselves and merely commit.
    """

    id: str
    protocol_type: str
    type: str = CLASSIC
    state: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member; ``host`` is as the broker sees it, ``rack`` as the member says, or None.

    ``faults`` names the parts of what it sent that made no sense.
    """

    id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    assignment: Shares = field(default_factory=dict)
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A group; ``generation`` is the epoch of one of the new protocol, None of a classic one.

    ``protocol`` is the assignor's name, empty while there is none.
    """

    id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    generation: int | None
    members: tuple[GroupMember, ...]


Described = tuple[list[Group], dict[str, AdminError]]
"""Groups, and group to error for those that the broker would not describe."""


def list_groups(
    admin: AdminConnection, broker: int, deadline: Deadline | None = None
) -> list[ListedGroup]:
    """The groups that ``broker`` coordinates and that this user may see.

    Asked again while it is still reading what it took over from another. Raises AdminError.
    """
    from kafka.protocol.admin import ListGroupsRequest

    doing = f"listing the groups of broker {broker}"
    request = ListGroupsRequest(states_filter=[], types_filter=[])
    until = deadline or admin.deadline()
    while (answer := admin.ask(doing, request, node=broker, deadline=until)).error_code:
        if answer.error_code != COORDINATOR_LOADING or not until.remaining:
            raise refusal(doing, request.name, answer.error_code, needs="Describe on the groups")
        time.sleep(min(_PAUSE_SECONDS, until.remaining))
    return [
        ListedGroup(
            each.group_id,
            each.protocol_type,
            (each.group_type or CLASSIC).lower(),
            each.group_state or "",
        )
        for each in answer.groups
    ]


def describe_classic_groups(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> Described:
    """Groups of the classic protocol, in one request to their coordinator. Raises AdminError."""
    from kafka.protocol.admin import DescribeGroupsRequest

    doing = f"describing groups of broker {broker}"
    request = DescribeGroupsRequest(groups=list(ids), include_authorized_operations=False)
    answer = admin.ask(doing, request, node=broker, deadline=deadline)
    return _sorted_out(answer, request.name, _classic)


def describe_consumer_groups(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> Described:
    """Groups of the new protocol, in one request to their coordinator. Raises AdminError."""
    from rackward.admin.messages import ConsumerGroupDescribeRequest

    doing = f"describing groups of broker {broker}"
    request = ConsumerGroupDescribeRequest(group_ids=list(ids), include_authorized_operations=False)
    answer = admin.ask(doing, request, node=broker, deadline=deadline)
    return _sorted_out(answer, request.name, _consumer)


def classic_member(
    member: Any, reader: SubscriptionReader, most_bytes: int = MOST_METADATA_BYTES
) -> GroupMember:
    """A member of a DescribeGroupsResponse, its bytes read for as much as can be understood."""
    metadata, assignment = member.member_metadata or b"", member.member_assignment or b""
    faults: list[str] = []
    rack, topics, shares = None, frozenset[str](), {}
    if len(metadata) > most_bytes or len(assignment) > most_bytes:
        longest = max(len(metadata), len(assignment))
        faults.append(f"it sent {longest} bytes, of which at most {most_bytes} are read")
    else:
        if metadata:
            said = reader.read(bytes(metadata))
            rack, topics = said.rack, said.topics
            faults.extend(said.faults)
        if assignment:
            try:
                shares = reader.read_assignment(bytes(assignment))
            except WireError as error:
                faults.append(f"assignment: {error}")
    return GroupMember(
        id=member.member_id,
        instance_id=member.group_instance_id or None,
        client_id=member.client_id,
        host=member.client_host,
        rack=rack,
        topics=topics,
        assignment=shares,
        faults=tuple(faults),
    )


def _sorted_out(answer: Any, api: str, read: Any) -> Described:
    found, refused = [], {}
    for each in answer.groups:
        if each.error_code:
            refused[each.group_id] = refusal(
                f"describing group {each.group_id}",
                api,
                each.error_code,
                getattr(each, "error_message", None),
                needs=f"Describe on group {each.group_id}",
            )
        else:
            found.append(read(each))
    return found, refused


def _classic(group: Any) -> Group:
    subscribing = group.protocol_type == CONSUMER
    reader = SubscriptionReader()
    return Group(
        id=group.group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        generation=None,
        members=tuple(classic_member(each, reader) for each in group.members)
        if subscribing
        else (),
    )


def _consumer(group: Any) -> Group:
    return Group(
        id=group.group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER,
        protocol=group.assignor_name,
        generation=group.group_epoch,
        members=tuple(_consumer_member(each) for each in group.members),
    )


def _consumer_member(member: Any) -> GroupMember:
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
    )


# ---- What groups have committed.

Committed = dict[str, dict[TopicPartition, int]]
"""Group to partition to the next offset that it would read."""

_SEVERAL = 8
"""The version from which one request may ask for several groups."""
_BY_NAME = 9
"""The last version that calls topics by name."""


def read_committed(
    admin: AdminConnection, broker: int, ids: Sequence[str], deadline: Deadline | None = None
) -> tuple[Committed, dict[str, AdminError]]:
    """The committed offsets of groups that ``broker`` coordinates, of all their topics.

    One request, or one for each group where brokers are older than Kafka 3.0. Offsets of
    transactions that are still open do not count. The second value has group to error for
    those that the broker refused. Raises AdminError.
    """
    from kafka.protocol.consumer.group import OffsetFetchRequest

    doing = f"reading committed offsets of broker {broker}'s groups"
    of_group = OffsetFetchRequest.OffsetFetchRequestGroup
    several = OffsetFetchRequest(
        groups=[of_group(group_id=each, topics=None) for each in ids],
        require_stable=False,
        min_version=_SEVERAL,
        max_version=_BY_NAME,
    )
    found: Committed = {}
    refused: dict[str, AdminError] = {}
    try:
        answers = admin.ask(doing, several, node=broker, deadline=deadline).groups
    except TooOldError:
        for each in ids:
            one = OffsetFetchRequest(group_id=each, topics=None, max_version=_SEVERAL - 1)
            answer = admin.ask(doing, one, node=broker, deadline=deadline)
            _take(each, answer, found, refused)
    else:
        for answer in answers:
            _take(answer.group_id, answer, found, refused)
    return found, refused


def _take(group: str, answer: Any, found: Committed, refused: dict[str, AdminError]) -> None:
    if answer.error_code:
        refused[group] = refusal(
            f"reading committed offsets of group {group}",
            "OffsetFetch",
            answer.error_code,
            needs=f"Describe on group {group} and on its topics",
        )
        return
    found[group] = {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }
