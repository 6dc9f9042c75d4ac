"""Who is let in, and who has to leave for it.

Peers that hold connections and send nothing must not keep others out. Where all places are
taken, the connection that has been in its phase for longest makes room: a peer that has a
request sends it at once, and a whole one is never given up for another.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable

from rackward.placement_service.address import address_of
from rackward.placement_service.conversation import Conversation, Phase, new_streams
from rackward.placement_service.errors import MalformedFrameError
from rackward.placement_service.limits import ServiceLimits
from rackward.placement_service.sparing_log import SparingLog

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
