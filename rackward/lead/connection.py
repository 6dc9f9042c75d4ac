"""The connections of a process that leads many groups, over kafka-python's event loop.

A broker answers the requests of one connection one after the other, and a JoinGroup or SyncGroup
request waits for the other members: up to their rebalance time-out. So these two are sent on
connections that carry nothing else, which are borrowed for one request and returned. All others
(heartbeats, leaving, metadata) are answered at once and share one connection per broker. At rest a
process has one connection per broker, whatever the number of its groups.

Everything here runs on the event loop's thread, except `run` and `close`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaError, for_code
from kafka.future import Future
from kafka.net.wakeup_notifier import WakeupNotifier
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from placement_core import RackwardError
from rackward.kafka import TIMEOUT_SECONDS, AdminConnection, AdminError, connect
from rackward.kafka.client import client_settings
from rackward.kafka.errors import UNKNOWN_TOPIC, wrap
from rackward.kafka.groups import LEAD_CLIENT_ID

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
    the error after which no connection can be opened any more.

    Raises what `rackward.kafka.connect` raises.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        timeout: float = TIMEOUT_SECONDS,
        read_properties: Callable[[], Mapping[str, object]] | None = None,
    ) -> None:
        given = properties.get("client.id")
        client_id = LEAD_CLIENT_ID if not given else f"{LEAD_CLIENT_ID}-{given}"
        self.admin: AdminConnection = connect({**properties, "client.id": client_id}, None, timeout)
        self.timeout = timeout
        self.failure: AdminError | None = None
        self._properties = properties
        self._read_properties = read_properties
        self._renewing = threading.Lock()
        self._renewed_at = float("-inf")
        self._manager: Any = self.admin.manager
        self._net: Any = self._manager._net
        self._manager.config["max_in_flight_requests_per_connection"] = MAX_IN_FLIGHT
        self._manager.config["receive_message_max_bytes"] = MAX_RESPONSE_BYTES
        # Named topics must never be created by looking them up.
        self._manager.cluster.config["allow_auto_create_topics"] = False
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="rackward-lead")
        self._idle: dict[int, list[str]] = {}
        self._opened = 0

    # ---- called in any thread

    def start(self, coroutine: Callable[[], Awaitable[Any]]) -> Any:
        """Start a coroutine on the event loop; return a future."""
        return self._manager.call_soon(coroutine)

    def run(self, coroutine: Callable[..., Awaitable[Result]], *arguments: object) -> Result:
        """Run a coroutine on the event loop, wait for it, and return its result."""
        result: Result = self._manager.run(coroutine, *arguments)
        return result

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
            try:
                self._net.call_soon_threadsafe(lambda: settle(outcome))
            except RuntimeError:  # The event loop is closed.
                return

        self._workers.submit(work)
        result: Result = await done
        return result

    async def send(self, node: int, request: Any, seconds: float | None = None) -> Any:
        """Send a request that is answered at once, on the broker's shared connection."""
        timeout = self.timeout if seconds is None else seconds
        return await self._manager.send(request, node, request_timeout_ms=timeout * 1000)

    async def send_waiting(self, node: int, request: Any, seconds: float) -> Any:
        """Send a request that waits for other members, on a connection of its own."""
        connection = self._borrow(node)
        try:
            response = await self._manager.send(
                request, connection, request_timeout_ms=seconds * 1000
            )
        except BaseException:
            self._discard(connection)
            raise
        self._give_back(node, connection)
        return response

    async def find_coordinator(self, group: str, seconds: float) -> int:
        """Return the broker that coordinates a group. Raises KafkaError."""
        request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group])
        response = await self._manager.send(request, request_timeout_ms=seconds * 1000)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise for_code(found.error_code)(getattr(found, "error_message", None) or group)
        if self._manager.cluster.broker_metadata(found.node_id) is None:
            await self._manager.cluster.refresh_metadata()
        return int(found.node_id)

    async def read_topics(self, topics: Sequence[str]) -> tuple[Any, frozenset[str]]:
        """Return a kafka-python ClusterMetadata of these topics, and those that do not exist."""
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        response = await self._manager.send(request, request_timeout_ms=self.timeout * 1000)
        cluster = ClusterMetadata(bootstrap_servers=[])
        cluster.update_metadata(response)
        unknown = (each.name for each in response.topics if each.error_code == UNKNOWN_TOPIC)
        return cluster, frozenset(unknown)

    @property
    def open_connections(self) -> int:
        """The number of connections that are open."""
        return sum(each.connected for each in list(self._manager._conns.values()))

    def _borrow(self, node: int) -> str:
        """Return the node id, unknown to the cluster, of a connection that carries nothing else."""
        idle = self._idle.setdefault(node, [])
        if idle:
            return idle.pop()
        broker = self._manager.cluster.broker_metadata(node)
        if broker is None:
            raise KafkaError(f"broker {node} is not in the cluster")
        self._opened += 1
        name = f"lead-{node}-{self._opened}"
        # The way in which kafka-python gives a coordinator a connection of its own.
        self._manager.cluster._coordinator_brokers[name] = type(broker)(
            name, broker.host, broker.port, None
        )
        return name

    def _give_back(self, node: int, connection: str) -> None:
        idle = self._idle.setdefault(node, [])
        if len(idle) < IDLE_JOIN_CONNECTIONS:
            idle.append(connection)
        else:
            self._discard(connection)

    def _discard(self, connection: str) -> None:
        self._manager.close(connection)
        self._manager.cluster._coordinator_brokers.pop(connection, None)
