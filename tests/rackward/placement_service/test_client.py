"""The client, against servers that are not placement services or send invalid responses."""

from __future__ import annotations

import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import ApiVersionsResponse

from placement_core import InvalidOptionError
from rackward.placement_service import (
    NotAPlacementServiceError,
    PlacementServiceError,
    ServiceRefusedError,
    ServiceUnreachableError,
    create_replica_placement,
)
from rackward.placement_service.messages import (
    CreateReplicaPlacementResponse,
    api_versions_response,
    encode,
    frame,
)
from tests.support.placement_server import run_service
from tests.support.waiting import TEST_TIMEOUT

VERSIONS = frame(encode(api_versions_response(0), 1))
ROWS = ((0, (1, 2)), (1, (2, 1)))


@contextmanager
def serve(*responses: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a server that sends one response per request and then closes the
    connection, and the list of requests that it receives."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TEST_TIMEOUT)

        def run() -> None:
            with suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    peer.settimeout(TEST_TIMEOUT)
                    for each in responses:
                        received.append(peer.recv(65536))
                        peer.sendall(each)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
        thread.join(TEST_TIMEOUT)
        assert not thread.is_alive()


def placement(
    rows: Sequence[tuple[int, Sequence[int]]] = (),
    error_code: int = 0,
    error_message: str | None = None,
    *,
    correlation_id: int = 2,
) -> bytes:
    """Return the frame of a placement response."""
    response = CreateReplicaPlacementResponse(
        version=0,
        replica_placement=list(rows),
        error_code=error_code,
        error_message=error_message,
    )
    return frame(encode(response, correlation_id))


def versions(*ranges: tuple[int, int, int], error: int = 0) -> bytes:
    """Return the frame of an ApiVersions response: key, first and last version."""
    response = ApiVersionsResponse(version=0, error_code=error, api_keys=list(ranges))
    return frame(encode(response, 1))


def request(address: str, **options: Any) -> Any:
    return create_replica_placement(address, 2, 2, **options)


def test_rows_in_any_order() -> None:
    with serve(VERSIONS, placement(ROWS[::-1])) as (address, received):
        assert request(address, timeout=20.0) == ((1, 2), (2, 1))
    assert received[0].hex() == "0000001200120000000000010008" + b"rackward".hex()
    assert received[1].hex().startswith("0000002000440000000000020008")
    # The service's timeout is shorter than the client's, so that its error arrives.
    timeout_ms = struct.unpack(">i", received[1][-5:-1])[0]
    assert 0 < timeout_ms <= 18_000


def test_placeholders_are_accepted() -> None:
    rows = ((0, (1, -1)), (1, (2, -1)))
    with serve(VERSIONS, placement(rows)) as (address, _):
        assert request(address, broker_ids=[1, 2]) == ((1, -1), (2, -1))


ONCE_EACH = "does not have 2 partitions once each"


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (placement(ROWS[:1]), ONCE_EACH),
        (placement((*ROWS, (2, (1, 2)))), ONCE_EACH),
        (placement((ROWS[0], ROWS[0])), ONCE_EACH),
        (placement(((0, (1, 2)), (2, (1, 2)))), ONCE_EACH),
        (placement(((-1, (1, 2)), (0, (1, 2)))), ONCE_EACH),
        (placement(), ONCE_EACH),
        (placement(((0, (1, 2)), (1, (1,)))), r"replicas \[1\] for partition 1"),
        (placement(((0, (1, 2)), (1, (1, 2, 3)))), r"replicas \[1, 2, 3\] for partition 1"),
        (placement(((0, (1, 1)), (1, (1, 2)))), r"replicas \[1, 1\] for partition 0"),
        (placement(((0, (1, 2)), (1, (1, 3)))), "partition 1 that was not in broker_ids"),
        # The array of partitions is null, and those of replicas are.
        (frame(bytes.fromhex("00000002 00 00 00")), ONCE_EACH),
        (frame(bytes.fromhex("00000002 00 03 00000000 00 00 00000001 00 00 00")), r"replicas \[\]"),
        (placement(ROWS, correlation_id=3), "to another request"),
    ],
)
def test_a_response_that_does_not_fit_the_request_is_refused(response: bytes, message: str) -> None:
    with (
        serve(VERSIONS, response) as (address, _),
        pytest.raises(NotAPlacementServiceError, match=message),
    ):
        request(address, broker_ids=[1, 2])


