"""Limits: idle or slow clients and large requests do not prevent the service of others."""

from __future__ import annotations

import resource
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from placement_core import ReplicaLists
from rackward.placement_service import (
    PlacementRequest,
    ServiceRefusedError,
    create_replica_placement,
    server,
)
from rackward.placement_service.messages import ErrorCode, encode, frame
from tests.support.placement_server import (
    Gate,
    RunningService,
    receive_all,
    request_frame,
    run_service,
)
from tests.support.waiting import TEST_TIMEOUT, wait_until

CONNECTIONS = 1000


def can_place(service: RunningService) -> bool:
    return create_replica_placement(str(service.address), 2, 2) == ((0, 1), (0, 1))


@contextmanager
def file_descriptors(count: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        yield
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"needs {count} file descriptors; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_peer_with_a_thousand_connections_keeps_nobody_out() -> None:
    with (
        file_descriptors(CONNECTIONS + 500),
        run_service(MAX_CONNECTIONS=64) as service,
        ExitStack() as stack,
    ):
        for _ in range(CONNECTIONS):
            stack.enter_context(service.connect("127.0.0.2"))
        assert can_place(service)
        metrics = service.metrics
    assert metrics.refused_connections == CONNECTIONS - server.MAX_CONNECTIONS_PER_PEER
    assert metrics.placements == 1


def test_memory_for_a_thousand_incomplete_frames_is_bounded() -> None:
    half = frame(bytes(server.MAX_FRAME_BYTES))[: server.MAX_FRAME_BYTES]
    with (
        file_descriptors(CONNECTIONS + 500),
        run_service(MAX_CONNECTIONS_PER_PEER=16) as service,
        ExitStack() as stack,
    ):
        can_place(service)
        tracemalloc.start()
        try:
            for _ in range(CONNECTIONS):
                connection = stack.enter_context(service.connect("127.0.0.2"))
                # Most are refused.
                with suppress(ConnectionError):
                    connection.sendall(half)
            assert can_place(service)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # Each open connection has its frame twice: in the buffer and as it is read. All frames at once
    # would be 16 MB.
    assert peak < 6_000_000


def test_a_client_that_sends_one_byte_at_a_time_is_disconnected() -> None:
    sent = request_frame(1, 1, broker_ids=range(4_000))
    closed = threading.Event()

    def drip(connection: socket.socket) -> None:
        with suppress(ConnectionError):
            for byte in sent:
                connection.sendall(bytes((byte,)))
                time.sleep(0.005)
            return
        closed.set()

    with run_service(STEP_SECONDS=0.3) as service, service.connect() as slow:
        dripping = threading.Thread(target=drip, args=(slow,), daemon=True)
        dripping.start()
        while not closed.is_set():
            assert can_place(service)
            assert dripping.is_alive() or closed.wait(1), "the slow client was never disconnected"
        dripping.join(TEST_TIMEOUT)
        assert service.metrics.slow_connections == 1


def test_a_connection_without_a_request_is_closed() -> None:
    with run_service(STEP_SECONDS=0.1) as service, service.connect() as idle:
        assert receive_all(idle) == b""
        assert service.metrics.slow_connections == 1


def test_a_client_that_receives_nothing_is_disconnected() -> None:
    large = request_frame(10_000, 5)
    with run_service(STEP_SECONDS=0.2) as service, service.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        def send() -> None:
            with suppress(OSError):
                while True:
                    client.sendall(large)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        wait_until(
            lambda: service.metrics.slow_connections == 1, TEST_TIMEOUT, "the connection is closed"
        )
        sending.join(TEST_TIMEOUT)
        assert can_place(service)


@pytest.mark.parametrize("length", [16 * 1024 + 1, (1 << 31) - 1, -1])
def test_an_oversized_frame(length: int) -> None:
    with run_service() as service, service.connect() as large:
        large.sendall(length.to_bytes(4, "big", signed=True) + bytes(100))
        assert receive_all(large) == b""
        assert can_place(service)
        assert service.metrics.invalid_frames == 1


def test_a_frame_of_the_maximum_size_is_accepted() -> None:
    sent = request_frame(1, 3, broker_ids=range(3))
    with run_service(MAX_FRAME_BYTES=len(sent) - 4) as service:
        assert service.exchange(sent).hex().endswith("0000000000000001000000020000")


def test_connections_beyond_the_limit_are_refused(gate: Gate) -> None:
    request = request_frame(1, 1)
    with run_service(gate.handler, MAX_CONNECTIONS=2) as service, ExitStack() as stack:
        busy = [stack.enter_context(service.connect()) for _ in range(2)]
        for connection in busy:
            connection.sendall(request)
            gate.wait_for_request()
        with service.connect() as late:
            assert receive_all(late) == b""
        assert service.metrics.refused_connections == 1
        gate.open()
        for connection in busy:
            connection.shutdown(socket.SHUT_WR)
            assert receive_all(connection).hex().endswith("02000000000000")
        assert can_place(service)


def test_concurrent_placements_are_limited(gate: Gate) -> None:
    request = request_frame(1, 1)
    with run_service(gate.handler) as service, ExitStack() as stack:
        connections = [stack.enter_context(service.connect()) for _ in range(5)]
        for connection in connections:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        for _ in range(2):
            gate.wait_for_request()
        # ApiVersions does not wait for placements.
        assert len(service.exchange(frame(encode(ApiVersionsRequest(version=0), 1)))) == 26
        assert not gate.requests.acquire(blocking=False)
        gate.open()
        assert all(receive_all(each).endswith(b"\x02\0\0\0\0\0\0") for each in connections)


def test_the_timeout_of_the_request(gate: Gate) -> None:
    with run_service(gate.handler, CONCURRENT_PLACEMENTS=1) as service:
        for _ in range(2):
            # The second request times out while it waits for the first one's thread.
            received = service.exchange(request_frame(1, 1, timeout_ms=50))
            assert b"no placement within 0.05 s" in received
        gate.open()
        assert can_place(service)
        assert service.metrics.failed_placements == 2


def test_the_timeout_of_the_service(gate: Gate) -> None:
    with (
        run_service(gate.handler, PLACEMENT_SECONDS=0.05) as service,
        pytest.raises(ServiceRefusedError, match=r"no placement within 0\.05 s") as refused,
    ):
        create_replica_placement(str(service.address), 1, 1)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 31)])
