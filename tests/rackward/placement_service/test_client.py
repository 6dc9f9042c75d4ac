"""The client, held against services that are none, or lie."""

from __future__ import annotations

import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_core import InvalidOptionError
from rackward.placement_service import (
    NotAPlacementServiceError,
    PlacementServiceError,
    ServiceRefusedError,
    ServiceTlsError,
    ServiceUnreachableError,
    create_replica_placement,
)
from rackward.placement_service.protocol import (
    ApiRange,
    ApiVersionsResponse,
    PlacementResponse,
    answer_header,
    frame,
    tagged_fields,
)
from tests.support.placement_server import running
from tests.support.waiting import PATIENCE

VERSIONS = frame(answer_header(1, flexible=False) + ApiVersionsResponse().encode(0))
ROWS = ((0, (1, 2)), (1, (2, 1)))


@contextmanager
def saying(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """An address that says these things, one for each that is said to it, and then hangs up;
    with what it heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)

        def serve() -> None:
            with suppress(OSError):
                caller, _ = listening.accept()
                with caller:
                    caller.settimeout(PATIENCE)
                    for each in answers:
                        heard.append(caller.recv(65536))
                        caller.sendall(each)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", heard
        thread.join(PATIENCE)
        assert not thread.is_alive()


def placed(response: PlacementResponse, correlation_id: int = 2) -> bytes:
    return frame(answer_header(correlation_id, flexible=True) + response.encode())


def versions(*ranges: ApiRange, error: int = 0) -> bytes:
    return frame(answer_header(1, flexible=False) + ApiVersionsResponse(ranges, error).encode(0))


def ask(address: str, **options: Any) -> Any:
    return create_replica_placement(address, 2, 2, **options)


def test_rows_in_any_order() -> None:
    with saying(VERSIONS, placed(PlacementResponse(ROWS[::-1]))) as (address, heard):
        assert ask(address, timeout=20.0) == ((1, 2), (2, 1))
    assert heard[0].hex() == "0000001200120000000000010008" + b"rackward".hex()
    assert heard[1].hex().startswith("0000002000440000000000020008")
    # The service gives up before the client does, so that its answer arrives in time.
    timeout_ms = struct.unpack(">i", heard[1][-5:-1])[0]
    assert 0 < timeout_ms <= 18_000


def test_placeholders_of_missing_brokers_are_let_through() -> None:
    response = PlacementResponse(((0, (1, -1)), (1, (2, -1))))
    with saying(VERSIONS, placed(response)) as (address, _):
        assert ask(address, broker_ids=[1, 2]) == ((1, -1), (2, -1))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ROWS[:1], "it does not place 2 partitions"),
        ((*ROWS, (2, (1, 2))), "it does not place 2 partitions"),
        ((ROWS[0], ROWS[0]), "it does not place 2 partitions"),
        (((0, (1, 2)), (2, (1, 2))), "it does not place 2 partitions"),
        (((-1, (1, 2)), (0, (1, 2))), "it does not place 2 partitions"),
        (((0, (1, 2)), (1, (1,))), r"it gives partition 1 \[1\]"),
        (((0, (1, 2)), (1, (1, 2, 3))), r"it gives partition 1 \[1, 2, 3\]"),
        (((0, (1, 1)), (1, (1, 2))), r"it gives partition 0 \[1, 1\]"),
        (((0, (1, 2)), (1, (1, 3))), "it gives partition 1 a broker not asked for"),
        ((), "it does not place 2 partitions"),
    ],
)
def test_answers_that_are_no_answer(rows: Any, told: str) -> None:
    with (
        saying(VERSIONS, placed(PlacementResponse(rows))) as (address, _),
        pytest.raises(NotAPlacementServiceError, match=told),
    ):
        ask(address, broker_ids=[1, 2])


def test_an_answer_to_another_request() -> None:
    with (
        saying(VERSIONS, placed(PlacementResponse(ROWS), 3)) as (address, _),
        pytest.raises(NotAPlacementServiceError, match="to another request"),
    ):
        ask(address)


BROKER = (ApiRange(0, 0, 11), ApiRange(3, 0, 13), ApiRange(18, 0, 4), ApiRange(68, 0, 1))


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (versions(*BROKER), "a broker, it seems"),
        (versions(ApiRange(18, 0, 4)), "a broker, it seems"),
        (versions(error=35), "a broker, it seems"),
        (versions(ApiRange(18, 0, 4), ApiRange(68, 1, 2)), "versions 1 to 2"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a placement service: check the port"),
        (b"\x15\x03\x03\0\x02\x02\x28", "expects TLS"),
        (b"\xff\xff\xff\xff", "is not a placement service: check the port"),
        (b"\x7f\xff\xff\xff" + bytes(100), "is not a placement service: check the port"),
        (b"\0\1\0\1" + bytes(100), "is not a placement service: check the port"),
        (frame(b""), "is not a placement service of this version"),
        (VERSIONS[:-1], "hangs up on this client"),
        (b"", "hangs up on this client"),
    ],
)
def test_what_is_no_placement_service_is_not_asked_for_placements(
    answered: bytes, told: str
) -> None:
    with saying(answered) as (address, heard), pytest.raises(PlacementServiceError, match=told):
        ask(address)
    # Key 68 is another request's at a broker: none may get it.
    assert [each[4:6].hex() for each in heard] == ["0012"]


def test_an_error_is_told_without_what_a_terminal_would_obey() -> None:
    message = "no\nroom \x1b[31m\u202e" + "x" * 5000
    response = PlacementResponse(error_code=39, error_message=message)
    with (
        saying(VERSIONS, placed(response)) as (address, _),
        pytest.raises(ServiceRefusedError) as refused,
    ):
        ask(address)
    text = str(refused.value)
    assert refused.value.code == 39
    assert text.startswith(f"the placement service at {address}: no room ?[31m?xxx")
    assert text.endswith("x (INVALID_REPLICA_ASSIGNMENT)")
    assert len(text) < 1200


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (PlacementResponse(error_code=7), r"it does not say why \(REQUEST_TIMED_OUT\)"),
        (PlacementResponse(ROWS, 1234, "odd"), r"odd \(error code 1234\)"),
    ],
)
def test_an_error_may_be_a_code_alone(response: PlacementResponse, told: str) -> None:
    with (
        saying(VERSIONS, placed(response)) as (address, _),
        pytest.raises(ServiceRefusedError, match=told),
    ):
        ask(address)


def test_tagged_fields_that_it_does_not_know_are_passed_over() -> None:
    known = placed(PlacementResponse(ROWS))[4:]
    more = frame(known[:-1] + tagged_fields({2: b"later", 900: b""}))
    with saying(VERSIONS, more) as (address, _):
        assert ask(address) == ((1, 2), (2, 1))


def test_a_service_that_drips_is_given_up() -> None:
    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            with suppress(OSError):
                caller, _ = listening.accept()
                with caller:
                    caller.sendall(struct.pack(">i", 60_000))
                    while not gone.wait(0.02):
                        caller.sendall(b"x")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        with pytest.raises(ServiceUnreachableError, match=r"does not answer within 0\.3 s"):
            ask(f"127.0.0.1:{listening.getsockname()[1]}", timeout=0.3)
        gone.set()
        thread.join(PATIENCE)


def test_a_service_that_stops_in_the_middle_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        # The system accepts, and nobody answers.
        with pytest.raises(ServiceUnreachableError, match=r"does not answer within 0\.2 s"):
            ask(address, timeout=0.2)


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=60).map(frame) | st.binary(max_size=60), max_size=2))
def test_whatever_a_server_says_ends_in_one_error(answers: list[bytes]) -> None:
    # In one go: where it is not a whole answer, the client waits for more, and not to ask more.
    together = b"".join(answers)
    for said in ([together], [VERSIONS, together]):
        with saying(*said) as (address, _), pytest.raises(PlacementServiceError) as error:
            ask(address, timeout=PATIENCE)
        assert "\n" not in str(error.value)


def test_a_huge_answer_that_is_only_claimed_costs_nothing() -> None:
    claimed = struct.pack(">i", 200_000_000)
    with saying(VERSIONS, claimed) as (address, _):
        tracemalloc.start()
        try:
            with pytest.raises(NotAPlacementServiceError):
                create_replica_placement(address, 10_000_000, 1)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 3_000_000


def test_nobody_there() -> None:
    with socket.socket() as bound:
        # Bound and not listened to: nobody else takes the port meanwhile.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(ServiceUnreachableError, match=f"nothing listens at 127.0.0.1:{port}"):
            ask(f"127.0.0.1:{port}")
    with pytest.raises(ServiceUnreachableError, match=r"'no\.such\.host\.invalid' is not"):
        ask("no.such.host.invalid:9192")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: create_replica_placement("h:1", 0, 1), "num_partitions is 0"),
        (lambda: create_replica_placement("h:1", 1 << 31, 1), "num_partitions is 2147483648"),
        (lambda: create_replica_placement("h:1", 1, 1 << 15), "replication_factor is 32768"),
        (lambda: create_replica_placement("h:1", 1, 1, broker_ids=[0, -1]), "broker_ids has -1"),
        (lambda: create_replica_placement("h:1", 1, 1, timeout=0), "timeout is 0"),
        (lambda: create_replica_placement("h:1,i:1", 1, 1), "give one host:port"),
        (lambda: create_replica_placement("h", 1, 1), "not of the form host:port"),
        (lambda: create_replica_placement("", 1, 1), "names no server"),
    ],
)
def test_what_no_request_can_carry(call: Callable[[], Any], told: str) -> None:
    with pytest.raises((InvalidOptionError, ValueError), match=told):
        call()


def test_a_plain_client_is_told_of_tls() -> None:
    alert = b"\x15\x03\x03\0\x02\x02\x28"
    with saying(alert) as (address, _), pytest.raises(ServiceTlsError):
        ask(address)


def test_the_address_may_have_a_name() -> None:
    with running() as served:
        assert ask(f"localhost:{served.address.port}") == ((0, 1), (0, 1))
