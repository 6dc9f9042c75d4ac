"""Brokers on ports of this machine that coordinate thousands of groups of simulated consumers.

What a process that leads sends and receives is as on a real cluster; what is simulated are the
consumers, which join again within their heartbeat interval, and that brokers share one process. The
rules of rebalances and of leaders are those of docs/leading.md: the first of a Java HashMap by
member id follows a leader that is gone.
"""

from __future__ import annotations

import asyncio
import random
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zlib import crc32

from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)

from rackward.lead.take_over import bucket
from tests.support.kafka_python import joined, metadata_message, subscription_bytes
from tests.support.scripted_broker import join_response

VERSIONS: dict[Any, int] = {
    ApiVersionsRequest: 3,
    DescribeGroupsRequest: 5,
    FindCoordinatorRequest: 4,
    HeartbeatRequest: 3,
    JoinGroupRequest: 9,
    LeaveGroupRequest: 5,
    ListGroupsRequest: 5,
    MetadataRequest: 9,
    SyncGroupRequest: 5,
}
_REQUESTS = {request.API_KEY: request for request in VERSIONS}

PROTOCOL = "range"
HEARTBEAT_SECONDS = 3.0
"""Of the consumers, as by default."""

INITIAL_DELAY_SECONDS = 3.0
"""For which an empty group waits for more members, as by default."""

UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 25, 22, 27
MEMBER_ID_REQUIRED = 79

Send = Callable[[Any], None]
"""Sends a response."""


@dataclass(slots=True)
class Member:
    """A member; ``session`` is None for a simulated consumer."""

    id: str
    metadata: bytes
    client_id: str
    session: float | None = None
    seen_at: float = 0.0
    joining: Send | None = None
    syncing: Send | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Group:
    """A classic group; ``rebalances`` counts those that ended."""

    name: str
    protocol_type: str = "consumer"
    protocol: str = PROTOCOL
    members: dict[str, Member] = field(default_factory=dict)
    state: str = "Stable"
    generation: int = 1
    leader: str = ""
    consumers_joined: bool = True
    round: int = 0
    rebalances: int = 0

    def first(self) -> str:
        """Return the first member of the brokers' map."""
        buckets = 16
        while len(self.members) > buckets * 3 // 4:
            buckets *= 2
        return min(self.members, key=lambda member: bucket(member, buckets), default="")


