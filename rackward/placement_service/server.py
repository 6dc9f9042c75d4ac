"""The placement service: serves ``create_replica_placement`` of KIP-879 on a port of its own.

One event loop serves all connections; placements run in a few threads beside it, since a placer
may block. A connection is in one of the states of `ConnectionState`, each with a time limit, and
carries one request after the other.

The number of connections is limited, and peers that send nothing must not keep others out. A new
connection beyond the limit evicts the one that has been in its state for the longest time: a
client that has a request sends it at once. A connection whose placement is in progress is never
evicted; if that is so for all, the new connection is closed. So that one peer cannot bring that
about, the placements in progress of each IP address are limited, too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from placement_core import InvalidOptionError
from rackward.placement_service.handler import (
    Immediate,
    PlacementHandler,
    PlacementThreads,
    Request,
    Response,
    parse_request,
)
from rackward.placement_service.protocol import (
    LOOPBACK,
    Address,
    ListeningError,
    MalformedFrameError,
    MutualTls,
    ServiceLimits,
    frame,
)
from rackward.units import Deadline

_BACKLOG = 512
_MAX_PORT = 65535
_LENGTH_BYTES = 4
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
    connections: int = _metric("Accepted connections of the placement service.")
    evicted_connections: int = _metric("Waiting connections closed to make room for a new one.")
    refused_connections: int = _metric(
        "New connections closed because all others were being answered."
    )
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

    ``handler`` is called in threads, up to ``limits.concurrent_placements`` at a time, and may
    raise: the message of a RackwardError is sent to the client, and of any other exception only its
    class.
    """

    def __init__(self, handler: PlacementHandler, limits: ServiceLimits | None = None) -> None:
        self._handler = handler
        self._limits = limits or ServiceLimits()
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

        On exit, requests in progress may finish within ``shutdown_seconds``. The limits apply to
        each listener by itself. Raises InvalidOptionError for an address that is not loopback
        without ``tls``, ConnectionPropertyError for the files of ``tls``, and ListeningError.
        """
        context = None if tls is None else tls.server_context()
        threads = PlacementThreads(self._limits.concurrent_placements)
        placing = Counter[str]()

        async def respond(peer: Address, message: bytes) -> bytes:
            return await self._respond(threads, placing, peer, message)

        with await open_listener(host, port, mutual_tls=tls is not None) as listener:
            acceptor = _Acceptor(respond, self._limits, context, self._counter, self._log)
            accepting = asyncio.create_task(acceptor.accept(listener))
            address = _address(listener.getsockname())
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
                await acceptor.close()

    async def _respond(
        self, threads: PlacementThreads, placing: Counter[str], peer: Address, message: bytes
    ) -> bytes:
        """Return the response; ``placing`` counts placements in progress by the peer's host."""
        request = parse_request(message)
        if isinstance(request, Immediate):
            self._counter["requests"] += 1
            return request.message
        if placing[peer.host] >= self._limits.placements_per_peer:
            response = request.throttled(placing[peer.host])
        else:
            placing[peer.host] += 1
            try:
                response = await self._place(threads, request)
            finally:
                placing[peer.host] -= 1
                if not placing[peer.host]:
                    del placing[peer.host]
        self._counter["requests"] += 1
        if response.error is None:
            self._counter["placements"] += 1
        else:
            self._counter["failed_placements"] += 1
            self._log.warn(
                "placement", f"placement failed: peer={peer}: {response.error}", response.exception
            )
        return response.message

    async def _place(self, threads: PlacementThreads, request: Request) -> Response:
        seconds = min(request.timeout, self._limits.placement_seconds)
        if not seconds:
            return request.timed_out(seconds)
        try:
            async with asyncio.timeout(seconds):
                deadline = Deadline.after(seconds)
                return await threads.run(
                    lambda: request.handle(self._handler, self._limits, deadline)
                )
        except TimeoutError:
            return request.timed_out(seconds)
        except RuntimeError as error:
            # No thread could be started, or the handler raised SystemExit or the like.
            return request.failed(error)


class ConnectionState(Enum):
    """What a connection is doing."""

    ACCEPTED = auto()
    WAITING = auto()
    """For TLS, or for a complete request."""
    PLACING = auto()
    SENDING = auto()


class Connection:
    """One client's connection: requests, one after the other, and their responses.

    ``since`` is when the present state began, on the event loop's clock. ``peer`` is for the log.
    With ``closing`` set, the connection ends after the request in progress.
    """

    def __init__(self, peer: Address, limits: ServiceLimits) -> None:
        self.peer = peer
        self.closing = False
        self._limits = limits
        self.enter(ConnectionState.ACCEPTED)

    def enter(self, state: ConnectionState) -> None:
        """Change the state."""
        self.state = state
        self.since = asyncio.get_running_loop().time()

    async def serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        respond: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        """Serve requests until the peer has no more, or until ``closing`` is set.

        Raises TimeoutError if the peer takes too long, MalformedFrameError, what ``respond``
        raises, and EOFError or OSError if the connection breaks.
        """
        # So that `drain` returns only when the operating system has taken the whole response.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        while not self.closing:
            self.enter(ConnectionState.WAITING)
            message = await self._read_message(reader)
            if message is None:
                break
            self.enter(ConnectionState.PLACING)
            response = await respond(message)
            self.enter(ConnectionState.SENDING)
            async with asyncio.timeout(self._limits.response_seconds):
                writer.write(frame(response))
                await writer.drain()
        writer.close()
        async with asyncio.timeout(self._limits.response_seconds):
            await writer.wait_closed()

    async def _read_message(self, reader: asyncio.StreamReader) -> bytes | None:
        """Return a frame without its length; None if the connection ends before it begins."""
        limits = self._limits
        async with asyncio.timeout(limits.idle_seconds):
            first = await reader.read(1)
        if not first:
            return None
        async with asyncio.timeout(limits.frame_seconds):
            prefix = first + await reader.readexactly(_LENGTH_BYTES - 1)
            length = int.from_bytes(prefix, "big", signed=True)
            if not 0 <= length <= limits.frame_bytes:
                raise MalformedFrameError(
                    f"a frame of {length} bytes: at most {limits.frame_bytes} are accepted"
                )
            return await reader.readexactly(length)


