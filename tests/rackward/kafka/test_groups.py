"""Listing groups while their coordinator is loading, and describing groups of other assignors."""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.consumer_protocol import EMPTY_SUBSCRIPTION, NOTHING_ASSIGNED, SubscriptionReader
from rack_traffic.advice import CLASSIC
from rackward.kafka import AdminConnection, AdminError
from rackward.kafka.errors import COORDINATOR_LOADING
from rackward.kafka.groups import (
    LEADER_MARKER,
    Group,
    GroupKind,
    ListedGroup,
    describe_groups,
    describe_groups_of_type,
    list_groups,
)
from tests.support.kafka_python import assignment_bytes

UNAUTHORIZED = 30


class FakeAdmin(AdminConnection):
    """Answers each request with what ``respond`` returns."""

    def __init__(self, respond: Callable[[Any], Any], timeout: float = 30.0) -> None:
        super().__init__(None, "k:1", timeout)
        self._respond = respond

    def send(self, operation: str, request: Any, *, node: int | None = None) -> Any:  # noqa: ARG002
        return _namespace(self._respond(request))


def list_from(*codes: int, timeout: float = 30.0) -> list[ListedGroup]:
    """List the groups of a broker that responds with these error codes, one after the other."""
    group = {
        "group_id": "g", "protocol_type": "consumer", "group_type": "Classic",
        "group_state": "Stable",
    }  # fmt: skip
    responses = ({"error_code": code, "groups": [group]} for code in codes)
    return list_groups(FakeAdmin(lambda _: next(responses), timeout), 3)


def test_retries_while_the_coordinator_is_loading() -> None:
    groups = list_from(COORDINATOR_LOADING, COORDINATOR_LOADING, 0)
    assert groups == [ListedGroup("g", "consumer", "classic", "Stable")]


@pytest.mark.parametrize(("code", "timeout"), [(COORDINATOR_LOADING, 0.0), (UNAUTHORIZED, 30.0)])
def test_other_errors_and_the_deadline_end_the_retries(code: int, timeout: float) -> None:
    with pytest.raises(AdminError, match="broker 3"):
        list_from(code, timeout=timeout)


def described(*members: tuple[str, bytes, bytes], protocol: str = "range") -> Group:
    """Return the description of a stable group: member id, subscription and assignment."""
    group = {
        "error_code": 0,
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": protocol,
        "members": [
            {
                "member_id": member_id,
                "group_instance_id": None,
                "client_id": member_id[:-37],
                "client_host": "/127.0.0.1",
                "member_metadata": metadata,
                "member_assignment": assignment,
            }
            for member_id, metadata, assignment in members
        ],
    }
    admin = FakeAdmin(lambda _: {"groups": [group]})
    ((found,), refused) = describe_groups_of_type(admin, 1, CLASSIC, ["g"])
    assert not refused
    return found


@pytest.mark.parametrize("user_data", [struct.pack(">i", 7), bytes(4) + struct.pack(">i", 7)])
def test_user_data_of_other_assignors_is_no_fault(user_data: bytes) -> None:
    """Java's cooperative-sticky sends a generation, librdkafka's its partitions and one."""
    subscription = ConsumerProtocolSubscription(
        version=3, topics=["t"], user_data=user_data, owned_partitions=[], generation_id=7,
        rack_id="a",
    )  # fmt: skip
    errors = {}
    for protocol in ("cooperative-sticky", "leader-rack-aware-range"):
        (member,) = described(("m", subscription.encode(), b""), protocol=protocol).members
        assert (member.topics, member.rack) == (frozenset({"t"}), "a")
        errors[protocol] = member.errors
    assert errors == {
        "cooperative-sticky": (),
        "leader-rack-aware-range": ("user data: unknown version 0",),
    }


def test_the_rack_of_a_member_of_kafka_go() -> None:
    metadata = b"\0\1" + b"\0\0\0\1\0\1t" + b"\0\0\0\3az1"
    (member,) = described(("m", metadata, b""), protocol="rack-affinity").members
    assert (member.rack, member.can_send_rack, member.errors) == ("az1", True, ())


