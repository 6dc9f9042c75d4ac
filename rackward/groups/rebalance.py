"""Requests a rebalance of a classic group from outside, through its coordinator.

A group rebalances when a member joins. So a member that subscribes to nothing joins with the
group's protocol, and leaves before the other members have rejoined. The group rebalances once; its
members and its leader stay the same, and the leader never sees the additional member. If this
process ends in between, the coordinator removes that member after its session timeout.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from assignors.consumer_protocol import EMPTY_SUBSCRIPTION
from rack_traffic.advice import CLASSIC
from rackward.groups.readers import is_stable
from rackward.kafka import AdminConnection, AdminError, AdminTimeoutError, RefusedError
from rackward.kafka.errors import COORDINATOR_LOADING, from_code
from rackward.kafka.groups import Group, describe_groups_of_type, join_request, leave_request
from rackward.units import Deadline

SESSION_SECONDS = 10.0
HOLD_SECONDS = 2.0
"""A cooperative group rebalances twice: it must be stable for so long."""

_COORDINATOR_NOT_AVAILABLE, _NOT_COORDINATOR, _UNKNOWN_MEMBER, _MEMBER_ID_REQUIRED = 15, 16, 25, 79
_RETRY_SECONDS = 0.05
_REASON = "rackward groups rebalance"


def request_rebalance(
    admin: AdminConnection, open_connection: Callable[[], AdminConnection], group: Group
) -> None:
    """Request a rebalance of a stable classic group, and return when it has begun.

    ``open_connection`` opens another connection: a broker responds to a joining member only when
    the rebalance is complete, and to nothing else on that connection before. Raises AdminError.
    """
    with admin.within() as deadline:
        coordinator = find_coordinator(admin, group.id)
        member_id = _new_member_id(admin, coordinator, group)
    ended = threading.Event()
    failures: list[AdminError] = []

    def join() -> None:
        try:
            with open_connection() as connection, connection.within(deadline):
                code = _join(connection, coordinator, group, member_id).error_code
            if code not in (0, _UNKNOWN_MEMBER):
                failures.append(_refused(group, "JoinGroup", code))
        except AdminError as error:
            failures.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=join, name="join-group", daemon=True)
    thread.start()
    try:
        while not ended.is_set():
            with admin.within(deadline):
                described, _ = describe_groups_of_type(admin, coordinator, CLASSIC, [group.id])
            if any(member.id == member_id for each in described for member in each.members):
                break
            if not deadline.remaining:
                raise AdminTimeoutError(
                    f"{_operation(group)}: its coordinator, broker "
                    f"{coordinator}, did not begin one within {deadline.seconds:g} s"
                )
            ended.wait(_RETRY_SECONDS)
    finally:
        _leave(admin, coordinator, group, member_id)
        thread.join(deadline.remaining)
    if failures:
        raise failures[0]


def wait_until_stable(admin: AdminConnection, group_id: str, timeout: float) -> Group:
    """Return the group when it has been stable for HOLD_SECONDS.

    Raises AdminTimeoutError, with the group's state, after ``timeout`` seconds, and AdminError.
    """
    deadline = Deadline.after(timeout)
    with admin.within(deadline):
        coordinator = find_coordinator(admin, group_id)
    since: float | None = None
    while True:
        described, refused = describe_groups_of_type(admin, coordinator, CLASSIC, [group_id])
        for error in refused.values():
            raise error
        (group,) = described
        now = time.monotonic()
        if not is_stable(group):
            since = None
        elif since is None:
            since = now
        elif now - since >= HOLD_SECONDS:
            return group
        if not deadline.remaining:
            raise AdminTimeoutError(
                f"group {group_id} was not stable within {timeout:g} s (state {group.state}): see "
                "rackward groups explain, and try a longer --timeout"
            )
        time.sleep(_RETRY_SECONDS)


def find_coordinator(admin: AdminConnection, group_id: str) -> int:
    """Return the broker that coordinates the group. Raises AdminError."""
    from kafka.protocol.metadata import FindCoordinatorRequest

    operation = f"finding the coordinator of group {group_id}"
    request = FindCoordinatorRequest(key=group_id, key_type=0, max_version=3)
    with admin.within() as deadline:
        while (response := admin.send(operation, request)).error_code:
            temporary = response.error_code in (COORDINATOR_LOADING, _COORDINATOR_NOT_AVAILABLE)
            if not temporary or not deadline.remaining:
                raise from_code(
                    operation,
                    request.name,
                    response.error_code,
                    response.error_message,
                    acl=f"Describe on group {group_id}",
                )
            time.sleep(_RETRY_SECONDS)
    return int(response.node_id)


def _new_member_id(admin: AdminConnection, coordinator: int, group: Group) -> str:
    """Return a member id from the coordinator, which is not a member yet."""
    response = _join(admin, coordinator, group, "")
    if response.error_code != _MEMBER_ID_REQUIRED:
        if not response.error_code:
            _leave(admin, coordinator, group, response.member_id)
        raise _refused(group, "JoinGroup", response.error_code)
    return str(response.member_id)


def _join(admin: AdminConnection, coordinator: int, group: Group, member_id: str) -> Any:
    request = join_request(
        group.id,
        member_id,
        [(group.protocol, EMPTY_SUBSCRIPTION)],
        session_seconds=SESSION_SECONDS,
        rebalance_seconds=SESSION_SECONDS,
        reason=_REASON,
    )
    return admin.send(_operation(group), request, node=coordinator)


def _leave(admin: AdminConnection, coordinator: int, group: Group, member_id: str) -> None:
    request = leave_request(group.id, [(member_id, None)], _REASON)
    code = admin.send(_operation(group), request, node=coordinator).error_code
    if code not in (0, _UNKNOWN_MEMBER):
        raise _refused(group, "LeaveGroup", code)


def _operation(group: Group) -> str:
    return f"requesting a rebalance of group {group.id}"


def _refused(group: Group, api: str, code: int) -> AdminError:
    if code in (0, _NOT_COORDINATOR):
        text = f"{_operation(group)}: the group has changed meanwhile: try again"
        return RefusedError(text, code)
    return from_code(_operation(group), api, code, acl=f"Read on group {group.id}")