class Coordinator:
    """``groups`` groups of one consumer per rack, each of which reads its own topic."""

    def __init__(self, groups: int, partitions: int, brokers: int = 6, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self.racks: Mapping[int, str | None] = {node: "abc"[node % 3] for node in range(brokers)}
        self.ports: list[int] = []
        self.connections = 0
        self.requests: dict[str, int] = {}
        self.groups = {name: self._group(name) for name in (f"g{n}" for n in range(groups))}
        self._leaders = {
            name: [self._random.randrange(brokers) for _ in range(partitions)]
            for name in self.groups
        }

    def _group(self, name: str) -> Group:
        group = Group(name)
        for rack in "abc":
            self._add_consumer(group, subscription_bytes([name], rack=rack))
        group.leader = group.first()
        return group

    def _add_consumer(self, group: Group, metadata: bytes) -> None:
        member = Member(self._new_id("consumer"), metadata, client_id="consumer")
        group.members[member.id] = member

    def _new_id(self, client_id: str) -> str:
        return f"{client_id}-{uuid.UUID(int=self._random.getrandbits(128), version=4)}"

    async def serve(self) -> None:
        """Serve until cancelled."""
        loop = asyncio.get_running_loop()
        for node in self.racks:
            server = await loop.create_server(partial(_Connection, self, node), "127.0.0.1", 0)
            self.ports.append(server.sockets[0].getsockname()[1])
        while True:
            await asyncio.sleep(0.5)
            now = loop.time()
            for group in list(self.groups.values()):
                self._expire(group, now)

    def _expire(self, group: Group, now: float) -> None:
        for member in list(group.members.values()):
            waits = member.joining is not None or member.syncing is not None
            if member.session and not waits and now - member.seen_at > member.session:
                self._remove(group, member.id)

    def node_of(self, group: str) -> int:
        """Return the broker that coordinates a group."""
        return crc32(group.encode()) % len(self.racks)

    # ---- rebalances

    def _prepare(self, group: Group) -> None:
        if group.state == "PreparingRebalance":
            return
        group.state, group.round = "PreparingRebalance", group.round + 1
        for member in group.members.values():
            if member.syncing is not None:
                member.syncing(_sync_response(group, b"", REBALANCE_IN_PROGRESS))
                member.syncing = None
        consumers = sum(member.session is None for member in group.members.values())
        group.consumers_joined = not consumers
        # The last of so many heartbeats at independent times.
        seconds = consumers and HEARTBEAT_SECONDS * self._random.random() ** (1 / consumers)
        if not group.leader:
            seconds = INITIAL_DELAY_SECONDS
            group.consumers_joined = False
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self._join_all, group, group.round)

    def _join_all(self, group: Group, round: int) -> None:
        if group.round == round:
            group.consumers_joined = True
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """End the rebalance if all members have joined."""
        waiting = [m for m in group.members.values() if m.session is not None]
        if group.state != "PreparingRebalance" or not group.consumers_joined:
            return
        if any(member.joining is None for member in waiting):
            return
        group.generation += 1
        group.rebalances += 1
        if group.leader not in group.members:
            group.leader = group.first()
        leads = group.leader and group.members[group.leader].session is not None
        group.state = "CompletingRebalance" if leads else "Stable"
        for member in waiting:
            assert member.joining is not None
            member.joining(self._join_response(group, member))
            member.joining = None
            member.seen_at = asyncio.get_running_loop().time()

    def _return(self, group: Group, metadata: bytes) -> None:
        self._add_consumer(group, metadata)
        self._prepare(group)

    def _join_response(self, group: Group, member: Member) -> Any:
        listed = group.members.values() if group.leader == member.id else ()
        return join_response(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader,
            member_id=member.id,
            members=[joined(each.id, each.metadata) for each in listed],
        )

    def _remove(self, group: Group, member_id: str) -> None:
        member = group.members.pop(member_id, None)
        if member is None:
            return
        if member.session is None:
            # It learns of its removal with its next heartbeat.
            seconds = HEARTBEAT_SECONDS * self._random.random()
            asyncio.get_running_loop().call_later(seconds, self._return, group, member.metadata)
        if group.leader == member_id:
            group.leader = group.first()
        self._prepare(group)
        self._complete(group)

    # ---- requests

    def heartbeat(self, group_id: str, generation: int, member_id: str) -> int:
        """Return the error code."""
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if group else None
        if group is None or member is None:
            return UNKNOWN_MEMBER_ID
        member.seen_at = asyncio.get_running_loop().time()
        if group.generation != generation:
            return ILLEGAL_GENERATION
        return REBALANCE_IN_PROGRESS if group.state == "PreparingRebalance" else 0

    def on_JoinGroup(self, request: Any, client_id: str, send: Send) -> None:
        group = self.groups.setdefault(
            request.group_id, Group(request.group_id, request.protocol_type, state="Empty")
        )
        if not request.member_id:
            send(join_response(error_code=MEMBER_ID_REQUIRED, member_id=self._new_id(client_id)))
            return
        member = group.members.get(request.member_id)
        if member is None:
            if not group.members:
                group.protocol = request.protocols[0].name
            member = Member(request.member_id, request.protocols[0].metadata, client_id)
            group.members[member.id] = member
        member.session = request.session_timeout_ms / 1000
        member.joining = send
        self._prepare(group)
        self._complete(group)

    def on_SyncGroup(self, request: Any, _: str, send: Send) -> None:
        group = self.groups[request.group_id]
        member = group.members.get(request.member_id)
        if member is None:
            send(_sync_response(group, b"", UNKNOWN_MEMBER_ID))
        elif group.state == "PreparingRebalance":
            send(_sync_response(group, b"", REBALANCE_IN_PROGRESS))
        elif member.id == group.leader:
            for given in request.assignments:
                if given.member_id in group.members:
                    group.members[given.member_id].assignment = bytes(given.assignment)
            group.state = "Stable"
            send(_sync_response(group, member.assignment))
            for other in group.members.values():
                if other.syncing is not None:
                    other.syncing(_sync_response(group, other.assignment))
                    other.syncing = None
        elif group.state == "Stable":
            send(_sync_response(group, member.assignment))
        else:
            member.syncing = send

    def on_LeaveGroup(self, request: Any, _: str, send: Send) -> None:
        for member in request.members:
            self._remove(self.groups[request.group_id], member.member_id)
        send(LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=[]))

    def on_DescribeGroups(self, request: Any, _: str, send: Send) -> None:
        send(
            DescribeGroupsResponse(
                throttle_time_ms=0, groups=[self._describe(name) for name in request.groups]
            )
        )

    def _describe(self, name: str) -> Any:
        group = self.groups.get(name) or Group(name, state="Dead")
        stable = group.state == "Stable"
        type = DescribeGroupsResponse.DescribedGroup
        return type(
            error_code=0,
            error_message=None,
            group_id=name,
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_data=group.protocol if stable else "",
            members=[
                type.DescribedGroupMember(
                    member_id=member.id,
                    group_instance_id=None,
                    client_id=member.client_id,
                    client_host="/127.0.0.1",
                    member_metadata=member.metadata if stable else b"",
                    member_assignment=member.assignment if stable else b"",
                )
                for member in group.members.values()
            ],
            authorized_operations=set(),
        )

    def list_groups(self, node: int, send: Send) -> None:
        """Send the groups of a broker."""
        type = ListGroupsResponse.ListedGroup
        send(
            ListGroupsResponse(
                throttle_time_ms=0,
                error_code=0,
                groups=[
                    type(
                        group_id=group.name,
                        protocol_type=group.protocol_type,
                        group_state=group.state,
                        group_type="classic",
                    )
                    for group in self.groups.values()
                    if self.node_of(group.name) == node
                ],
            )
        )

    def on_FindCoordinator(self, request: Any, _: str, send: Send) -> None:
        type = FindCoordinatorResponse.Coordinator
        send(
            FindCoordinatorResponse(
                throttle_time_ms=0,
                coordinators=[
                    type(
                        key=key,
                        node_id=self.node_of(key),
                        host="127.0.0.1",
                        port=self.ports[self.node_of(key)],
                        error_code=0,
                        error_message=None,
                    )
                    for key in request.coordinator_keys
                ],
            )
        )

    def on_Metadata(self, request: Any, _: str, send: Send) -> None:
        names = self._leaders if request.topics is None else [t.name for t in request.topics]
        leaders = {name: self._leaders.get(name, ()) for name in names}
        response = metadata_message(self.racks, leaders)
        for broker in response.brokers:
            broker.port = self.ports[broker.node_id]
        send(response)

    def on_ApiVersions(self, request: Any, _: str, send: Send) -> None:
        del request
        send(
            ApiVersionsResponse(
                error_code=0,
                throttle_time_ms=0,
                api_keys=[
                    ApiVersionsResponse.ApiVersion(
                        api_key=request.API_KEY, min_version=0, max_version=version
                    )
                    for request, version in VERSIONS.items()
                ],
            )
        )


