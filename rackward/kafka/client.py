"""Connections to a cluster: kafka-python's clients with deadlines and one-line errors.

kafka-python's KafkaAdminClient waits and retries as it sees fit. `AdminConnection` sends each
request under a deadline, repeats it while brokers restart or the controller moves, and raises an
AdminError that names the operation, the fault and what to do. `ReliableProducer` returns only once
its records are stored on all in-sync replicas.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from kafka import KafkaAdminClient, KafkaProducer
from kafka import errors as kafka_errors
from kafka.errors import KafkaError

from assignors.connection import kafka_python_settings
from assignors.kafka_python.fixes import install_log_filters
from placement_core import InvalidOptionError
from rackward.kafka.errors import (
    NOT_CONTROLLER,
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    UnreachableError,
    from_code,
    pick_bootstrap_server,
    reason_of,
    wrap,
)
from rackward.units import Deadline

CLIENT_ID = "rackward"
TIMEOUT_SECONDS = 20.0
FIRST_ATTEMPT_SECONDS = 1.0
"""Time to connect, at most a tenth of the timeout, before the fault is looked for."""
_RETRY_SECONDS = 0.1
_MAX_RECONNECT_BACKOFF_MS = 500
"""kafka-python's default is 30 s. It picks bootstrap servers at random and waits until that one may
be tried again, so with most of them down the time would be over before the one that is up."""

Result = TypeVar("Result")

Guard = Callable[[str], AbstractContextManager[Deadline]]
"""Permits one change: its context has the time until which the request may be sent, or raises. The
argument names the operation."""


def client_settings(properties: Mapping[str, object], client_id: str = CLIENT_ID) -> dict[str, Any]:
    """Return kafka-python's keyword arguments for a client of this package.

    ``properties``, with Java's or librdkafka's names, override the client id and the back-off.

    Raises ConnectionPropertyError for invalid properties.
    """
    return {
        "client_id": client_id,
        "reconnect_backoff_max_ms": _MAX_RECONNECT_BACKOFF_MS,
        **kafka_python_settings(properties),
    }


def responding_settings(settings: Mapping[str, Any], deadline: Deadline) -> dict[str, Any]:
    """Return `client_settings` with only the first bootstrap server that responds.

    kafka-python would spend all of its time on dead ones, or on one that accepts connections and is
    silent.

    Raises AdminError if no server responds, or refuses this user.
    """
    return {**settings, "bootstrap_servers": [pick_bootstrap_server(settings, deadline)]}


def connect(
    properties: Mapping[str, object],
    bootstrap_servers: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> AdminConnection:
    """Connect to the cluster that the properties describe, with Java's or librdkafka's names.

    ``bootstrap_servers`` (``host:port,...``) overrides the one in the properties. ``timeout``, in
    seconds, applies to connecting and then to each operation.

    Raises ConnectionPropertyError for invalid properties, InvalidOptionError if there is no
    bootstrap server, and AdminError if the cluster cannot be reached or authentication fails.
    """
    install_log_filters()
    merged = dict(properties)
    if bootstrap_servers is not None:
        merged["bootstrap.servers"] = bootstrap_servers
    settings = client_settings(merged)
    if "bootstrap_servers" not in settings:
        raise InvalidOptionError("no cluster is given: set bootstrap.servers")
    deadline = Deadline.after(timeout)
    try:
        client = _open_client(settings, min(FIRST_ATTEMPT_SECONDS, timeout / 10))
    except CredentialsError:
        # Repeated failures may lock an account.
        raise
    except AdminError:
        # kafka-python retries whatever is wrong: find the fault, or a server that responds.
        client = _open_client(responding_settings(settings, deadline), deadline.remaining)
    return AdminConnection(client, ",".join(settings["bootstrap_servers"]), timeout)


class _NotSentError(kafka_errors.KafkaTimeoutError):  # type: ignore[misc]
    """The deadline had expired before the request was sent."""


_RETRIABLE = (
    kafka_errors.KafkaConnectionError,
    kafka_errors.NodeNotReadyError,
    kafka_errors.UnknownBrokerIdError,
    kafka_errors.Cancelled,
    kafka_errors.RequestTimedOutError,
    kafka_errors.KafkaTimeoutError,
)
"""Errors of a broker that restarts, or of a controller that moves."""


class AdminConnection(AbstractContextManager["AdminConnection"]):
    """Sends requests to a cluster's brokers; see `connect`.

    ``timeout`` is in seconds and applies to each operation outside of `within`. ``guard``, if there
    is one, permits the requests that change reassignments, leaders and configurations. Not
    thread-safe. Close it with ``close`` or ``with``.
    """

    def __init__(self, client: Any, bootstrap_servers: str, timeout: float) -> None:
        self._client = client
        self.bootstrap_servers = bootstrap_servers
        self.timeout = timeout
        self.guard: Guard | None = None
        self._deadline: Deadline | None = None

    def deadline(self) -> Deadline:
        """Return that of `within`, or else ``timeout`` seconds from now."""
        return self._deadline or Deadline.after(self.timeout)

    @contextmanager
    def within(self, deadline: Deadline | None = None) -> Iterator[Deadline]:
        """Send all requests in the context under one deadline, and yield it.

        None: that of the enclosing context, or else ``timeout`` seconds from now.
        """
        enclosing, self._deadline = self._deadline, deadline or self.deadline()
        try:
            yield self._deadline
        finally:
            self._deadline = enclosing

    @contextmanager
    def change(self, operation: str) -> Iterator[Deadline]:
        """Yield the deadline of one request that changes the cluster, if the guard permits it.

        The request is not sent after the deadline, see `send`. Raises what the guard raises.
        """
        permission = self.guard(operation) if self.guard else nullcontext(self.deadline())
        with permission as limit:
            earlier = min(self.deadline(), limit, key=lambda deadline: deadline.remaining)
            with self.within(earlier):
                yield earlier

    @property
    def manager(self) -> Any:
        """kafka-python's KafkaConnectionManager, whose event loop runs in a thread of its own."""
        return self._client._manager

    def send(self, operation: str, request: Any, *, node: int | None = None) -> Any:
        """Send a request to broker ``node`` (None: any broker) and return its response.

        ``request`` is a message class of kafka-python; it is sent in the newest version that both
        sides support, and again while brokers restart, until the deadline. After the deadline it is
        not sent, also if this process was suspended in between. ``operation``
        ("reading the topics") begins every error message. Error codes inside the response are left
        to the caller: see `from_code`. Raises AdminError.
        """
        until = self.deadline()
        return self._retry(operation, lambda: self._send(request, node, until), until)

    def send_to_each(self, operation: str, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Send one request to each of several brokers at once; broker id to response.

        Raises AdminError if one of them does not respond; see `send`.
        """
        until = self.deadline()

        async def send_all() -> dict[int, Any]:
            futures = {
                node: self.manager.send(
                    request, node_id=node, request_timeout_ms=until.remaining * 1000
                )
                for node, request in requests.items()
            }
            return {node: await future for node, future in futures.items()}

        return self._retry(operation, send_all, until)

    def send_to_controller(self, operation: str, request: Any) -> Any:
        """Send a request to any broker, which forwards it to the controller; return the response.

        It is sent again while the controller moves. Raises AdminError; see `send`.
        """
        response = self.send_while(NOT_CONTROLLER, operation, request)
        if NOT_CONTROLLER in _error_codes(response):
            raise from_code(operation, "", NOT_CONTROLLER)
        return response

    def send_while(
        self, code: int, operation: str, request: Any, *, node: int | None = None
    ) -> Any:
        """Send a request again while the response has this error code, until the deadline.

        Returns the last response. Raises AdminError; see `send`.
        """
        with self.within() as deadline:
            while True:
                response = self.send(operation, request, node=node)
                if code not in _error_codes(response) or not deadline.remaining:
                    return response
                time.sleep(min(_RETRY_SECONDS, deadline.remaining))

    def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _send(self, request: Any, node: int | None, deadline: Deadline) -> Any:
        if not deadline.remaining:
            raise _NotSentError
        return await self.manager.send(
            request, node_id=node, request_timeout_ms=deadline.remaining * 1000
        )

    def _retry(
        self, operation: str, send: Callable[[], Awaitable[Result]], deadline: Deadline
    ) -> Result:
        failure: kafka_errors.KafkaError | None = None
        while True:
            try:
                result: Result = self.manager.run(send)
                return result
            except _RETRIABLE as error:
                failure = failure if failure and isinstance(error, _NotSentError) else error
                if "CERTIFICATE_VERIFY_FAILED" in str(error) or not deadline.remaining:
                    raise _deadline_error(operation, failure, deadline) from error
                if isinstance(error, kafka_errors.UnknownBrokerIdError):
                    # The broker has joined since the client last read the metadata, which it does
                    # by itself only every five minutes.
                    self.manager.cluster.request_update()
            except kafka_errors.KafkaError as error:
                raise wrap(operation, error) from error
            time.sleep(min(_RETRY_SECONDS, deadline.remaining))


def _open_client(settings: Mapping[str, Any], seconds: float) -> Any:
    servers = ", ".join(settings["bootstrap_servers"])
    networks: list[Any] = []

    def open_network(**configs: Any) -> Any:
        # If its constructor fails, KafkaAdminClient leaves this thread and its sockets open.
        from kafka.net.compat import KafkaNetClient

        from rackward.kafka.event_loop import FixedSelector

        networks.append(KafkaNetClient(net=FixedSelector(**configs), **configs))
        return networks[0]

    try:
        return KafkaAdminClient(
            **settings,
            bootstrap_timeout_ms=max(1.0, seconds * 1000),
            kafka_client=open_network,
        )
    except BaseException as error:
        for network in networks:
            network.close()
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            raise AdminTimeoutError(
                f"{servers} responds, but returned no metadata within {seconds:.3g} s: is the "
                "cluster still starting, or without a controller?"
            ) from error
        if isinstance(error, kafka_errors.KafkaError | ValueError):
            raise wrap(f"connecting to {servers}", error) from error
        raise


def _deadline_error(operation: str, error: Exception, deadline: Deadline) -> AdminError:
    """Return the error for a request that was still failing when the time was up."""
    reason = reason_of(error)
    if isinstance(error, _NotSentError):
        return AdminTimeoutError(
            f"{operation}: not sent, since its time of {deadline.seconds:g} s was over"
        )
    if isinstance(error, kafka_errors.RequestTimedOutError | kafka_errors.KafkaTimeoutError):
        return AdminTimeoutError(
            f"{operation}: no response within {deadline.seconds:g} s; try a longer --timeout"
        )
    if isinstance(error, kafka_errors.UnknownBrokerIdError):
        return UnreachableError(f"{operation}: broker {reason} is not in the cluster: is it up?")
    if isinstance(error, kafka_errors.NodeNotReadyError):
        # The client raises this while it backs off from one broker, or from all of them.
        reason = "connections are refused or closed"
    return UnreachableError(
        f"{operation}: a broker cannot be reached at its advertised address ({reason}): check "
        "advertised.listeners, and that the broker is up"
    )


def _error_codes(response: Any) -> set[int]:
    """Return the error codes of a response, top-level and of each topic or resource."""
    codes = {getattr(response, "error_code", 0)}
    for name in ("topics", "results", "responses"):
        codes.update(
            getattr(result, "error_code", 0) for result in getattr(response, name, None) or ()
        )
    return codes


# ---- Writing records.

Record = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""


class ReliableProducer:
    """An idempotent producer with ``acks=all`` for one topic.

    ``properties`` are connection settings with Java's or librdkafka's names; ``timeout`` is in
    seconds; ``settings`` are further keyword arguments of kafka-python's KafkaProducer. Raises
    AdminError if the cluster cannot be reached.
    """

    def __init__(
        self, properties: Mapping[str, object], topic: str, timeout: float, **settings: object
    ) -> None:
        self._topic, self._timeout = topic, timeout
        arguments: dict[str, Any] = {
            **responding_settings(client_settings(properties), Deadline.after(timeout)),
            "acks": "all",
            "enable_idempotence": True,
            "max_block_ms": int(timeout * 1000),
            "delivery_timeout_ms": max(int(timeout * 1000), 5000),
            "request_timeout_ms": max(int(timeout * 500), 2000),
            **settings,
        }
        try:
            self._producer = KafkaProducer(**arguments)
        except KafkaError as error:
            raise wrap(f"connecting the producer of topic {topic}", error) from error

    def send(self, records: Iterable[Record], partition: int | None = None) -> None:
        """Send the records; return when all of them are acknowledged.

        Raises AdminError; some of the records may be stored then.
        """
        try:
            futures = [
                self._producer.send(self._topic, key=key, value=value, partition=partition)
                for key, value in records
            ]
            self._producer.flush(timeout=self._timeout)
            for future in futures:
                future.get(timeout=self._timeout)
        except KafkaError as error:
            acl = f"Write on {self._topic}"
            raise wrap(f"writing to topic {self._topic}", error, topic_acl=acl) from error

    def close(self) -> None:
        """Close the connections."""
        self._producer.close(timeout=5)