BROKER = ((0, 0, 11), (3, 0, 13), (18, 0, 4), (68, 0, 1))


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (versions(*BROKER), "a broker, probably"),
        (versions((18, 0, 4)), "a broker, probably"),
        (versions(error=35), "a broker, probably"),
        (versions((18, 0, 4), (68, 1, 2)), "versions 1 to 2"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a placement service: check the port"),
        (b"\x15\x03\x03\0\x02\x02\x28", "requires TLS"),
        (b"\xff\xff\xff\xff", "is not a placement service: check the port"),
        (b"\x7f\xff\xff\xff" + bytes(100), "is not a placement service: check the port"),
        (b"\0\1\0\1" + bytes(100), "is not a placement service: check the port"),
        (frame(b""), "is not a placement service of this version"),
        (VERSIONS[:-1], "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_other_servers_get_no_placement_request(response: bytes, message: str) -> None:
    with (
        serve(response) as (address, received),
        pytest.raises(PlacementServiceError, match=message),
    ):
        request(address)
    # Key 68 is that of another request in a broker, so only ApiVersions may be sent.
    assert [each[4:6].hex() for each in received] == ["0012"]


def test_control_characters_in_an_error_are_replaced() -> None:
    message = "no\nroom \x1b[31m\u202e" + "x" * 5000
    with (
        serve(VERSIONS, placement((), 39, message)) as (address, _),
        pytest.raises(ServiceRefusedError) as refused,
    ):
        request(address)
    text = str(refused.value)
    assert refused.value.code == 39
    assert text.startswith(f"the placement service at {address}: no room ?[31m?xxx")
    assert text.endswith("x (INVALID_REPLICA_ASSIGNMENT)")
    assert len(text) < 1200


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (placement((), 7), r"it gives no reason \(REQUEST_TIMED_OUT\)"),
        (placement(ROWS, 1234, "unknown"), r"unknown \(error code 1234\)"),
    ],
)
def test_errors_without_a_message_or_with_an_unknown_code(response: bytes, message: str) -> None:
    with (
        serve(VERSIONS, response) as (address, _),
        pytest.raises(ServiceRefusedError, match=message),
    ):
        request(address)


def test_unknown_tagged_fields_are_skipped() -> None:
    known = placement(ROWS)[4:]
    # Tag 2 of 5 bytes, and tag 900 of none.
    more = frame(known[:-1] + b"\2" + b"\2\5later" + b"\x84\7\0")
    with serve(VERSIONS, more) as (address, _):
        assert request(address) == ((1, 2), (2, 1))


def test_the_timeout_covers_a_slow_response() -> None:
    closed = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            with suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    peer.sendall(struct.pack(">i", 60_000))
                    while not closed.wait(0.02):
                        peer.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(ServiceUnreachableError, match=r"did not respond within 0\.3 s"):
            request(f"127.0.0.1:{listener.getsockname()[1]}", timeout=0.3)
        closed.set()
        thread.join(TEST_TIMEOUT)


def test_the_timeout_covers_a_server_that_does_not_respond() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        # The operating system accepts the connection.
        with pytest.raises(ServiceUnreachableError, match=r"did not respond within 0\.2 s"):
            request(address, timeout=0.2)


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=60).map(frame) | st.binary(max_size=60), max_size=2))
def test_any_bytes_of_a_server_raise_placement_service_error(chunks: list[bytes]) -> None:
    # Sent at once: the client waits for the rest of an incomplete response.
    together = b"".join(chunks)
    for responses in ([together], [VERSIONS, together]):
        with serve(*responses) as (address, _), pytest.raises(PlacementServiceError) as error:
            request(address, timeout=TEST_TIMEOUT)
        assert "\n" not in str(error.value)


def test_no_memory_is_allocated_for_a_claimed_length() -> None:
    claimed = struct.pack(">i", 200_000_000)
    with serve(VERSIONS, claimed) as (address, _):
        tracemalloc.start()
        try:
            with pytest.raises(NotAPlacementServiceError):
                create_replica_placement(address, 10_000_000, 1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 3_000_000


def test_an_address_without_a_server() -> None:
    with socket.socket() as bound:
        # Bound without listening, so that no other process takes the port.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(
            ServiceUnreachableError, match=f"connection refused by 127.0.0.1:{port}"
        ):
            request(f"127.0.0.1:{port}")
    with pytest.raises(ServiceUnreachableError, match=r"'no\.such\.host\.invalid' is not"):
        request("no.such.host.invalid:9192")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: create_replica_placement("h:1", 0, 1), "num_partitions is 0"),
        (lambda: create_replica_placement("h:1", 1 << 31, 1), "num_partitions is 2147483648"),
        (lambda: create_replica_placement("h:1", 1, 1 << 15), "replication_factor is 32768"),
        (lambda: create_replica_placement("h:1", 1, 1, broker_ids=[0, -1]), "broker_ids has -1"),
        (lambda: create_replica_placement("h:1", 1, 1, timeout=0), "timeout is 0"),
        (lambda: create_replica_placement("h:1,i:1", 1, 1), "give one host:port"),
        (lambda: create_replica_placement("h", 1, 1), "'h' is not host:port"),
        (lambda: create_replica_placement("", 1, 1), "no server is given"),
    ],
)
def test_invalid_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((InvalidOptionError, ValueError), match=message):
        call()


def test_the_address_may_have_a_host_name() -> None:
    with run_service() as service:
        assert request(f"localhost:{service.address.port}") == ((0, 1), (0, 1))
