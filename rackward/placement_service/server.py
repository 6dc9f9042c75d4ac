"""The placement service: ``create_replica_placement`` of KIP-879 at a port of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import TypeVar

from rackward.placement_service.handler import Answered, Asked, Placing, Ready, read_request
from rackward.placement_service.protocol import (
    LOOPBACK,
    Address,
    MalformedFrameError,
    ServiceLimits,
    address_of,
    frame,
    listen,
)
from rackward.placement_service.tls import MutualTls

# ---- One connection: requests in, one after the other, and an answer to each.

_LENGTH_BYTES = 4
_BUFFERED_BYTES = 4096


class Phase(Enum):
    """What a connection is at."""

    ARRIVED = auto()
    """Accepted, and nothing more."""
    WAITING = auto()
    """For TLS, or for the whole of a request."""
    PLACING = auto()
    SENDING = auto()


class Conversation:
    """``since``: when the present phase began, on the loop's clock; ``peer``: for the log."""

    def __init__(self, peer: str, limits: ServiceLimits) -> None:
        self.peer = peer
        self.ending = False
        self._limits = limits
        self.begin(Phase.ARRIVED)

    def begin(self, phase: Phase) -> None:
        """Note that a phase begins."""
        self.phase = phase
        self.since = asyncio.get_running_loop().time()

    async def hold(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[bytes], Awaitable[bytes]],
    ) -> None:
        """Answer requests until the peer has no more, or until ``ending`` is set.

        Raises TimeoutError where the peer takes too long, MalformedFrameError, what ``answer``
        raises, and EOFError or OSError where the connection breaks.
        """
        # So that an answer counts as sent when the system has taken all of it.
        writer.transport.set_write_buffer_limits(high=1, low=0)
        while not self.ending:
            self.begin(Phase.WAITING)
            message = await self._next_message(reader)
            if message is None:
                break
            self.begin(Phase.PLACING)
            answered = await answer(message)
            self.begin(Phase.SENDING)
            async with asyncio.timeout(self._limits.answer_seconds):
                writer.write(frame(answered))
                await writer.drain()
        writer.close()
        async with asyncio.timeout(self._limits.answer_seconds):
            await writer.wait_closed()

    async def _next_message(self, reader: asyncio.StreamReader) -> bytes | None:
        """A frame without its length; None where the connection ends before it begins."""
        limits = self._limits
        async with asyncio.timeout(limits.idle_seconds):
            first = await reader.read(1)
        if not first:
            return None
        async with asyncio.timeout(limits.frame_seconds):
            begun = first + await reader.readexactly(_LENGTH_BYTES - 1)
            length = int.from_bytes(begun, "big", signed=True)
            if not 0 <= length <= limits.frame_bytes:
                raise MalformedFrameError(
                    f"a frame of {length} bytes, where {limits.frame_bytes} are the most"
                )
            return await reader.readexactly(length)


def new_streams() -> tuple[asyncio.StreamReader, asyncio.StreamReaderProtocol]:
    """A reader that holds little more than what is asked of it, and what feeds it."""
    reader = asyncio.StreamReader(limit=_BUFFERED_BYTES)
    return reader, asyncio.StreamReaderProtocol(reader)


# ---- Placements beside the event loop: a few at a time, each in a thread of its own.

Result = TypeVar("Result")


class PlacingThreads:
    """Runs at most ``at_once`` pieces of work; others wait their turn.

    A thread cannot be stopped. Who gives up waiting leaves it running, and its place stays
    taken until it ends, so that work that hangs cannot pile up. The threads are daemons: work
    that hangs does not keep the process from ending either.
    """

    def __init__(self, at_once: int) -> None:
        self._places = asyncio.Semaphore(at_once)

    async def run(self, work: Callable[[], Result]) -> Result:
        """What ``work`` returns, or the Exception that it raises."""
        await self._places.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def settle(settled: Callable[[], None]) -> None:
            self._places.release()
            if not done.done():
                settled()

        def body() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the loop
                raised = (
                    error
                    if isinstance(error, Exception)
                    else RuntimeError(f"it raised {type(error).__name__}")
                )
                outcome: Callable[[], None] = lambda: done.set_exception(raised)  # noqa: E731
            else:
                outcome = lambda: done.set_result(result)  # noqa: E731
            # The loop may be gone by now, and with it whoever asked.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, outcome)

        try:
            threading.Thread(target=body, name="rackward-placing", daemon=True).start()
        except RuntimeError:
            self._places.release()
            raise
        return await done


