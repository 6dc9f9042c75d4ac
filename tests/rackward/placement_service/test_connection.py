"""One connection, without a service around it."""

from __future__ import annotations

import asyncio
import socket

from rackward.placement_service import ServiceLimits
from rackward.placement_service.protocol import frame
from rackward.placement_service.server import Conversation, Phase, new_streams
from tests.support.waiting import PATIENCE

LARGE = bytes(40_000)
"""Less than asyncio's buffer holds before it makes a writer wait, more than these sockets do."""


def at(conversation: Conversation) -> Phase:
    """Its phase, which changes while others have their turn."""
    return conversation.phase


async def one_answer() -> None:
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        each.setblocking(False)
    loop = asyncio.get_running_loop()
    reader, protocol = new_streams()
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, ours)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    conversation = Conversation("a test", ServiceLimits(answer_seconds=PATIENCE))
    asked = asyncio.Event()

    async def answer(message: bytes) -> bytes:
        assert message == b"?"
        assert at(conversation) is Phase.PLACING
        asked.set()
        return LARGE

    assert at(conversation) is Phase.ARRIVED
    holding = asyncio.create_task(conversation.hold(reader, writer, answer))
    try:
        with theirs:
            await loop.sock_sendall(theirs, frame(b"?"))
            await asked.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            # Nobody has read it: it is not sent, and its time runs.
            assert at(conversation) is Phase.SENDING
            received = b""
            while len(received) < 4 + len(LARGE):
                received += await loop.sock_recv(theirs, 65536)
            assert received == frame(LARGE)
            while at(conversation) is not Phase.WAITING:
                await asyncio.sleep(0)
        await holding
    finally:
        transport.abort()


def test_an_answer_is_sent_when_it_was_taken() -> None:
    asyncio.run(asyncio.wait_for(one_answer(), PATIENCE))
