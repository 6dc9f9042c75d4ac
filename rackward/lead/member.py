"""Members of classic consumer groups, and the connections that the groups of a process share.

`GroupMember` is a dynamic member that lists protocols and subscribes to nothing: requests and
responses of the group protocol, without a decision. Those are in :mod:`rackward.lead.led_group`.

A broker answers the requests of one connection one after the other, and a JoinGroup or SyncGroup
request waits for the other members: up to their rebalance time-out. So `LeadConnection` sends these
two on connections that carry nothing else, which are borrowed for one request. All others
(heartbeats, leaving, metadata) are answered at once and share one connection per broker. At rest a
process has one connection per broker, whatever the number of its groups.

Coroutines run on the thread of kafka-python's event loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata
from kafka.future import Future
from kafka.net.wakeup_notifier import WakeupNotifier
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, SyncGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from assignors.consumer_protocol import NO_GENERATION
from placement_core import RackwardError, TopicPartition
from rack_traffic.advice import CLASSIC
from rackward.kafka import TIMEOUT_SECONDS, AdminConnection, AdminError, connect
from rackward.kafka.client import client_settings
from rackward.kafka.errors import UNKNOWN_TOPIC, wrap
from rackward.kafka.groups import (
    CONSUMER,
    LEAD_CLIENT_ID,
    SHARE,
    STREAMS,
    GroupKind,
    join_request,
    leave_request,
    offsets_request,
    parse_offsets,
)
from rackward.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from rackward.lead.protocols import CONSUMER_PROTOCOL_TYPE, RawMember, client_id_of

SESSION_SECONDS = 10.0
"""After so long without a heartbeat the group goes on without this member."""

REBALANCE_SECONDS = 60.0
"""For which the group waits for this member to rejoin, and to send assignments. The group's own
time-out is the longest of its members'."""

HEARTBEAT_SECONDS = 1.0
"""Between two heartbeats of a group, see `heartbeat_seconds`. A rebalance waits for as long."""

MAX_HEARTBEAT_SECONDS = 3.0
"""Between two heartbeats of a group if many are led; the default of consumers."""

HEARTBEATS_PER_SECOND = 1000
"""Up to which heartbeats are sent every HEARTBEAT_SECONDS."""

DESCRIBE_SECONDS = 0.02
CHECK_SECONDS = 0.25
"""For which groups that are to be described, and topics whose metadata is checked, are collected
for one request."""

MAX_NAMES = 500
"""Names in a batch, after which it is sent at once: responses are decoded on the event loop."""

MAX_ENTERING = 250
"""Groups that a process enters at a time: each takes a connection, and a rebalance."""

ENTERING_SECONDS = 5.0
"""Seconds after which a group that is entered does not count any more: it waits for its members."""

MAX_JOIN_SECONDS = 330.0
"""Seconds to wait for a JoinGroup response: longer than clients' default rebalance time-out of 300.
A join that takes longer is repeated, which changes nothing for the group."""

COORDINATOR_ERRORS = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
"""Errors after which the coordinator is looked up again, and the membership is kept."""

MAX_IN_FLIGHT = 10_000
"""Requests on one connection without a response. kafka-python's default, 5, fails the sixth."""

MAX_RESPONSE_BYTES = 100 << 20
"""A JoinGroup response holds the subscriptions of all members. As brokers' default for requests."""

IDLE_JOIN_CONNECTIONS = 2
"""Connections for JoinGroup and SyncGroup that are kept open per broker while nothing joins."""

WORKERS = 4
"""Threads that compute assignments."""

RENEWAL_SECONDS = 5.0
"""Seconds after new credentials were read for which failures may be due to the former ones."""

Result = TypeVar("Result")

log = logging.getLogger("rackward.lead")