# ---- A log that peers cannot fill.

INTERVAL_SECONDS = 10.0


class SparingLog:
    """Lets one line of each kind through in ``interval`` seconds, and counts the others.

    ``kind`` is one of a few words of the caller's own, never anything that a peer chose.
    """

    def __init__(
        self,
        logger: logging.Logger,
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._interval = interval
        self._clock = clock
        self._silent_until: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def warn(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Log the text as a warning, with ``error``'s traceback, unless it is too soon."""
        now = self._clock()
        if now < self._silent_until.get(kind, now):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._silent_until[kind] = now + self._interval
        unsaid = self._unsaid.pop(kind, 0)
        more = f" ({unsaid} more like it were not logged)" if unsaid else ""
        self._logger.warning("%s%s", text, more, exc_info=_trace(error))


Trace = tuple[type[BaseException], BaseException, TracebackType | None]


def _trace(error: BaseException | None) -> Trace | None:
    return None if error is None else (type(error), error, error.__traceback__)


# ---- Who is let in, and who has to leave for it.
#
# Peers that hold connections and send nothing must not keep others out. Where all places are
# taken, the connection that has been in its phase for longest makes room: a peer that has a
# request sends it at once, and a whole one is never given up for another.

Answering = Callable[[str, bytes], Awaitable[bytes]]
"""From a peer's name and its request to the answer."""

_PAUSE_SECONDS = 0.2


class Reception:
    """Accepts connections at one listening socket and holds them.

    ``tally`` counts under the names of ServiceCounts.
    """

    def __init__(
        self,
        answering: Answering,
        limits: ServiceLimits,
        context: ssl.SSLContext | None,
        tally: Counter[str],
        log: SparingLog,
    ) -> None:
        self._answering = answering
        self._limits = limits
        self._context = context
        self._tally = tally
        self._log = log
        self._held: dict[Conversation, asyncio.Task[None]] = {}

    async def accept(self, listening: socket.socket) -> None:
        """Let peers in, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, name = await loop.sock_accept(listening)
            except OSError as error:
                # No file descriptor is left, say: it passes as connections end.
                self._log.warn("accept", f"no connection can be accepted: {error}")
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._receive(connected, str(address_of(name)))
            # With more peers at the door, accepting alone would never let others have a turn.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End what waits at once, and what is under way when it is done or its time is up."""
        for conversation, task in self._held.items():
            conversation.ending = True
            if conversation.phase in (Phase.ARRIVED, Phase.WAITING):
                task.cancel()
        tasks = set(self._held.values())
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._limits.closing_seconds)
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            # Transports that were broken off say goodbye in the loop's next turn.
            await asyncio.sleep(0)

    def _receive(self, connected: socket.socket, peer: str) -> None:
        self._tally["connections"] += 1
        if len(self._held) >= self._limits.connections and not self._displace():
            self._tally["refused_connections"] += 1
            self._log.warn("full", f"no place for {peer}: all others are being answered")
            connected.close()
            return
        conversation = Conversation(peer, self._limits)

        def ended(_: asyncio.Task[None]) -> None:
            self._held.pop(conversation, None)
            self._tally["open_connections"] -= 1
            if conversation.phase is Phase.ARRIVED:
                # Broken off before it was anybody's to close.
                connected.close()

        task = asyncio.create_task(self._serve(conversation, connected))
        self._held[conversation] = task
        self._tally["open_connections"] += 1
        task.add_done_callback(ended)

    def _displace(self) -> bool:
        """Break off the connection that has been in its phase for longest, if there is one."""
        others = [each for each in self._held if each.phase is not Phase.PLACING]
        if not others:
            return False
        longest = min(others, key=lambda each: each.since)
        self._held.pop(longest).cancel()
        self._tally["displaced_connections"] += 1
        self._log.warn("displaced", f"{longest.peer} was displaced: all connections are taken")
        return True

    async def _serve(self, conversation: Conversation, connected: socket.socket) -> None:
        conversation.begin(Phase.WAITING)
        reader, protocol = new_streams()
        peer = conversation.peer
        loop = asyncio.get_running_loop()
        secured = self._context is not None
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                connected,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake_seconds if secured else None,
                ssl_shutdown_timeout=self._limits.closing_seconds if secured else None,
            )
        except OSError as error:
            self._tally["refused_handshakes"] += 1
            self._log.warn("handshake", f"{peer} does not get through TLS: {_reason(error)}")
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await conversation.hold(reader, writer, lambda sent: self._answering(peer, sent))
        except TimeoutError:
            self._tally["slow_connections"] += 1
            self._log.warn("slow", f"{peer} took too long, and was hung up on")
        except MalformedFrameError as error:
            self._tally["refused_frames"] += 1
            self._log.warn("malformed", f"{peer} was hung up on: {error}")
        except (OSError, EOFError):
            # The peer is gone.
            pass
        except Exception as error:  # noqa: BLE001 - one connection's trouble is not the service's
            self._log.warn("unexpected", f"{peer} was hung up on", error)
        finally:
            transport.abort()


