"""A placement service for a test, and what a client of plain bytes needs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any
from unittest import mock

from placement_core import ReplicaLists
from rackward.placement_service import (
    Address,
    MutualTls,
    PlacementHandler,
    PlacementRequest,
    PlacementService,
    ServiceMetrics,
    ServiceThread,
    server,
)
from rackward.placement_service.messages import CreateReplicaPlacementRequest, encode, frame
from tests.support.waiting import TEST_TIMEOUT


@dataclass(frozen=True)
class RunningService:
    """A service and its address."""

    service: PlacementService
    address: Address

    @property
    def metrics(self) -> ServiceMetrics:
        return self.service.metrics

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(self.address, TEST_TIMEOUT, (source, 0))

    def exchange(self, sent: bytes) -> bytes:
        """Send on a connection of its own, and return all that the service responds."""
        with self.connect() as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            return receive_all(connection)


def first_brokers(request: PlacementRequest) -> ReplicaLists:
    """Return the brokers 0, 1, ... for every partition."""
    return (tuple(range(request.replication_factor)),) * request.partitions


class Gate:
    """A handler that blocks until `open`; ``requests`` counts its calls."""

    def __init__(self) -> None:
        self.requests = threading.Semaphore(0)
        self._open = threading.Event()

    def handler(self, request: PlacementRequest) -> ReplicaLists:
        self.requests.release()
        assert self._open.wait(TEST_TIMEOUT), "the gate was never opened"
        return first_brokers(request)

    def wait_for_request(self) -> None:
        assert self.requests.acquire(timeout=TEST_TIMEOUT), "no placement was requested"

    def open(self) -> None:
        self._open.set()


@contextmanager
def run_service(
    handler: PlacementHandler = first_brokers, tls: MutualTls | None = None, **limits: Any
) -> Iterator[RunningService]:
    """Run a service on loopback within the context; assert that it ends.

    ``limits`` are constants of the service's module.
    """
    with mock.patch.multiple(server, None, **limits) if limits else nullcontext():
        service = PlacementService(handler)
        thread = ServiceThread(service, tls=tls)
        try:
            yield RunningService(service, thread.address)
        finally:
            thread.close()
            assert not thread.running, "the service does not end"


def request_frame(
    partitions: int,
    replication_factor: int,
    *,
    force_simple_placement: bool = False,
    broker_ids: Collection[int] = (),
    timeout_ms: int = 60_000,
    correlation_id: int = 7,
) -> bytes:
    """Return the frame of a placement request."""
    request = CreateReplicaPlacementRequest(
        version=0,
        num_partitions=partitions,
        replication_factor=replication_factor,
        force_simple_placement=force_simple_placement,
        node_id=list(broker_ids),
        timeout_ms=timeout_ms,
    )
    return frame(encode(request, correlation_id, "test"))


def receive_all(connection: socket.socket) -> bytes:
    """Return what arrives until the peer closes or resets the connection."""
    received = b""
    with suppress(ConnectionError):
        while chunk := connection.recv(65536):
            received += chunk
    return received
