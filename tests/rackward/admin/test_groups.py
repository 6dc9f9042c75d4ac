"""Listing groups, while a broker still reads those that it took over."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from rackward.admin.errors import COORDINATOR_LOADING, AdminError, Deadline
from rackward.admin.groups import ListedGroup, list_groups

UNAUTHORIZED = 30


class Admin:
    """Answers with these error codes, one after the other."""

    def __init__(self, *codes: int, seconds: float = 30.0) -> None:
        self._codes: Iterator[int] = iter(codes)
        self._seconds = seconds

    def deadline(self) -> Deadline:
        return Deadline.after(self._seconds)

    def ask(self, doing: str, request: Any, *, node: int, deadline: Deadline) -> Any:  # noqa: ARG002
        group = SimpleNamespace(
            group_id="g", protocol_type="consumer", group_type="Classic", group_state="Stable"
        )
        return SimpleNamespace(error_code=next(self._codes), groups=[group])


def listed(admin: Any) -> list[ListedGroup]:
    return list_groups(admin, 3)


def test_it_is_asked_again_while_it_loads() -> None:
    found = listed(Admin(COORDINATOR_LOADING, COORDINATOR_LOADING, 0))
    assert found == [ListedGroup("g", "consumer", "classic", "Stable")]


def test_not_for_longer_than_there_is_time() -> None:
    with pytest.raises(AdminError, match="broker 3"):
        listed(Admin(COORDINATOR_LOADING, seconds=0.0))


def test_any_other_error_is_told_at_once() -> None:
    with pytest.raises(AdminError, match="broker 3"):
        listed(Admin(UNAUTHORIZED))