def test_members_that_lead_are_no_consumers() -> None:
    reading, leader, waiting = (f"{name}-{uuid4()}" for name in ("c", *["rackward-lead"] * 2))
    assert assignment_bytes({"rackward-leads": ()}) == LEADER_MARKER
    assert not any(SubscriptionReader().read_assignment(LEADER_MARKER).values())
    group = described(
        (leader, EMPTY_SUBSCRIPTION, LEADER_MARKER),
        (reading, EMPTY_SUBSCRIPTION, assignment_bytes({"t": [0]})),
        (waiting, EMPTY_SUBSCRIPTION, NOTHING_ASSIGNED),
    )
    assert [each.id for each in group.members] == [reading]
    assert (group.leader, group.waiting) == (leader, (waiting,))
    # The mark counts only in the assignment of such a member.
    group = described((reading, EMPTY_SUBSCRIPTION, LEADER_MARKER))
    assert (group.leader, len(group.members)) == (None, 1)


@pytest.mark.parametrize(
    ("type", "protocol_type", "kind"),
    [
        ("classic", "consumer", GroupKind.CLASSIC),
        ("classic", "connect", GroupKind.CONNECT),
        ("classic", "", GroupKind.MANUAL),
        ("classic", "sr", GroupKind.OTHER),
        ("consumer", "consumer", GroupKind.CONSUMER),
        ("share", "share", GroupKind.SHARE),
        ("streams", "streams", GroupKind.STREAMS),
        ("yet-to-come", "consumer", GroupKind.OTHER),
    ],
)
def test_kinds_of_groups(type: str, protocol_type: str, kind: GroupKind) -> None:
    assert ListedGroup("g", protocol_type, type).kind is kind


def test_members_of_share_and_streams_groups() -> None:
    """A task reads its partition of each source topic of its subtopology."""
    member = {"member_id": "m", "rack_id": "a", "client_id": "c", "client_host": "/127.0.0.1"}

    def respond(request: Any) -> Any:
        (group_id,) = request.group_ids
        group = SHARE if request.name == "ShareGroupDescribeRequest" else STREAMS
        named = {"group_id": group_id, "group_state": "Stable", "error_code": 0}
        return {"groups": [group | named | {"members": [member | group["members"]]}]}

    listed = [ListedGroup("s", "share", "share"), ListedGroup("k", "streams", "streams")]
    groups, refused = describe_groups(FakeAdmin(respond), 0, listed)
    assert not refused
    found = {group.id: (group.kind, group.generation, group.members[0]) for group in groups}
    kind, epoch, reader = found["s"]
    assert (kind, epoch, reader.rack) == (GroupKind.SHARE, 3, "a")
    assert (reader.topics, reader.assignment) == (frozenset({"t"}), {"t": (0, 2)})
    kind, epoch, reader = found["k"]
    assert (kind, epoch, reader.rack) == (GroupKind.STREAMS, 4, "a")
    assert reader.topics == {"left", "right", "app-repartition"}
    assert reader.assignment == {"left": (0, 3), "right": (0, 3), "app-repartition": (1,)}


SHARE: dict[str, Any] = {
    "group_epoch": 3,
    "assignor_name": "simple",
    "members": {
        "subscribed_topic_names": ["t"],
        "assignment": {"topic_partitions": [{"topic_name": "t", "partitions": [0, 2]}]},
    },
}
STREAMS: dict[str, Any] = {
    "group_epoch": 4,
    "topology": {
        "subtopologies": [
            {"subtopology_id": "0", "source_topics": ["left", "right"],
             "repartition_source_topics": []},
            {"subtopology_id": "1", "source_topics": [],
             "repartition_source_topics": [{"name": "app-repartition"}]},
        ]
    },
    "members": {
        "instance_id": None,
        "assignment": {
            "active_tasks": [{"subtopology_id": "0", "partitions": [0, 3]},
                             {"subtopology_id": "1", "partitions": [1]}],
            "standby_tasks": [{"subtopology_id": "0", "partitions": [1]}],
        },
    },
}  # fmt: skip


def _namespace(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _namespace(each) for name, each in value.items()})
    return [_namespace(each) for each in value] if isinstance(value, list) else value
