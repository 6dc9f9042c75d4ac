"""One connection: requests in, one after the other, and an answer to each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto

from rackward.placement_service.codec import frame
from rackward.placement_service.errors import MalformedFrameError
from rackward.placement_service.limits import ServiceLimits

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
