"""Listing groups while their coordinator is loading, and what members of other assignors send."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from rackward.admin.errors import COORDINATOR_LOADING, AdminError
from rackward.admin.groups import ListedGroup, describe_classic_groups, list_groups
from rackward.units import Deadline

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
        ((group,), _) = describe_classic_groups(Admin(), 0, ["g"])  # type: ignore[arg-type]
        assert (group.members[0].topics, group.members[0].rack) == (frozenset({"t"}), "a")
        errors[protocol] = group.members[0].errors
    assert errors == {
        "cooperative-sticky": (),
        "leader-rack-aware-range": ("user data: unknown version 0",),
    }
