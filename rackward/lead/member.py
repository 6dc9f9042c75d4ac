"""A dynamic member of a classic consumer group that lists protocols and subscribes to nothing.

Requests and responses of the group protocol, without a decision: those are in
:mod:`rackward.lead.led_group`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from assignors.consumer_protocol import NO_GENERATION
from rackward.kafka.messages import ConsumerGroupDescribeRequest
from rackward.lead.connection import LeadConnection
from rackward.lead.protocols import CONSUMER, RawMember, client_id_of

MAX_JOIN_SECONDS = 330.0
"""Seconds to wait for a JoinGroup response: longer than clients' default rebalance time-out of 300.
A join that takes longer is repeated, which changes nothing for the group."""

COORDINATOR_ERRORS = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
"""Errors after which the coordinator is looked up again, and the membership is kept."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds of the membership.

    session
        After so long without a heartbeat the group goes on without this member.
    rebalance
        For which the group waits for this member to rejoin, and to send assignments. The group's
        own is the longest of its members'.
    heartbeat
        Between two heartbeats. A rebalance waits for this member for as long at most.
    alone
        For which this is a member of a group without consumers; less than ``rebalance``.
    """

    session: float = 10.0
    rebalance: float = 60.0
    heartbeat: float = 1.0
    alone: float = 30.0


@dataclass(frozen=True, slots=True)
class Joined:
    """A JoinGroup response; ``members`` only if this member leads."""

    generation: int
    protocol: str
    leader: str
    members: tuple[RawMember, ...]


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as the coordinator describes it; ``metadata`` and ``assignment`` if it is stable."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as its coordinator describes it; ``state`` as brokers write it ("Stable")."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
    new_protocol: bool = False


class GroupMember:
    """One member: its id, its generation, and the group's coordinator."""

    def __init__(self, connection: LeadConnection, group: str, timeouts: Timeouts) -> None:
        self.group = group
        self.timeouts = timeouts
        self.id = ""
        self.generation = NO_GENERATION
        self._connection = connection
        self._coordinator: int | None = None
        self._protocol = ""

    def forget(self) -> None:
        """Forget the membership, which the group has ended."""
        self.id, self.generation = "", NO_GENERATION

    def forget_coordinator(self) -> None:
        """Look the coordinator up again before the next request."""
        self._coordinator = None

    async def coordinator(self) -> int:
        """Return the broker that coordinates the group. Raises KafkaError."""
        if self._coordinator is None:
            self._coordinator = await self._connection.find_coordinator(
                self.group, self.timeouts.session / 3
            )
        return self._coordinator

    async def request_id(self, protocols: Sequence[tuple[str, bytes]]) -> str:
        """Return a new member id, which is pending until it joins or is removed.

        A round of joining does not end before it has done either, or its session time-out is over.
        """
        response = await self._send_join("", protocols, seconds=self._connection.timeout)
        if response.error_code != kafka_errors.MemberIdRequiredError.errno:
            _check(response.error_code)
        member_id: str = response.member_id
        return member_id

    async def choose_id(
        self,
        protocols: Sequence[tuple[str, bytes]],
        cost: Callable[[str], int],
        tries: int,
    ) -> None:
        """Get a member id of low ``cost``; give the other ids back.

        An id that does not join expires after the session time-out, so the search ends long before.
        """
        until = time.monotonic() + self.timeouts.session / 4
        self.id = await self.request_id(protocols)
        for _ in range(tries):
            if not cost(self.id) or time.monotonic() > until:
                break
            another = await self.request_id(protocols)
            self.id, worse = sorted((self.id, another), key=cost)
            # A pending id would hold up the next join until its session time-out.
            await self.remove([(worse, None)])

    async def join(self, protocols: Sequence[tuple[str, bytes]], reason: str) -> Joined:
        """Join and return once all members have. Raises KafkaError."""
        # No heartbeats until then.
        self.generation = NO_GENERATION
        response = await self._send_join(self.id, protocols, MAX_JOIN_SECONDS, reason)
        _check(response.error_code)
        self.id, self.generation = response.member_id, response.generation_id
        self._protocol = response.protocol_name or ""
        return Joined(
            generation=response.generation_id,
            protocol=self._protocol,
            leader=response.leader or "",
            members=tuple(
                RawMember(
                    each.member_id,
                    each.group_instance_id or None,
                    bytes(each.metadata or b""),
                    "" if each.group_instance_id else client_id_of(each.member_id),
                )
                for each in response.members
            ),
        )

    async def sync(self, assignments: Mapping[str, bytes] | None = None) -> bytes:
        """Send all members' assignments as the leader, or wait for it; return one's own.

        Raises KafkaError.
        """
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=None,
            protocol_type=CONSUMER,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=assigned)
                for each, assigned in (assignments or {}).items()
            ],
        )
        response = await self._connection.send_waiting(
            await self.coordinator(), request, MAX_JOIN_SECONDS
        )
        _check(response.error_code)
        return bytes(response.assignment or b"")

    async def heartbeat(self) -> None:
        """Send a heartbeat. Raises RebalanceInProgressError if the group rebalances."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=None,
        )
        node = await self.coordinator()
        response = await self._connection.send(node, request, self.timeouts.session / 3)
        _check(response.error_code)

    async def remove(self, members: Sequence[tuple[str, str | None]], reason: str = "") -> None:
        """Remove members, given as member id and instance id. Raises KafkaError.

        Members that have left by themselves are no error.
        """
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=members[0][0],
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=member_id, group_instance_id=instance_id, reason=reason or None
                )
                for member_id, instance_id in members
            ],
        )
        response = await self._connection.send(await self.coordinator(), request)
        _check(response.error_code)

    async def leave(self, reason: str) -> None:
        """Leave, also while a join is in progress; nothing if this is no member."""
        if self.id:
            member, self.id, self.generation = self.id, "", NO_GENERATION
            await self.remove([(member, None)], reason)

    async def describe(self) -> DescribedGroup:
        """Return the group; one that does not exist is ``Dead``. Raises KafkaError."""
        node = await self.coordinator()
        if await self._uses_new_protocol(node):
            return DescribedGroup("Stable", CONSUMER, "", (), new_protocol=True)
        request = DescribeGroupsRequest(groups=[self.group], include_authorized_operations=False)
        (group,) = (await self._connection.send(node, request)).groups
        if group.error_code == kafka_errors.GroupIdNotFoundError.errno:
            return DescribedGroup("Dead", "", "", ())
        _check(group.error_code)
        return DescribedGroup(
            state=group.group_state,
            protocol_type=group.protocol_type,
            protocol=group.protocol_data,
            members=tuple(
                DescribedMember(
                    id=each.member_id,
                    instance_id=each.group_instance_id or None,
                    client_id=each.client_id,
                    host=each.client_host,
                    metadata=bytes(each.member_metadata or b""),
                    assignment=bytes(each.member_assignment or b""),
                )
                for each in group.members
            ),
        )

    async def _uses_new_protocol(self, node: int) -> bool:
        request = ConsumerGroupDescribeRequest(
            group_ids=[self.group], include_authorized_operations=False
        )
        try:
            response = await self._connection.send(node, request)
        except kafka_errors.IncompatibleBrokerVersion:
            return False
        (group,) = response.groups
        return not group.error_code

    async def _send_join(
        self,
        member_id: str,
        protocols: Sequence[tuple[str, bytes]],
        seconds: float,
        reason: str = "",
    ) -> Any:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(self.timeouts.session * 1000),
            rebalance_timeout_ms=int(self.timeouts.rebalance * 1000),
            member_id=member_id,
            group_instance_id=None,
            protocol_type=CONSUMER,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ],
            reason=reason or None,
        )
        return await self._connection.send_waiting(await self.coordinator(), request, seconds)


def _check(code: int) -> None:
    """Raise kafka-python's error for an error code other than 0."""
    if code:
        raise kafka_errors.for_code(code)()