def _sync_response(group: Group, assignment: bytes, error_code: int = 0) -> Any:
    return SyncGroupResponse(
        throttle_time_ms=0,
        error_code=error_code,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=assignment,
    )


class _Connection(asyncio.Protocol):
    """Decodes requests, and encodes responses in their order."""

    def __init__(self, coordinator: Coordinator, node: int) -> None:
        self._coordinator, self._node = coordinator, node
        self._received = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._coordinator.connections += 1

    def connection_lost(self, _: Exception | None) -> None:
        self._coordinator.connections -= 1

    def data_received(self, data: bytes) -> None:
        self._received += data
        start = 0
        while len(self._received) - start >= 4:
            end = start + 4 + int.from_bytes(self._received[start : start + 4])
            if len(self._received) < end:
                break
            self._handle(bytes(self._received[start + 4 : end]))
            start = end
        del self._received[:start]

    def _handle(self, frame: bytes) -> None:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        request = _REQUESTS[key]
        name = request.__name__.removesuffix("Request")
        requests = self._coordinator.requests
        requests[name] = requests.get(name, 0) + 1
        client_id, at = _string(frame, 8)
        if request is HeartbeatRequest:
            # Nine of ten requests: not worth the cost of the general way.
            group_id, at = _string(frame, at)
            (generation,) = struct.unpack_from(">i", frame, at)
            member_id, _ = _string(frame, at + 4)
            error = self._coordinator.heartbeat(group_id, generation, member_id)
            self._transport.write(struct.pack(">iiih", 10, correlation, 0, error))
            return

        def send(response: Any) -> None:
            response.API_VERSION = version
            response.with_header(correlation_id=correlation)
            self._transport.write(bytes(response.encode(header=True, framed=True)))

        if request is ListGroupsRequest:
            self._coordinator.list_groups(self._node, send)
            return
        decoded = request.decode(frame, version=version, header=True)
        getattr(self._coordinator, f"on_{name}")(decoded, client_id, send)


def _string(frame: bytes, at: int) -> tuple[str, int]:
    """Return a string with a length of two bytes, and the offset after it."""
    end = at + 2 + int.from_bytes(frame[at : at + 2])
    return frame[at + 2 : end].decode(), end
