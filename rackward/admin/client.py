"""kafka-python's admin client with deadlines, and with one line for whatever goes wrong."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors

from assignors.connection import kafka_python_settings
from assignors.kafka_python.log_filters import teach_discretion
from placement_core import InvalidOptionError
from rackward.admin.diagnose import first_that_answers
from rackward.admin.errors import (
    NOT_CONTROLLER,
    AdminError,
    AdminTimeoutError,
    CredentialsError,
    Deadline,
    TooLargeError,
    TooOldError,
    UnreachableError,
    one_line,
    refusal,
    words,
)

TIMEOUT_SECONDS = 20.0
CLIENT_ID = "rackward"
_PAUSE_SECONDS = 0.1
_MOST_BACKOFF_MS = 500

Answer = TypeVar("Answer")


class _NoControllerError(kafka_errors.KafkaError):  # type: ignore[misc]
    """Brokers answer, and know of no controller."""


_AGAIN = (
    _NoControllerError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.NodeNotReadyError,
    kafka_errors.UnknownBrokerIdError,
    kafka_errors.Cancelled,
    kafka_errors.RequestTimedOutError,
    kafka_errors.KafkaTimeoutError,
)
"""What passes by itself: a broker that is away, or has moved."""


class AdminConnection:
    """Requests to a cluster's brokers, whichever of them, and their answers.

    ``timeout`` is how long, in seconds, opening and each question may take. Errors of the
    client become AdminErrors in one line. Not for several threads at once. Closed by
    ``close`` or at the end of ``with``.
    """

    def __init__(self, client: Any, bootstrap_servers: str, timeout: float) -> None:
        self._client = client
        self._controller: int | None = None
        self.bootstrap_servers = bootstrap_servers
        self.timeout = timeout

    def deadline(self) -> Deadline:
        """A deadline ``timeout`` from now."""
        return Deadline.after(self.timeout)

    def ask(
        self, doing: str, request: Any, *, node: int | None = None, deadline: Deadline | None = None
    ) -> Any:
        """The answer of broker ``node``, or of any broker, as an object of kafka-python.

        ``request`` is of kafka-python's protocol classes, and takes the newest version that
        both sides know. Asked again while brokers come and go, until the deadline. ``doing``
        ("reading the topics") begins every error. Error codes within the answer are the
        caller's to read: see `refusal`. Raises AdminError.
        """
        until = deadline or self.deadline()

        async def send() -> Any:
            return await self._send(request, node, until)

        return self._until(doing, send, until)

    def ask_each(
        self, doing: str, requests: Mapping[int, Any], deadline: Deadline | None = None
    ) -> dict[int, Any]:
        """Several brokers at the same time: broker id to request in, to answer out.

        Raises AdminError where one of them does not answer; see `ask`.
        """
        until = deadline or self.deadline()

        async def send() -> dict[int, Any]:
            sent = {
                node: self._client._manager.send(
                    request, node_id=node, request_timeout_ms=until.remaining * 1000
                )
                for node, request in requests.items()
            }
            return {node: await future for node, future in sent.items()}

        found: dict[int, Any] = self._until(doing, send, until)
        return found

    def ask_controller(self, doing: str, request: Any, deadline: Deadline | None = None) -> Any:
        """The controller's answer, or (KRaft) that of a broker which passes the request on.

        Asked again where the controller has moved. Raises AdminError; see `ask`.
        """
        until = deadline or self.deadline()

        async def send() -> Any:
            return await self._send(request, await self._controller_now(until), until)

        while True:
            answer = self._until(doing, send, until)
            if NOT_CONTROLLER not in _codes(answer):
                return answer
            self._controller = None
            if not until.remaining:
                raise refusal(doing, "", NOT_CONTROLLER)
            time.sleep(_PAUSE_SECONDS)

    def call(self, doing: str, act: Callable[[Any], Answer]) -> Answer:
        """What ``act`` returns of kafka-python's own KafkaAdminClient, for what that does well.

        It waits for its answers as long as it likes. Raises AdminError; see `ask`.
        """
        try:
            return act(self._client)
        except kafka_errors.KafkaError as error:
            raise translated(doing, error) from error

    def close(self) -> None:
        """Close the connections; again: nothing."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def _send(self, request: Any, node: int | None, until: Deadline) -> Any:
        return await self._client._manager.send(
            request, node_id=node, request_timeout_ms=until.remaining * 1000
        )

    def _until(self, doing: str, send: Callable[[], Awaitable[Answer]], until: Deadline) -> Answer:
        while True:
            try:
                found: Answer = self._client._manager.run(send)
                return found
            except _AGAIN as error:
                # Whoever was asked may have died, and was perhaps the controller.
                self._controller = None
                if "CERTIFICATE_VERIFY_FAILED" in str(error) or not until.remaining:
                    raise _gave_up(doing, error, until) from error
                if isinstance(error, kafka_errors.UnknownBrokerIdError):
                    # It has joined since: the client asks who there is every five minutes only.
                    self._client._manager.cluster.request_update()
            except kafka_errors.KafkaError as error:
                raise translated(doing, error) from error
            time.sleep(min(_PAUSE_SECONDS, until.remaining))

    async def _controller_now(self, until: Deadline) -> int:
        from kafka.protocol.metadata import MetadataRequest

        if self._controller is None:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            found = int((await self._send(request, None, until)).controller_id)
            if found < 0:
                raise _NoControllerError
            self._controller = found
        return self._controller


