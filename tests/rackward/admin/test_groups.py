"""Listing groups while their coordinator is loading."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rackward.admin.errors import COORDINATOR_LOADING, AdminError
from rackward.admin.groups import ListedGroup, list_groups
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