class LeadConnection:
    """Connections to one cluster, shared by all groups that a process leads.

    ``read_properties`` returns the properties again after an authentication failure. ``failure`` is
    the error after which no connection can be opened any more. ``client_id``, that of all members,
    is by default LEAD_CLIENT_ID with the client id of ``properties``.

    Raises what `rackward.kafka.connect` raises.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        read_properties: Callable[[], Mapping[str, object]] | None = None,
        client_id: str | None = None,
    ) -> None:
        given = properties.get("client.id")
        self.client_id = client_id or (f"{LEAD_CLIENT_ID}-{given}" if given else LEAD_CLIENT_ID)
        self.admin: AdminConnection = connect({**properties, "client.id": self.client_id})
        self.failure: AdminError | None = None
        self._properties = properties
        self._read_properties = read_properties
        self._renewing = threading.Lock()
        self._renewed_at = float("-inf")
        self._manager: Any = self.admin.manager
        self._net: Any = self._manager._net
        self._manager.config["max_in_flight_requests_per_connection"] = MAX_IN_FLIGHT
        self._manager.config["receive_message_max_bytes"] = MAX_RESPONSE_BYTES
        # Nobody reads kafka-python's own, a tenth of the cost of a heartbeat.
        self._manager.config["metrics"] = None
        # Named topics must never be created by looking them up.
        self._manager.cluster.config["allow_auto_create_topics"] = False
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="rackward-lead")
        self._idle: dict[int, list[str]] = {}
        self._opened = 0
        self._entrance = Entrance(self._net.call_later)
        self._describing = Batches(
            self._describe, DESCRIBE_SECONDS, self._net.call_later, self.start
        )
        self._checking = Batches(
            lambda _, topics: self.read_topics(topics, TIMEOUT_SECONDS),
            CHECK_SECONDS,
            self._net.call_later,
            self.start,
        )
        self.groups = 0
        """The number of groups that share this connection."""

    # ---- called in any thread

    def start(self, coroutine: Callable[[], Awaitable[Any]]) -> Any:
        """Start a coroutine on the event loop; return a future."""
        return self._manager.call_soon(coroutine)

    def run(self, coroutine: Callable[[], Awaitable[Result]]) -> Result:
        """Run a coroutine on the event loop, wait for it, and return its result."""
        result: Result = self._manager.run(coroutine)
        return result

    @property
    def open_connections(self) -> int:
        """The number of connections that are open."""
        return sum(connection.connected for connection in list(self._manager._conns.values()))

    def renew_credentials(self, error: Exception) -> bool:
        """Read the properties again; return whether connecting may succeed after this ``error``."""
        with self._renewing:
            if time.monotonic() - self._renewed_at < RENEWAL_SECONDS:
                return True
            try:
                properties = self._read_properties() if self._read_properties else self._properties
                changed = properties != self._properties
                settings = client_settings(properties) if changed else {}
            except RackwardError as unreadable:
                log.warning("the connection properties cannot be read again: %s", unreadable)
                changed = False
            if not changed:
                self.failure = wrap("leading groups", error)
                return False
            log.warning("authentication failed: using the connection properties as they are now")
            self._properties, self._renewed_at = properties, time.monotonic()
            self.failure = None
            names = [name for name in settings if name.startswith(("sasl_", "ssl_"))]
            self._manager.config.update({name: settings[name] for name in names})
            self._manager._auth_failures.clear()
            return True

    def close(self) -> None:
        """Close all connections. Computations in progress are not waited for."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        self.admin.close()

    @property
    def heartbeat_seconds(self) -> float:
        """Seconds between two heartbeats of a group."""
        return heartbeat_seconds(self.groups)

    # ---- called on the event loop

    def notifier(self) -> Any:
        """Return an awaitable sleep, ``await notifier(seconds)``, that ``notify()`` ends."""
        return WakeupNotifier(self._net)

    async def wait(self, future: Any, seconds: float) -> Any:
        """Return the result of a future; raise KafkaTimeoutError if there is none in time."""
        return await self._manager.wait_for(future, seconds * 1000)

    async def in_worker(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function that runs in another thread."""
        done = Future()

        def work() -> None:
            settle: Callable[[Any], Any] = done.success
            outcome: Any = None
            try:
                outcome = function()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                settle, outcome = done.failure, error
            # The event loop may be closed.
            with suppress(RuntimeError):
                self._net.call_soon_threadsafe(lambda: settle(outcome))

        self._workers.submit(work)
        result: Result = await done
        return result

    async def send(self, node: int, request: Any, seconds: float = TIMEOUT_SECONDS) -> Any:
        """Send a request that is answered at once, on the broker's shared connection."""
        return await self._manager.send(request, node, request_timeout_ms=seconds * 1000)

    async def send_waiting(self, node: int, request: Any, seconds: float) -> Any:
        """Send a request that waits for other members, on a connection of its own."""
        idle = self._idle.setdefault(node, [])
        connection = idle.pop() if idle else self._new_connection(node)
        try:
            response = await self._manager.send(
                request, connection, request_timeout_ms=seconds * 1000
            )
        except BaseException:
            self._discard(connection)
            raise
        idle.append(connection)
        self._close_idle()
        return response

    async def enter(self, join: Callable[[], Awaitable[Result]]) -> Result:
        """Run ``join``, which joins a group as a new member, when it is its turn."""
        end = await self._entrance.enter()
        try:
            return await join()
        finally:
            end()
            self._close_idle()

    def _close_idle(self) -> None:
        """Close connections that are not needed, unless more groups are being entered."""
        if not self._entrance.entering:
            for idle in self._idle.values():
                while len(idle) > IDLE_JOIN_CONNECTIONS:
                    self._discard(idle.pop())

    async def find_coordinator(self, group: str, seconds: float) -> int:
        """Return the broker that coordinates a group. Raises KafkaError."""
        request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
        response = await self._manager.send(request, request_timeout_ms=seconds * 1000)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise kafka_errors.for_code(found.error_code)(
                getattr(found, "error_message", None) or group
            )
        if self._manager.cluster.broker_metadata(found.node_id) is None:
            await self._manager.cluster.refresh_metadata()
        return int(found.node_id)

    async def describe(self, node: int, group: str) -> Any:
        """Return the DescribedGroup of a response. Raises KafkaError."""
        return (await self._describing.request(node, [group]))[group]

    async def _describe(self, node: int | None, groups: Sequence[str]) -> dict[str, Any]:
        assert node is not None
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
        return {group.group_id: group for group in (await self.send(node, request)).groups}

    async def check_topics(self, topics: Sequence[str], seconds: float) -> Any:
        """Return a ClusterMetadata of these and other topics, with one request for several groups.

        It may be CHECK_SECONDS late. Raises as `read_topics`.
        """
        sent = self.start(lambda: self._checking.request(None, topics))
        cluster, _ = await self.wait(sent, seconds)
        return cluster

    async def read_topics(
        self, topics: Sequence[str], seconds: float
    ) -> tuple[Any, frozenset[str]]:
        """Return a kafka-python ClusterMetadata of these topics, and those that do not exist.

        Raises KafkaError, a KafkaTimeoutError after ``seconds``.
        """
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        sent = self.start(
            partial(self._manager.send, request, request_timeout_ms=TIMEOUT_SECONDS * 1000)
        )
        response = await self.wait(sent, seconds)
        cluster = ClusterMetadata(bootstrap_servers=[])
        cluster.update_metadata(response)
        unknown = (topic.name for topic in response.topics if topic.error_code == UNKNOWN_TOPIC)
        return cluster, frozenset(unknown)

    def _new_connection(self, node: int) -> str:
        """Return the node id, unknown to the cluster, of a connection that carries nothing else."""
        broker = self._manager.cluster.broker_metadata(node)
        if broker is None:
            raise kafka_errors.KafkaError(f"broker {node} is not in the cluster")
        self._opened += 1
        name = f"lead-{node}-{self._opened}"
        # The way in which kafka-python gives a coordinator a connection of its own.
        self._manager.cluster._coordinator_brokers[name] = type(broker)(
            name, broker.host, broker.port, None
        )
        return name

    def _discard(self, connection: str) -> None:
        self._manager.close(connection)
        self._manager.cluster._coordinator_brokers.pop(connection, None)


@dataclass(slots=True)
class _Batch:
    names: set[str] = field(default_factory=set)
    result: Any = field(default_factory=Future)


class Batches(Generic[Result]):
    """Collects names for ``seconds``, calls ``send`` with a broker and all of them, and returns its
    result, or raises its error, to all that gave names.

    Used on the event loop; ``call_later`` and ``start`` are its functions.
    """

    def __init__(
        self,
        send: Callable[[int | None, Sequence[str]], Awaitable[Result]],
        seconds: float,
        call_later: Callable[[float, Callable[[], None]], object],
        start: Callable[[Callable[[], Awaitable[None]]], object],
    ) -> None:
        self._send = send
        self._seconds = seconds
        self._call_later = call_later
        self._start = start
        self._open: dict[int | None, _Batch] = {}

    async def request(self, node: int | None, names: Iterable[str]) -> Result:
        """Return the result of the batch of a broker (None: any) to which ``names`` are added."""
        batch = self._open.get(node)
        if batch is None:
            batch = opened = self._open[node] = _Batch()
            self._call_later(self._seconds, lambda: self._close(node, opened))
        batch.names.update(names)
        if len(batch.names) >= MAX_NAMES:
            self._close(node, batch)
        result: Result = await batch.result
        return result

    def _close(self, node: int | None, batch: _Batch) -> None:
        """Send the batch, unless that is done."""
        if self._open.get(node) is batch:
            del self._open[node]
            self._start(lambda: self._complete(node, batch))

    async def _complete(self, node: int | None, batch: _Batch) -> None:
        try:
            batch.result.success(await self._send(node, sorted(batch.names)))
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            batch.result.failure(error)


class Entrance:
    """Lets MAX_ENTERING groups be entered at a time, in the order in which they come.

    Used on the event loop; ``call_later`` is its function.
    """

    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._call_later = call_later
        self.entering = 0
        self._queue: deque[Any] = deque()

    async def enter(self) -> Callable[[], None]:
        """Wait for a turn; return the function that ends it, as ENTERING_SECONDS do."""
        if self.entering < MAX_ENTERING:
            self.entering += 1
        else:
            turn = Future()
            self._queue.append(turn)
            await turn
        entered = True

        def end() -> None:
            nonlocal entered
            if entered:
                entered = False
                if self._queue:
                    self._queue.popleft().success(None)
                else:
                    self.entering -= 1

        self._call_later(ENTERING_SECONDS, end)
        return end


def heartbeat_seconds(groups: int) -> float:
    """Return the seconds between two heartbeats of a group, for a process with so many groups."""
    return max(HEARTBEAT_SECONDS, min(MAX_HEARTBEAT_SECONDS, groups / HEARTBEATS_PER_SECOND))


@dataclass(frozen=True, slots=True)
class Joined:
    """A JoinGroup response; ``members`` only if this member leads."""

    generation: int
    protocol: str
    leader: str
    members: tuple[RawMember, ...]


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as its coordinator describes it; ``state`` as brokers write it ("Stable").

    Members have metadata and an assignment in a stable group only. Those of another type than
    classic are not described.
    """

    state: str
    protocol_type: str
    protocol: str
    members: tuple[RawMember, ...]
    type: str = CLASSIC

    @property
    def kind(self) -> GroupKind:
        """What the group is."""
        return GroupKind.of(self.type, self.protocol_type)


class GroupMember:
    """One member: its id, its generation, and the group's coordinator.

    Its time-outs are by default SESSION_SECONDS and REBALANCE_SECONDS.
    """

    def __init__(
        self,
        connection: LeadConnection,
        group: str,
        *,
        protocol_type: str = CONSUMER_PROTOCOL_TYPE,
        session_seconds: float | None = None,
        rebalance_seconds: float | None = None,
    ) -> None:
        self.group = group
        self.session_seconds = session_seconds or SESSION_SECONDS
        self._protocol_type = protocol_type
        self._rebalance_seconds = rebalance_seconds or REBALANCE_SECONDS
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
                self.group, SESSION_SECONDS / 3
            )
        return self._coordinator

    async def request_id(self, protocols: Sequence[tuple[str, bytes]]) -> str:
        """Return a new member id, which is pending until it joins or is removed.

        A round of joining does not end before it has done either, or its session time-out is over.
        """
        response = await self._send_join("", protocols, TIMEOUT_SECONDS)
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
        """Get a member id of low ``cost``, of which 0 is the best; give the others back.

        An id that does not join expires after the session time-out, so the search ends long before.
        """
        until = time.monotonic() + SESSION_SECONDS / 4
        self.id = await self.request_id(protocols)
        worse: list[tuple[str, None]] = []
        try:
            for _ in range(tries):
                if cost(self.id) <= 0 or time.monotonic() > until:
                    break
                another = await self.request_id(protocols)
                self.id, other = sorted((self.id, another), key=cost)
                worse.append((other, None))
        finally:
            if worse:
                # A pending id would hold up the next join until its session time-out.
                await self.remove(worse)

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
                    member.member_id,
                    member.group_instance_id or None,
                    bytes(member.metadata or b""),
                    "" if member.group_instance_id else client_id_of(member.member_id),
                )
                for member in response.members
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
            protocol_type=self._protocol_type,
            protocol_name=self._protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=assigned)
                for member, assigned in (assignments or {}).items()
            ],
        )
        response = await self._connection.send_waiting(
            await self.coordinator(), request, MAX_JOIN_SECONDS
        )
        _check(response.error_code)
        return bytes(response.assignment or b"")

    async def heartbeat(self, seconds: float | None = None) -> None:
        """Send a heartbeat. Raises RebalanceInProgressError if the group rebalances.

        ``seconds`` for the response are by default a third of the session time-out. Without one,
        the connection is closed, and the requests of all groups on it fail.
        """
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=None,
        )
        node = await self.coordinator()
        timeout = seconds or self.session_seconds / 3
        response = await self._connection.send(node, request, timeout)
        _check(response.error_code)

    async def remove(self, members: Sequence[tuple[str, str | None]], reason: str = "") -> None:
        """Remove members, given as member id and instance id. Raises KafkaError.

        Members that have left by themselves are no error.
        """
        request = leave_request(self.group, members, reason)
        response = await self._connection.send(await self.coordinator(), request)
        _check(response.error_code)

    async def leave(self, reason: str) -> None:
        """Leave, also while a join is in progress; nothing if this is no member."""
        if self.id:
            member = self.id
            self.forget()
            await self.remove([(member, None)], reason)

    async def describe(self) -> DescribedGroup:
        """Return the group; one that does not exist is ``Dead``. Raises KafkaError."""
        node = await self.coordinator()
        group = await self._connection.describe(node, self.group)
        # Brokers say so of groups of other types as well, up to 3.9 without an error.
        if (
            group.error_code == kafka_errors.GroupIdNotFoundError.errno
            or group.group_state == "Dead"
        ):
            return DescribedGroup("Dead", "", "", (), await self._find_type(node))
        _check(group.error_code)
        return DescribedGroup(
            state=group.group_state,
            protocol_type=group.protocol_type,
            protocol=group.protocol_data,
            members=tuple(
                RawMember(
                    member.member_id,
                    member.group_instance_id or None,
                    bytes(member.member_metadata or b""),
                    member.client_id,
                    member.client_host,
                    bytes(member.member_assignment or b""),
                )
                for member in group.members
            ),
        )

    async def _find_type(self, node: int) -> str:
        """Return the type of a group that is not a classic one; CLASSIC if it does not exist."""
        for type, request in (
            (CONSUMER, ConsumerGroupDescribeRequest),
            (SHARE, ShareGroupDescribeRequest),
            (STREAMS, StreamsGroupDescribeRequest),
        ):
            with suppress(kafka_errors.IncompatibleBrokerVersion):
                (group,) = (
                    await self._connection.send(
                        node, request(group_ids=[self.group], include_authorized_operations=False)
                    )
                ).groups
                # Without Describe on its topics, a group is not described, but its type is known.
                if group.error_code in (0, kafka_errors.TopicAuthorizationFailedError.errno):
                    return type
        return CLASSIC

    async def committed_offsets(self) -> dict[TopicPartition, int]:
        """Return the group's committed offsets. Raises KafkaError."""
        response = await self._connection.send(
            await self.coordinator(), offsets_request([self.group])
        )
        (group,) = response.groups
        _check(group.error_code)
        return parse_offsets(group)

    async def _send_join(
        self,
        member_id: str,
        protocols: Sequence[tuple[str, bytes]],
        seconds: float,
        reason: str = "",
    ) -> Any:
        request = join_request(
            self.group,
            member_id,
            protocols,
            protocol_type=self._protocol_type,
            session_seconds=self.session_seconds,
            rebalance_seconds=self._rebalance_seconds,
            reason=reason,
        )
        return await self._connection.send_waiting(await self.coordinator(), request, seconds)


def _check(code: int) -> None:
    """Raise kafka-python's error for an error code other than 0."""
    if code:
        raise kafka_errors.for_code(code)()
