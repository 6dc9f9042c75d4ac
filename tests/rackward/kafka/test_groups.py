"""Listing groups while their coordinator is loading, and describing groups of other assignors."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors.consumer_protocol import EMPTY_SUBSCRIPTION, NOTHING_ASSIGNED, SubscriptionReader
from rack_traffic.advice import CLASSIC
from rackward.kafka.errors import COORDINATOR_LOADING, AdminError
from rackward.kafka.groups import (
    LEADER_MARKER,
    GroupKind,
    ListedGroup,
    describe_groups,
    describe_groups_of_type,
    list_groups,
)
from rackward.units import Deadline
from tests.support.kafka_python import assignment_bytes

UNAUTHORIZED = 30


class FakeAdmin:
    """Returns responses with these error codes, one after the other."""

    def __init__(self, *codes: int, timeout: float = 30.0) -> None:
        self._codes: Iterator[int] = iter(codes)
        self._timeout = timeout

    def deadline(self) -> Deadline:
        return Deadline.after(self._timeout)

    def send(self, operation: str, request: Any, *, node: int, deadline: Deadline) -> Any:  # noqa: ARG002
        group = SimpleNamespace(
            group_id="g", protocol_type="consumer", group_type="Classic", group_state="Stable"
        )
        return SimpleNamespace(error_code=next(self._codes), groups=[group])


def list_from(admin: Any) -> list[ListedGroup]:
    return list_groups(admin, 3)


def test_retries_while_the_coordinator_is_loading() -> None:
    groups = list_from(FakeAdmin(COORDINATOR_LOADING, COORDINATOR_LOADING, 0))
    assert groups == [ListedGroup("g", "consumer", "classic", "Stable")]


def test_does_not_retry_beyond_the_deadline() -> None:
    with pytest.raises(AdminError, match="broker 3"):
        list_from(FakeAdmin(COORDINATOR_LOADING, timeout=0.0))


def test_raises_any_other_error_at_once() -> None:
    with pytest.raises(AdminError, match="broker 3"):
        list_from(FakeAdmin(UNAUTHORIZED))


@pytest.mark.parametrize("user_data", [struct.pack(">i", 7), bytes(4) + struct.pack(">i", 7)])
def test_user_data_of_other_assignors_is_no_fault(user_data: bytes) -> None:
    """Java's cooperative-sticky sends a generation, librdkafka's its partitions and one."""
    subscription = ConsumerProtocolSubscription(
        version=3, topics=["t"], user_data=user_data, owned_partitions=[], generation_id=7,
        rack_id="a",
    )  # fmt: skip
    member = SimpleNamespace(
        member_id="m", group_instance_id=None, client_id="c", client_host="/127.0.0.1",
        member_metadata=subscription.encode(), member_assignment=b"",
    )  # fmt: skip

    class Admin:
        def send(self, *_: object, **__: object) -> Any:
            group = SimpleNamespace(
                group_id="g", error_code=0, protocol_type="consumer", group_state="Stable",
                protocol_data=protocol, members=[member],
            )  # fmt: skip
            return SimpleNamespace(groups=[group])

    errors = {}
    for protocol in ("cooperative-sticky", "leader-rack-aware-range"):
        ((group,), _) = describe_groups_of_type(Admin(), 0, CLASSIC, ["g"])  # type: ignore[arg-type]
        assert (group.members[0].topics, group.members[0].rack) == (frozenset({"t"}), "a")
        errors[protocol] = group.members[0].errors
    assert errors == {
        "cooperative-sticky": (),
        "leader-rack-aware-range": ("user data: unknown version 0",),
    }


class DescribingAdmin:
    """Returns one stable group with these members: member id, subscription and assignment."""

    def __init__(self, *members: tuple[str, bytes, bytes], protocol: str = "range") -> None:
        self._members = members
        self._protocol = protocol

    def send(self, operation: str, request: Any, *, node: int, deadline: Deadline) -> Any:  # noqa: ARG002
        members = [
            SimpleNamespace(
                member_id=member_id,
                group_instance_id=None,
                client_id=member_id[:-37],
                client_host="/127.0.0.1",
                member_metadata=metadata,
                member_assignment=assignment,
            )
            for member_id, metadata, assignment in self._members
        ]
        group = SimpleNamespace(
            error_code=0,
            group_id="g",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data=self._protocol,
            members=members,
        )
        return SimpleNamespace(groups=[group])


def test_the_rack_of_a_member_of_kafka_go() -> None:
    metadata = b"\0\1" + b"\0\0\0\1\0\1t" + b"\0\0\0\3az1"
    admin = DescribingAdmin(("m", metadata, b""), protocol="rack-affinity")
    ((group,), _) = describe_groups_of_type(admin, 0, CLASSIC, ["g"], Deadline.after(1))  # type: ignore[arg-type]
    (member,) = group.members
    assert (member.rack, member.can_send_rack, member.errors) == ("az1", True, ())


def test_members_that_lead_are_no_consumers() -> None:
    reading, leader, waiting = (f"{name}-{uuid4()}" for name in ("c", *["rackward-lead"] * 2))
    assert assignment_bytes({"rackward-leads": ()}) == LEADER_MARKER
    assert not any(SubscriptionReader().read_assignment(LEADER_MARKER).values())
    admin: Any = DescribingAdmin(
        (leader, EMPTY_SUBSCRIPTION, LEADER_MARKER),
        (reading, EMPTY_SUBSCRIPTION, assignment_bytes({"t": [0]})),
        (waiting, EMPTY_SUBSCRIPTION, NOTHING_ASSIGNED),
    )
    ((group,), refused) = describe_groups_of_type(admin, 1, CLASSIC, ["g"])
    assert not refused
    assert [each.id for each in group.members] == [reading]
    assert (group.leader, group.waiting) == (leader, (waiting,))
    # The mark counts only in the assignment of such a member.
    admin = DescribingAdmin((reading, EMPTY_SUBSCRIPTION, LEADER_MARKER))
    ((group,), _) = describe_groups_of_type(admin, 1, CLASSIC, ["g"])
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

    class Admin:
        def send(self, operation: str, request: Any, *, node: int, deadline: Deadline) -> Any:  # noqa: ARG002
            (group_id,) = request.group_ids
            group: dict[str, Any] = {"group_id": group_id, "group_state": "Stable", "error_code": 0}
            share = request.name == "ShareGroupDescribeRequest"
            group |= SHARE if share else STREAMS
            group["members"] = [member | group["members"]]
            return _namespace({"groups": [group]})

    listed = [ListedGroup("s", "share", "share"), ListedGroup("k", "streams", "streams")]
    groups, refused = describe_groups(Admin(), 0, listed)  # type: ignore[arg-type]
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
            {
                "subtopology_id": "0",
                "source_topics": ["left", "right"],
                "repartition_source_topics": [],
            },
            {
                "subtopology_id": "1",
                "source_topics": [],
                "repartition_source_topics": [{"name": "app-repartition"}],
            },
        ]
    },
    "members": {
        "instance_id": None,
        "assignment": {
            "active_tasks": [
                {"subtopology_id": "0", "partitions": [0, 3]},
                {"subtopology_id": "1", "partitions": [1]},
            ],
            "standby_tasks": [{"subtopology_id": "0", "partitions": [1]}],
        },
    },
}


def _namespace(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _namespace(each) for name, each in value.items()})
    return [_namespace(each) for each in value] if isinstance(value, list) else value
