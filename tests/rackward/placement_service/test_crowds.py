"""Peers that hold connections, send slowly or ask for too much: others are served meanwhile."""

from __future__ import annotations

import resource
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from placement_core import InvalidOptionError, ReplicaLists
from rackward.placement_service import (
    PlacementQuestion,
    ServiceLimits,
    ServiceRefusedError,
    create_replica_placement,
)
from rackward.placement_service.protocol import (
    API_VERSIONS,
    ErrorCode,
    PlacementRequest,
    RequestHeader,
    frame,
)
from tests.support.placement_server import (
    Gate,
    Running,
    eventually,
    everything,
    framed_request,
    in_turn,
    running,
)
from tests.support.waiting import PATIENCE

CROWD = 1000


def is_served(served: Running) -> bool:
    return create_replica_placement(str(served.address), 2, 2) == ((0, 1), (0, 1))


@contextmanager
def file_descriptors(wanted: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= wanted:
        yield
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} file descriptors, and {hard} are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_silent_connections() -> None:
    limits = ServiceLimits(connections=64)
    with file_descriptors(CROWD + 500), running(limits=limits) as served, ExitStack() as crowd:
        for number in range(CROWD):
            crowd.enter_context(served.connect())
            if number % 100 == 0:
                assert is_served(served)
        assert is_served(served)
        eventually(
            "all of the crowd accepted", lambda: served.service.counts.connections >= CROWD + 11
        )
        eventually(
            "the displaced ones gone",
            lambda: served.service.counts.open_connections <= limits.connections,
        )
        counts = served.service.counts
    assert counts.displaced_connections >= CROWD - limits.connections
    assert counts.refused_connections == 0
    assert counts.placements == 11


def test_half_a_frame_from_a_thousand_connections_holds_little_memory() -> None:
    limits = ServiceLimits(connections=16)
    half = frame(bytes(limits.frame_bytes))[: limits.frame_bytes]
    with file_descriptors(CROWD + 500), running(limits=limits) as served, ExitStack() as crowd:
        is_served(served)
        tracemalloc.start()
        try:
            for _ in range(CROWD):
                connection = crowd.enter_context(served.connect())
                # It may have been displaced already.
                with suppress(ConnectionError):
                    connection.sendall(half)
            assert is_served(served)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    # Each frame once in the buffer, which grows by halves, and once as it is read; beside it
    # the test's own sockets. All frames at once would be 64 MB.
    assert peak < 16_000_000


def test_a_client_that_sends_a_byte_at_a_time() -> None:
    limits = ServiceLimits(frame_seconds=0.3)
    sent = framed_request(PlacementRequest(1, 1, node_ids=tuple(range(10_000))))
    hung_up = threading.Event()

    def drip(connection: socket.socket) -> None:
        with suppress(ConnectionError):
            for byte in sent:
                connection.sendall(bytes((byte,)))
                time.sleep(0.005)
            return
        hung_up.set()

    with running(limits=limits) as served, served.connect() as slow:
        dripping = threading.Thread(target=drip, args=(slow,), daemon=True)
        dripping.start()
        while not hung_up.is_set():
            assert is_served(served)
            assert dripping.is_alive() or hung_up.wait(1), "the slow client was never hung up on"
        dripping.join(PATIENCE)
        assert served.service.counts.slow_connections == 1


def test_a_silent_connection_is_hung_up_on() -> None:
    with running(limits=ServiceLimits(idle_seconds=0.1)) as served, served.connect() as silent:
        assert everything(silent) == b""
        assert served.service.counts.slow_connections == 1


def test_a_client_that_does_not_take_its_answers() -> None:
    limits = ServiceLimits(answer_seconds=0.2)
    large = framed_request(PlacementRequest(10_000, 5))
    with running(limits=limits) as served, served.connect() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        def ask() -> None:
            with suppress(OSError):
                while True:
                    deaf.sendall(large)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        eventually("hung up on", lambda: served.service.counts.slow_connections == 1)
        asking.join(PATIENCE)
        assert is_served(served)


@pytest.mark.parametrize("length", [64 * 1024 + 1, (1 << 31) - 1, -1])
def test_an_oversized_frame(length: int) -> None:
    with running() as served, served.connect() as large:
        large.sendall(length.to_bytes(4, "big", signed=True) + bytes(100))
        assert everything(large) == b""
        assert is_served(served)
        assert served.service.counts.refused_frames == 1


def test_the_largest_frame_is_taken() -> None:
    ids = tuple(range(3))
    sent = framed_request(PlacementRequest(1, 3, node_ids=ids))
    limits = ServiceLimits(frame_bytes=len(sent) - 4)
    with running(limits=limits) as served, served.connect() as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).hex().endswith("0000000000000001000000020000")