def _reason(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(reason).replace("_", " ").lower()


# ---- What a placement service has done so far, for metrics.


@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """A moment's figures. All but ``open_connections`` only ever grow.

    ``connections``: accepted. ``displaced_connections``: closed while they waited, to make room.
    ``refused_connections``: closed at once, for all others were being answered.
    ``refused_handshakes``: without TLS, or without a certificate that is trusted.
    ``refused_frames``: too long, malformed, or a request that is not served.
    ``slow_connections``: closed for sending nothing, or a frame or its answer, for too long.
    ``requests``: answered, ApiVersions included; ``placements``: of these, those that were made;
    ``failed_placements``: those that were answered with an error.
    """

    open_connections: int = 0
    connections: int = 0
    displaced_connections: int = 0
    refused_connections: int = 0
    refused_handshakes: int = 0
    refused_frames: int = 0
    slow_connections: int = 0
    requests: int = 0
    placements: int = 0
    failed_placements: int = 0


_logger = logging.getLogger("rackward.placement_service")


class PlacementService:
    """Answers questions for placements with what ``placing`` says.

    ``placing`` is called in threads, as many at a time as the limits allow, and may raise: a
    RackwardError is told to the client as it is, and of anything else only its kind.
    """

    def __init__(self, placing: Placing, limits: ServiceLimits | None = None) -> None:
        self._placing = placing
        self._limits = limits or ServiceLimits()
        self._tally: Counter[str] = Counter()
        self._log = SparingLog(_logger)

    @property
    def counts(self) -> ServiceCounts:
        """What was done so far."""
        return ServiceCounts(**self._tally)

    @asynccontextmanager
    async def listening(
        self, host: str = LOOPBACK, port: int = 0, tls: MutualTls | None = None
    ) -> AsyncIterator[Address]:
        """Serve while the context lasts; gives the address that was bound.

        Leaving it lets what is under way finish, for ``closing_seconds`` at most. The limits
        count for each listener by itself. Raises InvalidOptionError for an address that is not
        loopback without ``tls``, ConnectionPropertyError for its files, and ListeningError.
        """
        context = None if tls is None else tls.server_context()
        threads = PlacingThreads(self._limits.placing_at_once)

        async def answering(peer: str, message: bytes) -> bytes:
            return await self._answer(threads, peer, message)

        with await listen(host, port, mutual_tls=tls is not None) as listening:
            reception = Reception(answering, self._limits, context, self._tally, self._log)
            accepting = asyncio.create_task(reception.accept(listening))
            address = address_of(listening.getsockname())
            _logger.info(
                "the placement service listens at %s, %s",
                address,
                "without TLS" if tls is None else "with mutual TLS",
            )
            try:
                yield address
            finally:
                accepting.cancel()
                await asyncio.wait([accepting])
                # At once, so that nobody else waits at the door while others finish.
                listening.close()
                await reception.close()

    async def _answer(self, threads: PlacingThreads, peer: str, message: bytes) -> bytes:
        request = read_request(message)
        if isinstance(request, Ready):
            self._tally["requests"] += 1
            return request.answer
        answered = await self._placed(threads, request)
        self._tally["requests"] += 1
        if answered.problem is None:
            self._tally["placements"] += 1
        else:
            self._tally["failed_placements"] += 1
            text = f"{peer} was refused a placement: {answered.problem}"
            self._log.warn("refused", text, answered.unexpected)
        return answered.answer

    async def _placed(self, threads: PlacingThreads, request: Asked) -> Answered:
        allowed = min(request.timeout_seconds, self._limits.placing_seconds)
        if not allowed:
            return request.timed_out(allowed)
        try:
            async with asyncio.timeout(allowed):
                return await threads.run(lambda: request.answer(self._placing, self._limits))
        except TimeoutError:
            return request.timed_out(allowed)
        except RuntimeError as error:
            # No thread could be had, or whoever decides asked the process to end.
            return request.failed(error)