def connect(
    properties: Mapping[str, object],
    bootstrap_servers: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> AdminConnection:
    """A connection to the cluster that the properties describe, in Java's or librdkafka's words.

    ``bootstrap_servers`` (``host:port,...``) wins over those of the properties. ``timeout`` is
    in seconds, for opening and then for each question.

    Raises ConnectionPropertyError for properties that cannot be used, InvalidOptionError where
    no server is named, and an AdminError that says what to do where the cluster cannot be
    reached or does not take the credentials.
    """
    teach_discretion()
    given = dict(properties)
    if bootstrap_servers is not None:
        given["bootstrap.servers"] = bootstrap_servers
    settings = kafka_python_settings(given)
    if "bootstrap_servers" not in settings:
        raise InvalidOptionError(
            "no cluster is named: give --bootstrap-server HOST:PORT, or bootstrap.servers in "
            "--command-config"
        )
    named: Any = settings["bootstrap_servers"]
    deadline = Deadline.after(timeout)
    # One that is known to answer: the client would try the others for as long as they are dead.
    settings["bootstrap_servers"] = [first_that_answers(settings, deadline)]
    settings.setdefault("client_id", CLIENT_ID)
    settings.setdefault("reconnect_backoff_max_ms", _MOST_BACKOFF_MS)
    return AdminConnection(_client(settings, deadline), ",".join(named), timeout)


def _client(settings: Mapping[str, Any], deadline: Deadline) -> Any:
    server = settings["bootstrap_servers"][0]
    made: list[Any] = []

    def network(**configs: Any) -> Any:
        # Where opening fails the client forgets its thread and sockets; this remembers them.
        from kafka.net.compat import KafkaNetClient

        made.append(KafkaNetClient(**configs))
        return made[0]

    try:
        return KafkaAdminClient(
            **settings,
            bootstrap_timeout_ms=max(1.0, deadline.remaining * 1000),
            kafka_client=network,
        )
    except BaseException as error:
        for each in made:
            each.close()
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            raise AdminTimeoutError(
                f"{server} answers, but did not say who its brokers are within "
                f"{deadline.seconds:g} s: is the cluster starting, or in trouble?"
            ) from error
        if isinstance(error, kafka_errors.KafkaError | ValueError):
            raise translated(f"connecting to {server}", error) from error
        raise


def translated(doing: str, error: Exception) -> AdminError:
    """An error of kafka-python that trying again does not mend, as one of ours."""
    told = one_line(error.args[0] if error.args else words(type(error).__name__))
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return CredentialsError(
            f"{doing}: the cluster does not take this user and password ({told}): check "
            "sasl.username and sasl.password, or sasl.jaas.config"
        )
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return TooOldError(
            f"{doing}: the brokers do not know this request ({told}): they are too old for it, "
            "or it was sent to a controller"
        )
    if isinstance(error, kafka_errors.InvalidReceiveError):
        return TooLargeError(
            f"{doing}: the answer is too large ({told}): set receive.message.max.bytes higher"
        )
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code > 0:
        return refusal(doing, "", code, told)
    return AdminError(f"{doing}: {told}")


def _gave_up(doing: str, error: Exception, until: Deadline) -> AdminError:
    told = one_line(error.args[0] if error.args else words(type(error).__name__))
    if isinstance(error, _NoControllerError):
        return AdminTimeoutError(
            f"the cluster has had no controller for {until.seconds:g} s: check its quorum"
        )
    if isinstance(error, kafka_errors.RequestTimedOutError | kafka_errors.KafkaTimeoutError):
        return AdminTimeoutError(
            f"{doing}: no answer within {until.seconds:g} s; try a longer --timeout"
        )
    if isinstance(error, kafka_errors.UnknownBrokerIdError):
        return UnreachableError(f"{doing}: the cluster has no broker {told} now: is it up?")
    if isinstance(error, kafka_errors.NodeNotReadyError):
        # The client's way to say that it has given up on all of them, or on one, for a while.
        told = "it keeps refusing, or closing, connections"
    return UnreachableError(
        f"{doing}: a broker cannot be reached at the address that the cluster gives for it "
        f"({told}): check advertised.listeners, and that it is up"
    )


def _codes(answer: Any) -> set[int]:
    """The error codes in an answer: on top, per topic and per partition."""
    codes = {getattr(answer, "error_code", 0)}
    for name in ("topics", "results", "responses"):
        codes.update(getattr(each, "error_code", 0) for each in getattr(answer, name, None) or ())
    return codes


# ---- A producer whose records are kept, or whose caller hears that they were not.


def reliable_producer(
    properties: Mapping[str, object], timeout: float, doing: str, **settings: object
) -> Any:
    """kafka-python's KafkaProducer: idempotent, acknowledged by all replicas in sync.

    ``properties`` say how to connect, in Java's or librdkafka's words; ``timeout`` is in seconds;
    ``doing`` begins the error; ``settings`` are more of the producer's own.

    Raises AdminError where it cannot be made.
    """
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    every: dict[str, Any] = {
        "client_id": CLIENT_ID,
        **kafka_python_settings(properties),
        "acks": "all",
        "enable_idempotence": True,
        "max_block_ms": int(timeout * 1000),
        "delivery_timeout_ms": max(int(timeout * 1000), 5000),
        "request_timeout_ms": max(int(timeout * 500), 2000),
        **settings,
    }
    try:
        return KafkaProducer(**every)
    except KafkaError as error:
        raise translated(doing, error) from error