def new_streams() -> tuple[asyncio.StreamReader, asyncio.StreamReaderProtocol]:
    """Return a reader that buffers little more than is read from it, and its protocol."""
    reader = asyncio.StreamReader(limit=_BUFFER_BYTES)
    return reader, asyncio.StreamReaderProtocol(reader)


class _Acceptor:
    """Accepts connections of one listener, up to the limit, and serves them.

    ``respond`` returns the response to a peer's request. ``counter`` counts under the names of
    ServiceMetrics.
    """

    def __init__(
        self,
        respond: Callable[[Address, bytes], Awaitable[bytes]],
        limits: ServiceLimits,
        context: ssl.SSLContext | None,
        counter: Counter[str],
        log: RateLimitedLog,
    ) -> None:
        self._respond, self._limits, self._context = respond, limits, context
        self._counter, self._log = counter, log
        self._connections: dict[Connection, asyncio.Task[None]] = {}

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
            self._admit(accepted, _address(name))
            # While more connections arrive, `sock_accept` never yields to other tasks.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close waiting connections at once, and others when they are done or out of time."""
        for connection, task in self._connections.items():
            connection.closing = True
            if connection.state in (ConnectionState.ACCEPTED, ConnectionState.WAITING):
                task.cancel()
        tasks = set(self._connections.values())
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._limits.shutdown_seconds)
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            # Aborted transports are closed in the loop's next iteration.
            await asyncio.sleep(0)

    def _admit(self, accepted: socket.socket, peer: Address) -> None:
        self._counter["connections"] += 1
        if len(self._connections) >= self._limits.connections and not self._evict():
            self._counter["refused_connections"] += 1
            self._log.warn(
                "refused",
                f"connection refused: peer={peer}: all {self._limits.connections} connections wait "
                "for placements",
            )
            accepted.close()
            return
        connection = Connection(peer, self._limits)

        def on_done(_: asyncio.Task[None]) -> None:
            self._connections.pop(connection, None)
            self._counter["open_connections"] -= 1
            if connection.state is ConnectionState.ACCEPTED:
                # The task was cancelled before it started, so it has not closed the socket.
                accepted.close()

        task = asyncio.create_task(self._serve(connection, accepted))
        self._connections[connection] = task
        self._counter["open_connections"] += 1
        task.add_done_callback(on_done)

    def _evict(self) -> bool:
        """Close the connection that has been in its state longest; return whether there is one."""
        candidates = [
            each for each in self._connections if each.state is not ConnectionState.PLACING
        ]
        if not candidates:
            return False
        oldest = min(candidates, key=lambda each: each.since)
        self._connections.pop(oldest).cancel()
        self._counter["evicted_connections"] += 1
        self._log.warn(
            "evicted",
            f"connection evicted: peer={oldest.peer}: the limit of {self._limits.connections} "
            "connections is reached",
        )
        return True

    async def _serve(self, connection: Connection, accepted: socket.socket) -> None:
        connection.enter(ConnectionState.WAITING)
        reader, protocol = new_streams()
        peer, tls = connection.peer, self._context is not None
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake_seconds if tls else None,
                ssl_shutdown_timeout=self._limits.shutdown_seconds if tls else None,
            )
        except OSError as error:
            self._counter["failed_handshakes"] += 1
            self._log.warn("handshake", f"TLS handshake failed: peer={peer}: {_reason(error)}")
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await connection.serve(reader, writer, lambda message: self._respond(peer, message))
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


class RateLimitedLog:
    """Logs one warning of each kind per ``interval`` seconds and counts the others, so that peers
    cannot fill the log.

    ``kind`` is one of a few constants, never text that a peer has sent.
    """

    def __init__(
        self,
        logger: logging.Logger,
        interval: float = _LOG_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._interval = interval
        self._clock = clock
        self._suppressed_until: dict[str, float] = {}
        self._suppressed: Counter[str] = Counter()

    def warn(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Log ``text``, with the traceback of ``error``, unless it is suppressed."""
        now = self._clock()
        if now < self._suppressed_until.get(kind, now):
            self._suppressed[kind] += 1
            return
        self._suppressed_until[kind] = now + self._interval
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


def _address(name: object) -> Address:
    """Return the address in a socket's name, of any family."""
    match name:
        case (str(host), int(port), *_):
            return Address(host, port)
    return Address("?", 0)


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).replace("_", " ").lower()
