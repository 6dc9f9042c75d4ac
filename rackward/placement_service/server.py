"""The placement service: serves ``create_replica_placement`` of KIP-879 on a port of its own.

One event loop serves all connections; placements run in a few threads beside it, since a placer
may block. A connection carries one request after the other and has a time limit for each step. The
number of connections is limited, in all and of one IP address; one more is closed at once.

What it does with a request, `parse_request` and `handle`, is a function of bytes, without sockets.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafka.protocol.metadata import ApiVersionsRequest

from placement_core import (
    ClusterView,
    InvalidOptionError,
    PlacementSpec,
    RackwardError,
    ReplicaLists,
)
from placement_core.locators import RackLocator
from placement_core.placers import (
    PlacementError,
    ReplicaPlacer,
    SimplePlacer,
    UnderReplicatedPlacer,
    place,
)
from rackward.kafka.errors import one_line
from rackward.placement_service.messages import (
    API_VERSIONS,
    CREATE_REPLICA_PLACEMENT,
    LENGTH_BYTES,
    LOOPBACK,
    MAX_API_VERSIONS,
    UNSUPPORTED_VERSION,
    Address,
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
    ErrorCode,
    ListeningError,
    MalformedFrameError,
    ServiceRefusedError,
    api_versions_response,
    decode,
    encode,
    frame,
    frame_length,
)
from rackward.placement_service.tls import MutualTls
from rackward.units import Deadline

MAX_FRAME_BYTES = 16 * 1024
"""Of a request: room for 4,000 broker ids."""

MAX_CONNECTIONS, MAX_CONNECTIONS_PER_PEER = 256, 32
"""Open at a time, in all and of one IP address."""

STEP_SECONDS = 10.0
"""For TLS; between requests; from a request's first byte to its last; and for the peer to receive
its response."""

CONCURRENT_PLACEMENTS = 2
"""Placements in progress; others wait."""

PLACEMENT_SECONDS = 30.0
"""For one placement, including its wait, unless the request allows less."""

SHUTDOWN_SECONDS = 2.0
"""For requests in progress when the service stops."""

START_SECONDS = 60.0
"""For a service in a thread to start, and to stop; both take milliseconds on an idle machine."""

_BACKLOG = 512
_MAX_PORT = 65535
_BUFFER_BYTES = 4096
_ACCEPT_RETRY_SECONDS = 0.2
_LOG_INTERVAL_SECONDS = 10.0

log = logging.getLogger("rackward.placement_service")


def _metric(help: str) -> int:
    metric: int = field(default=0, metadata={"help": help})
    return metric


@dataclass(frozen=True, slots=True)
class ServiceMetrics:
    """Metrics of a service at one moment, with their help. All but ``open_...`` are counters."""

    open_connections: int = _metric("Open connections of the placement service.")
    connections: int = _metric("Connections that the placement service served.")
    refused_connections: int = _metric("Connections closed at once because too many were open.")
    failed_handshakes: int = _metric(
        "TLS handshakes that failed, such as without a trusted certificate."
    )
    invalid_frames: int = _metric("Frames that were too long, malformed or of an unknown request.")
    slow_connections: int = _metric("Connections closed because a client took too long.")
    requests: int = _metric("Requests answered by the placement service, ApiVersions included.")
    placements: int = _metric("Placements returned by the placement service.")
    failed_placements: int = _metric("Placement requests answered with an error.")


class PlacementService:
    """Answers placement requests with what ``handler`` returns.

    ``handler`` is called in threads, up to CONCURRENT_PLACEMENTS at a time, and may raise: the
    message of a RackwardError is sent to the client, and of any other exception only its class.
    """

    def __init__(self, handler: PlacementHandler) -> None:
        self._handler = handler
        self._counter: Counter[str] = Counter()
        self._log = RateLimitedLog(log)

    @property
    def metrics(self) -> ServiceMetrics:
        """The present metrics."""
        return ServiceMetrics(**self._counter)

    @asynccontextmanager
    async def listening(
        self, host: str = LOOPBACK, port: int = 0, tls: MutualTls | None = None
    ) -> AsyncIterator[Address]:
        """Serve within the context, which is the bound address; port 0 means any free one.

        On exit, requests in progress may finish within SHUTDOWN_SECONDS. The limits apply to each
        listener by itself. Raises InvalidOptionError for an address that is not loopback without
        ``tls``, ConnectionPropertyError for the files of ``tls``, and ListeningError.
        """
        context = None if tls is None else tls.server_context()
        with await open_listener(host, port, mutual_tls=tls is not None) as listener:
            connections = _Connections(self._handler, context, self._counter, self._log)
            accepting = asyncio.create_task(connections.accept(listener))
            address = Address(*listener.getsockname()[:2])
            log.info(
                "placement service: address=%s tls=%s", address, "off" if tls is None else "mutual"
            )
            try:
                yield address
            finally:
                accepting.cancel()
                await asyncio.wait([accepting])
                # Otherwise new connections would wait while the present ones finish.
                listener.close()
                await connections.close()


class _Connections:
    """The connections of one listener; ``counter`` counts under the names of ServiceMetrics."""

    def __init__(
        self,
        handler: PlacementHandler,
        context: ssl.SSLContext | None,
        counter: Counter[str],
        log: RateLimitedLog,
    ) -> None:
        self._handler, self._context = handler, context
        self._counter, self._log = counter, log
        self._peers: dict[asyncio.Task[None], str] = {}
        self._responding: set[asyncio.Task[None] | None] = set()
        self._closing = False
        self._slots = asyncio.Semaphore(CONCURRENT_PLACEMENTS)

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, name = await loop.sock_accept(listener)
            except OSError as error:
                # For example, no file descriptor is left until other connections end.
                self._log.warn("accept", f"accept failed: {error}")
                await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            self._admit(accepted, Address(*name[:2]))
            # While more connections arrive, `sock_accept` never yields to other tasks.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close waiting connections at once, and others when they are done or out of time."""
        self._closing = True
        tasks = set(self._peers)
        for task in tasks - self._responding:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=SHUTDOWN_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Aborted transports are closed in the loop's next iteration.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, peer: Address) -> None:
        of_peer = sum(host == peer.host for host in self._peers.values())
        if len(self._peers) >= MAX_CONNECTIONS or of_peer >= MAX_CONNECTIONS_PER_PEER:
            self._counter["refused_connections"] += 1
            self._log.warn(
                "refused",
                f"connection refused: peer={peer}: {len(self._peers)} connections are open, "
                f"{of_peer} of this address",
            )
            accepted.close()
            return
        self._counter["connections"] += 1
        self._counter["open_connections"] += 1
        task = asyncio.create_task(self._serve(accepted, peer))
        self._peers[task] = peer.host

        def on_done(_: asyncio.Task[None]) -> None:
            del self._peers[task]
            self._counter["open_connections"] -= 1
            # It is open if the task was cancelled before it started.
            accepted.close()

        task.add_done_callback(on_done)

    async def _serve(self, accepted: socket.socket, peer: Address) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_BUFFER_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        tls = self._context is not None
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=STEP_SECONDS if tls else None,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS if tls else None,
            )
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
            reason = str(reason).replace("_", " ").lower()
            self._counter["failed_handshakes"] += 1
            self._log.warn("handshake", f"TLS handshake failed: peer={peer}: {reason}")
            return
        try:
            await self._serve_requests(
                peer, reader, asyncio.StreamWriter(transport, protocol, reader, loop)
            )
        except TimeoutError:
            self._counter["slow_connections"] += 1
            self._log.warn("slow", f"connection closed: peer={peer}: it took too long")
        except MalformedFrameError as error:
            self._counter["invalid_frames"] += 1
            self._log.warn("invalid", f"connection closed: peer={peer}: {error}")
        except (OSError, EOFError):
            # The peer has closed the connection.
            pass
        except Exception as error:  # noqa: BLE001 - the other connections have to go on
            self._log.warn("unexpected", f"connection closed: peer={peer}", error)
        finally:
            transport.abort()

    async def _serve_requests(
        self, peer: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve requests until the peer has no more, or until the service stops.

        Raises TimeoutError if the peer takes too long, MalformedFrameError, and EOFError or OSError
        if the connection breaks.
        """
        # So that `drain` returns only when the operating system has taken the whole response.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        task = asyncio.current_task()
        while not self._closing:
            async with asyncio.timeout(STEP_SECONDS):
                first = await reader.read(1)
            if not first:
                break
            async with asyncio.timeout(STEP_SECONDS):
                prefix = first + await reader.readexactly(LENGTH_BYTES - 1)
                message = await reader.readexactly(frame_length(prefix, MAX_FRAME_BYTES))
            self._responding.add(task)
            try:
                response = await self._respond(peer, message)
                async with asyncio.timeout(STEP_SECONDS):
                    writer.write(frame(response))
                    await writer.drain()
            finally:
                self._responding.discard(task)
        writer.close()
        async with asyncio.timeout(STEP_SECONDS):
            await writer.wait_closed()

    async def _respond(self, peer: Address, message: bytes) -> bytes:
        """Return the response to a request. Raises MalformedFrameError."""
        request = parse_request(message)
        if isinstance(request, bytes):
            self._counter["requests"] += 1
            return request
        response = await self._place(request)
        self._counter["requests"] += 1
        self._counter["placements" if response.error is None else "failed_placements"] += 1
        if response.error is not None:
            self._log.warn(
                "placement", f"placement failed: peer={peer}: {response.error}", response.exception
            )
        return response.message

    async def _place(self, request: Request) -> Response:
        seconds = min(request.timeout, PLACEMENT_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if seconds:
                    return await self._place_in_thread(request, Deadline.after(seconds))
        late = ServiceRefusedError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"no placement within {seconds:.3g} s: allow more time, or request fewer partitions",
        )
        return error_response(request, late)

    async def _place_in_thread(self, request: Request, deadline: Deadline) -> Response:
        """Call the handler in a daemon thread, which does not keep the process alive.

        A thread cannot be stopped. After a timeout it goes on, and counts among the placements in
        progress until it ends, so that handlers that hang cannot pile up.
        """
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Response] = loop.create_future()

        def finish(response: Response) -> None:
            self._slots.release()
            if not future.done():
                future.set_result(response)

        def run() -> None:
            response = handle(request, self._handler, deadline)
            # The loop may have been closed meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, response)

        try:
            threading.Thread(target=run, name="rackward-placement", daemon=True).start()
        except RuntimeError as error:
            finish(error_response(request, error))
        return await future


class ServiceThread:
    """Runs ``service`` in a daemon thread until ``close``; ``address`` is the bound address.

    Raises what ``PlacementService.listening`` raises, and ListeningError if the service does not
    listen within START_SECONDS.
    """

    def __init__(
        self,
        service: PlacementService,
        host: str = LOOPBACK,
        port: int = 0,
        tls: MutualTls | None = None,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._bound: Future[Address] = Future()
        self._thread = threading.Thread(
            target=self._run,
            args=(service, host, port, tls),
            name="rackward-placement",
            daemon=True,
        )
        self._thread.start()
        try:
            self.address = self._bound.result(START_SECONDS)
        except TimeoutError as error:
            raise ListeningError(
                f"the placement service does not listen on {Address(host, port)} after "
                f"{START_SECONDS:g} s: can the host name be resolved?"
            ) from error

    def close(self) -> None:
        """Stop the service; requests in progress may finish within SHUTDOWN_SECONDS."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    @property
    def running(self) -> bool:
        """Whether the thread has not ended yet."""
        return self._thread.is_alive()

    def _run(self, service: PlacementService, host: str, port: int, tls: MutualTls | None) -> None:
        async def serve() -> None:
            async with service.listening(host, port, tls) as address:
                self._bound.set_result(address)
                await self._stop.wait()

        try:
            self._loop.run_until_complete(serve())
        except BaseException as error:
            if self._bound.done():
                raise
            self._bound.set_exception(error)
        finally:
            self._loop.close()


class RateLimitedLog:
    """Logs one warning of each kind in ten seconds and counts the others, so that peers cannot fill
    the log.

    ``kind`` is one of a few constants, never text that a peer has sent.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._suppressed_until: dict[str, float] = {}
        self._suppressed: Counter[str] = Counter()

    def warn(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Log ``text``, with the traceback of ``error``, unless it is suppressed."""
        now = time.monotonic()
        if now < self._suppressed_until.get(kind, now):
            self._suppressed[kind] += 1
            return
        self._suppressed_until[kind] = now + _LOG_INTERVAL_SECONDS
        count = self._suppressed.pop(kind, 0)
        suffix = f" (similar warnings suppressed: {count})" if count else ""
        self._logger.warning("%s%s", text, suffix, exc_info=error)


async def open_listener(host: str, port: int, *, mutual_tls: bool) -> socket.socket:
    """Return a socket that listens on the first address of ``host``; port 0 means any free one.

    Raises InvalidOptionError for an invalid host or port, and for an address that is not loopback
    without ``mutual_tls``; else ListeningError.
    """
    if not 0 <= port <= _MAX_PORT:
        raise InvalidOptionError(f"port {port}: give a number from 0 to {_MAX_PORT}")
    if not host:
        # The operating system would listen on all addresses.
        raise InvalidOptionError("the host to listen on is empty: give an address or a name")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidOptionError(
            f"the host {host!r} to listen on cannot be resolved: {error}"
        ) from error
    family, _, _, _, address = found[0]
    if not mutual_tls and not ipaddress.ip_address(address[0]).is_loopback:
        raise InvalidOptionError(
            f"the placement service would listen on {address[0]} without authentication: configure "
            f"mutual TLS (ca_file, cert_file, key_file), or listen on {LOOPBACK}"
        )
    try:
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        where = Address(*address[:2]) if port else address[0]
        reason = os.strerror(error.errno) if error.errno else error
        raise ListeningError(f"cannot listen on {where}: {reason}") from error
    listener.setblocking(False)
    return listener


# ---- From the bytes of a request to the bytes of its response.

MAX_PARTITIONS, MAX_REPLICAS = 10_000, 50_000
"""Of one placement, which bounds the size of the response."""

MAX_MESSAGE_LENGTH = 1000
"""Characters of an error message that are sent."""


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A requested placement for a topic that is not named.

    ``force_simple_placement``: use the simple placer without racks, whatever is configured.
    ``broker_ids``: brokers to use; None: any live broker. ``deadline``: when the client no longer
    waits; None: not known. A handler that blocks longer keeps others waiting.
    """

    partitions: int
    replication_factor: int
    force_simple_placement: bool = False
    broker_ids: frozenset[int] | None = None
    deadline: Deadline | None = field(default=None, compare=False)


PlacementHandler = Callable[[PlacementRequest], ReplicaLists]
"""Returns the placement; may block, and may raise any exception."""


def place_replicas(
    request: PlacementRequest,
    view: ClusterView,
    placer: ReplicaPlacer,
    *,
    locator: RackLocator | None = None,
    fallback: SimplePlacer | None = None,
    ignore_racks: bool = False,
    min_insync_replicas: int | None = None,
) -> ReplicaLists:
    """Return the placement of ``placer``, through :func:`placement_core.placers.place`.

    ``fallback`` places if the placer returns None, and if simple placement is forced.
    ``ignore_racks`` places as if no broker had a rack. ``min_insync_replicas``, if given, allows
    placeholders for missing brokers: see :class:`placement_core.placers.UnderReplicatedPlacer`.
    Raises what ``place`` raises.
    """
    simple = fallback or SimplePlacer()
    forced = request.force_simple_placement
    spec = PlacementSpec(
        request.partitions, request.replication_factor, ignore_racks=ignore_racks or forced
    )
    chosen: ReplicaPlacer = simple if forced else placer
    if min_insync_replicas is not None:
        chosen = UnderReplicatedPlacer(chosen, min_insync_replicas)
    return place(spec, view, chosen, request.broker_ids, locator=locator, fallback=simple)


@dataclass(frozen=True, slots=True)
class Request:
    """A placement request of a client; 0 seconds of ``timeout`` allow no time at all."""

    correlation_id: int
    timeout: float
    placement: PlacementRequest


class Response(NamedTuple):
    """The response to a placement request.

    ``error`` is the error in it, None for a placement; ``exception`` is what the handler raised,
    if that is not one of rackward's errors.
    """

    message: bytes
    error: str | None = None
    exception: BaseException | None = None


def parse_request(message: bytes) -> Request | bytes:
    """Return the placement request in a frame without its length, or the response to ApiVersions.

    Raises MalformedFrameError for anything but these two requests.
    """
    try:
        # These fields are at the start of every version of a header.
        key, version, correlation_id = struct.unpack_from(">hhi", message)
    except struct.error:
        raise MalformedFrameError("a request without a complete header") from None
    if key == API_VERSIONS:
        if not 0 <= version <= MAX_API_VERSIONS:
            # The rest of such a request is unknown. Kafka's rule: the response is of version 0.
            return encode(api_versions_response(0, UNSUPPORTED_VERSION), correlation_id)
        decode(ApiVersionsRequest, message, version)
        return encode(api_versions_response(version), correlation_id)
    if key != CREATE_REPLICA_PLACEMENT or version != 0:
        raise MalformedFrameError(f"requests of key {key}, version {version} are not served")
    body = decode(CreateReplicaPlacementRequest, message, 0)
    return Request(
        correlation_id,
        max(0.0, body.timeout_ms / 1000),
        PlacementRequest(
            body.num_partitions,
            body.replication_factor,
            body.force_simple_placement,
            frozenset(body.node_id) if body.node_id else None,
        ),
    )


def handle(
    request: Request, handler: PlacementHandler, deadline: Deadline | None = None
) -> Response:
    """Return the handler's placement, or the error that it raises, as a response."""
    try:
        _check_limits(request.placement)
        rows = enumerate(handler(replace(request.placement, deadline=deadline)))
        message = CreateReplicaPlacementResponse(version=0, replica_placement=list(rows))
        return Response(encode(message, request.correlation_id))
    except BaseException as error:  # noqa: BLE001 - a plug-in's, even sys.exit(); the service goes on
        return error_response(request, error)


def error_response(request: Request, error: BaseException) -> Response:
    """Return the response for an error of the service or of its handler.

    Only the text of rackward's errors is sent; of others, the class.
    """
    match error:
        case ServiceRefusedError():
            code = error.code
        case PlacementError():
            code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        case InvalidOptionError():
            code = ErrorCode.INVALID_REQUEST
        case TimeoutError():
            code = ErrorCode.REQUEST_TIMED_OUT
        case _:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
    known = isinstance(error, RackwardError)
    text = str(error) if known else f"the service failed with {type(error).__name__}: see its log"
    # Messages may contain what is not a character, such as a file's name.
    text = one_line(text)[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()
    message = CreateReplicaPlacementResponse(
        version=0, replica_placement=[], error_code=int(code), error_message=text
    )
    return Response(encode(message, request.correlation_id), text, None if known else error)


def _check_limits(request: PlacementRequest) -> None:
    partitions, factor = request.partitions, request.replication_factor
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise ServiceRefusedError(
            ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions: request 1 to {MAX_PARTITIONS}"
        )
    max_factor = MAX_REPLICAS // partitions
    if not 1 <= factor <= max_factor:
        raise ServiceRefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {factor} for {partitions} partitions: request 1 to {max_factor}",
        )