def test_where_all_are_being_answered_one_more_is_turned_away(gate: Gate) -> None:
    limits = ServiceLimits(connections=2)
    asked = framed_request(PlacementRequest(1, 1))
    with running(gate.placing, limits) as served, ExitStack() as stack:
        busy = [stack.enter_context(served.connect()) for _ in range(2)]
        for connection in busy:
            connection.sendall(asked)
            gate.await_one()
        with served.connect() as late:
            assert everything(late) == b""
        assert served.service.counts.refused_connections == 1
        gate.open()
        for connection in busy:
            connection.shutdown(socket.SHUT_WR)
            assert everything(connection).hex().endswith("02000000000000")
        assert is_served(served)


def test_only_so_many_placements_at_once(gate: Gate) -> None:
    limits = ServiceLimits(placing_at_once=2)
    asked = framed_request(PlacementRequest(1, 1))
    with running(gate.placing, limits) as served, ExitStack() as stack:
        connections = [stack.enter_context(served.connect()) for _ in range(5)]
        for connection in connections:
            connection.sendall(asked)
            connection.shutdown(socket.SHUT_WR)
        for _ in range(2):
            gate.await_one()
        # What needs no placement does not wait behind them.
        with served.connect() as other:
            other.sendall(frame(RequestHeader(API_VERSIONS, 0, 1).encode()))
            other.shutdown(socket.SHUT_WR)
            assert len(everything(other)) == 26
        assert not gate.inside.acquire(blocking=False)
        gate.open()
        assert all(everything(each).endswith(b"\x02\0\0\0\0\0\0") for each in connections)


def test_a_placement_that_takes_longer_than_the_request_allows(gate: Gate) -> None:
    limits = ServiceLimits(placing_at_once=1)
    with running(gate.placing, limits) as served:
        for _ in range(2):
            # The second waits for the first one's place, in vain too.
            with served.connect() as connection:
                connection.sendall(framed_request(PlacementRequest(1, 1, timeout_ms=50)))
                connection.shutdown(socket.SHUT_WR)
                assert b"no placement within 0.05 s" in everything(connection)
        gate.open()
        assert is_served(served)
        assert served.service.counts.failed_placements == 2


def test_a_placement_that_takes_longer_than_the_service_allows(gate: Gate) -> None:
    with (
        running(gate.placing, ServiceLimits(placing_seconds=0.05)) as served,
        pytest.raises(ServiceRefusedError, match=r"no placement within 0\.05 s") as refused,
    ):
        create_replica_placement(str(served.address), 1, 1)
    assert refused.value.code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 31)])
def test_a_request_that_allows_no_time(timeout_ms: int) -> None:
    with running() as served, served.connect() as connection:
        connection.sendall(framed_request(PlacementRequest(1, 1, timeout_ms=timeout_ms)))
        connection.shutdown(socket.SHUT_WR)
        assert b"no placement within 0 s" in everything(connection)


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "told"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "0 partitions: ask for 1 to 10"),
        (-5, 1, ErrorCode.INVALID_PARTITIONS, "-5 partitions: ask for 1 to 10"),
        (11, 1, ErrorCode.INVALID_PARTITIONS, "11 partitions: ask for 1 to 10"),
        ((1 << 31) - 1, 32767, ErrorCode.INVALID_PARTITIONS, "ask for 1 to 10"),
        (10, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "ask for 1 to 2"),
        (10, 3, ErrorCode.INVALID_REPLICATION_FACTOR, "factor 3 for 10 partitions: ask for 1 to 2"),
        (1, -1, ErrorCode.INVALID_REPLICATION_FACTOR, "ask for 1 to 20"),
    ],
)
def test_what_may_be_asked_for_is_bounded(
    partitions: int, factor: int, code: ErrorCode, told: str
) -> None:
    asked: list[PlacementQuestion] = []

    def placing(question: PlacementQuestion) -> ReplicaLists:
        asked.append(question)
        return in_turn(question)

    limits = ServiceLimits(partitions=10, replicas=20)
    with running(placing, limits) as served, served.connect() as connection:
        connection.sendall(framed_request(PlacementRequest(partitions, factor)))
        connection.shutdown(socket.SHUT_WR)
        answered = everything(connection)
    assert code.to_bytes(2, "big", signed=True) in answered
    assert told.encode() in answered
    assert asked == []


@pytest.mark.parametrize("name", ["frame_bytes", "connections", "idle_seconds", "placing_at_once"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidOptionError, match=name):
        ServiceLimits(**{name: 0})