def test_a_timeout_of_zero_or_less(timeout_ms: int) -> None:
    with run_service() as service:
        received = service.exchange(request_frame(1, 1, timeout_ms=timeout_ms))
    assert b"no placement within 0 s" in received


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "message"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "0 partitions: request 1 to 10000"),
        (-5, 1, ErrorCode.INVALID_PARTITIONS, "-5 partitions: request 1 to 10000"),
        (10_001, 1, ErrorCode.INVALID_PARTITIONS, "10001 partitions: request 1 to 10000"),
        ((1 << 31) - 1, 32767, ErrorCode.INVALID_PARTITIONS, "request 1 to 10000"),
        (10_000, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "request 1 to 5"),
        (10_000, 6, ErrorCode.INVALID_REPLICATION_FACTOR, "6 for 10000 partitions: request 1 to 5"),
        (5_000, -1, ErrorCode.INVALID_REPLICATION_FACTOR, "request 1 to 10"),
    ],
)
def test_partitions_and_replicas_are_limited(
    partitions: int, factor: int, code: ErrorCode, message: str
) -> None:
    def handler(_: PlacementRequest) -> ReplicaLists:
        raise AssertionError("the handler was called")

    with run_service(handler) as service:
        response = service.exchange(request_frame(partitions, factor))
    assert code.to_bytes(2, "big", signed=True) in response
    assert message.encode() in response
