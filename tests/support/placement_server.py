"""A placement service that runs beside a test, and a connection of plain bytes to it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from placement_core import ReplicaLists
from rackward.placement_service import (
    Address,
    MutualTls,
    PlacementQuestion,
    PlacementService,
    ServiceLimits,
)
from rackward.placement_service.handler import Placing
from rackward.placement_service.protocol import (
    CREATE_REPLICA_PLACEMENT,
    PlacementRequest,
    RequestHeader,
    frame,
)
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class Running:
    service: PlacementService
    address: Address

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE)


def in_turn(question: PlacementQuestion) -> ReplicaLists:
    """Brokers from 0 on, every partition the same."""
    return (tuple(range(question.replication_factor)),) * question.partitions


class Gate:
    """Placements wait here until it is opened; ``inside`` counts those that came so far."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self._open = threading.Event()

    def placing(self, question: PlacementQuestion) -> ReplicaLists:
        self.inside.release()
        assert self._open.wait(PATIENCE), "the gate was never opened"
        return in_turn(question)

    def await_one(self) -> None:
        assert self.inside.acquire(timeout=PATIENCE), "no placement was asked for"

    def open(self) -> None:
        self._open.set()


def eventually(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


@contextmanager
def running(
    placing: Placing = in_turn,
    limits: ServiceLimits | None = None,
    tls: MutualTls | None = None,
) -> Iterator[Running]:
    """Listens on loopback, in a thread with a loop of its own, while the context lasts."""
    service = PlacementService(placing, limits)
    started: Future[tuple[Address, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stopping = asyncio.Event()
        async with service.listening(tls=tls) as address:
            started.set_result((address, asyncio.get_running_loop(), stopping))
            await stopping.wait()

    def body() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=body, name="placement-service", daemon=True)
    thread.start()
    address, loop, stopping = started.result(PATIENCE)
    try:
        yield Running(service, address)
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the service does not end"


def framed_request(request: PlacementRequest, correlation_id: int = 7) -> bytes:
    header = RequestHeader(CREATE_REPLICA_PLACEMENT, 0, correlation_id, "test")
    return frame(header.encode() + request.encode())


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends the connection, politely or not."""
    received = b""
    with suppress(ConnectionError):
        while more := connection.recv(65536):
            received += more
    return received
