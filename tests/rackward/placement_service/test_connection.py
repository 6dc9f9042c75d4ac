"""One connection, without a service."""

from __future__ import annotations

import asyncio
import socket

from rackward.placement_service import Address, ServiceLimits
from rackward.placement_service.protocol import frame
from rackward.placement_service.server import Connection, ConnectionState, new_streams
from tests.support.waiting import TEST_TIMEOUT

LARGE = bytes(40_000)
"""Less than asyncio's default buffer for writing, and more than these sockets' buffers."""


def state_of(connection: Connection) -> ConnectionState:
    """Return the state; a function, because mypy does not expect that other tasks change it."""
    return connection.state


async def serve_one_request() -> None:
    server, client = socket.socketpair()
    for each in (server, client):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        each.setblocking(False)
    loop = asyncio.get_running_loop()
    reader, protocol = new_streams()
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, server)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    connection = Connection(Address("a test", 1), ServiceLimits(response_seconds=TEST_TIMEOUT))
    requested = asyncio.Event()

    async def respond(message: bytes) -> bytes:
        assert message == b"?"
        assert state_of(connection) is ConnectionState.PLACING
        requested.set()
        return LARGE

    assert state_of(connection) is ConnectionState.ACCEPTED
    serving = asyncio.create_task(connection.serve(reader, writer, respond))
    try:
        with client:
            await loop.sock_sendall(client, frame(b"?"))
            await requested.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            # The client has not received it, so the time limit for sending still applies.
            assert state_of(connection) is ConnectionState.SENDING
            received = b""
            while len(received) < 4 + len(LARGE):
                received += await loop.sock_recv(client, 65536)
            assert received == frame(LARGE)
            while state_of(connection) is not ConnectionState.WAITING:
                await asyncio.sleep(0)
        await serving
    finally:
        transport.abort()


def test_sending_lasts_until_the_client_has_received_the_response() -> None:
    asyncio.run(asyncio.wait_for(serve_one_request(), TEST_TIMEOUT))
