"""The bytes of requests and responses: those of the proposal's schema, and malformed ones."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import RackwardError
from placement_core.placers import RackAlternatingPlacer
from rackward.placement_service import (
    MalformedFrameError,
    PlacementHandler,
    PlacementRequest,
    create_replica_placement,
    place_replicas,
)
from rackward.placement_service.messages import (
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
    decode,
    frame,
)
from rackward.placement_service.server import MAX_FRAME_BYTES, handle, parse_request
from tests.support.placement import cluster
from tests.support.placement_server import (
    first_brokers,
    receive_all,
    request_frame,
    run_service,
)

KIP_36 = cluster(["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"])

REQUEST = bytes.fromhex(
    "0044"  # api key 68
    "0000"  # version 0
    "0000002a"  # correlation id 42
    "0003 6f7073"  # client id "ops"
    "00"  # no tagged fields: header version 2
    "00000002"  # NumPartitions 2
    "0003"  # ReplicationFactor 3
    "00"  # ForceSimplePlacement false
    "01"  # NodeId: 0 items, plus one
    "0000ea60"  # timeoutMs 60000
    "00"  # no tagged fields
)
RESPONSE = bytes.fromhex(
    "0000002a"  # correlation id 42
    "00"  # no tagged fields: header version 1
    "03"  # ReplicaPlacement: 2 items, plus one
    "00000000 04 00000000 00000003 00000001 00"  # partition 0 on 0, 3, 1
    "00000001 04 00000003 00000001 00000005 00"  # partition 1 on 3, 1, 5
    "00"  # no tagged fields
)

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int16s = st.integers(-(1 << 15), (1 << 15) - 1)
brokers = st.lists(int32s, max_size=200)


def respond(message: bytes, handler: PlacementHandler) -> bytes:
    """Return the response to a request, both without their lengths."""
    request = parse_request(message)
    return request if isinstance(request, bytes) else handle(request, handler).message


def place_kip_36(request: PlacementRequest) -> Any:
    return place_replicas(request, KIP_36, RackAlternatingPlacer(start_index=0))


def test_frames_of_the_proposal_on_a_socket() -> None:
    with run_service(place_kip_36) as service:
        received = service.exchange((len(REQUEST).to_bytes(4, "big") + REQUEST) * 2)
    assert received == (len(RESPONSE).to_bytes(4, "big") + RESPONSE) * 2


def test_every_field_of_a_request() -> None:
    requests: list[PlacementRequest] = []

    def handler(request: PlacementRequest) -> Any:
        requests.append(request)
        return first_brokers(request)

    full = bytes.fromhex(
        "0044 0000 00000001 ffff"  # client id null
        "01 05 02 abcd"  # header: the unknown tag 5 of 2 bytes
        "00000001 0002 01"
        "03 00000004 00000009"  # NodeId 4, 9
        "00000064"
        "01 00 00"  # tag 0 of 0 bytes
    )
    response = respond(full, handler)
    assert requests == [PlacementRequest(1, 2, True, frozenset({4, 9}))]
    assert response.hex() == "000000010002000000000300000000000000010000"


def test_null_node_ids_mean_all_brokers() -> None:
    null = REQUEST.replace(bytes.fromhex("01 0000ea60"), bytes.fromhex("00 0000ea60"))
    assert respond(null, place_kip_36) == RESPONSE


def test_an_error_is_sent_as_two_tagged_fields() -> None:
    def handler(_: PlacementRequest) -> Any:
        raise RackwardError("no\nröom")

    assert respond(REQUEST, handler) == bytes.fromhex(
        "0000002a 00"
        "01"  # no partitions
        "02"  # two tagged fields
        "00 02 ffff"  # tag 0: error code -1
        "01 09 09 6e6f2072c3b66f6d"  # tag 1: "no röom"
    )


def test_an_error_message_that_is_not_unicode() -> None:
    """Names of files may contain lone surrogates."""

    def handler(_: PlacementRequest) -> Any:
        raise RackwardError("file \udcff")

    assert respond(REQUEST, handler).endswith(b"file ?")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, "0000002a 0000 00000002 0012 0000 0004 0044 0000 0000"),
        (2, "0000002a 0000 00000002 0012 0000 0004 0044 0000 0000 00000000"),
        (3, "0000002a 0000 03 0012 0000 0004 00 0044 0000 0000 00 00000000 00"),
        (4, "0000002a 0000 03 0012 0000 0004 00 0044 0000 0000 00 00000000 00"),
        (5, "0000002a 0023 00000002 0012 0000 0004 0044 0000 0000"),
        (-1, "0000002a 0023 00000002 0012 0000 0004 0044 0000 0000"),
    ],
)
def test_api_versions(version: int, expected: str) -> None:
    """The response's header is of version 0; to an unknown version, so is the response."""
    body = {3: "00 02 61 02 62 00", 4: "00 02 61 02 62 00", 5: "ff ff ff"}.get(version, "")
    request = struct.pack(">hhih", 18, version, 42, 1) + b"x" + bytes.fromhex(body)
    assert respond(request, first_brokers) == bytes.fromhex(expected)


def test_the_largest_variable_length_integer() -> None:
    """The tag in the header is 2^32 - 1."""
    tagged = REQUEST.replace(b"ops\0", b"ops" + bytes.fromhex("01 ffffffff0f 00"))
    assert respond(tagged, place_kip_36) == RESPONSE


# ---- Malformed frames: the service closes their connection, and continues to serve others.


def decode_request(message: bytes) -> Any:
    return decode(CreateReplicaPlacementRequest, message, 0)


def decode_response(message: bytes) -> Any:
    return decode(CreateReplicaPlacementResponse, message, 0)


def test_a_malformed_frame_ends_its_connection_and_no_other() -> None:
    unknown_key = frame(struct.pack(">hhih", 3, 1, 1, -1) + b"\0\0\0\1")
    with run_service() as service:
        for sent in (unknown_key, b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
            with service.connect() as connection:
                # The service may have closed the connection already.
                with suppress(OSError):
                    connection.sendall(sent)
                assert receive_all(connection) == b""
            assert create_replica_placement(str(service.address), 1, 2) == ((0, 1),)
        metrics = service.metrics
    assert (metrics.invalid_frames, metrics.placements) == (3, 3)


@pytest.mark.parametrize("read", [parse_request, decode_request, decode_response])
@given(message=st.binary(max_size=300))
def test_only_malformed_frame_error_is_raised(read: Callable[[bytes], Any], message: bytes) -> None:
    with suppress(MalformedFrameError):
        read(message)


@given(int32s, int16s, st.booleans(), brokers, st.data())
def test_incomplete_requests_are_refused(
    partitions: int, factor: int, simple: bool, broker_ids: list[int], data: st.DataObject
) -> None:
    message = request_frame(
        partitions, factor, force_simple_placement=simple, broker_ids=broker_ids
    )[4:]
    cut = data.draw(st.integers(0, len(message) - 1))
    with pytest.raises(MalformedFrameError):
        parse_request(message[:cut])


HEADER = "0044 0000 00000001 ffff 00"
FIELDS = "00000001 0001 00"


@pytest.mark.parametrize(
    "text",
    [
        "0044 0000 00000001 7fff",  # a client id that is missing
        "0044 0000 00000001 8000",  # a client id of negative length
        "0044 0000 00000001 ffff ffffffff0f",  # 2^32 tagged fields
        "0044 0000 00000001 ffff 01 00 ffffffff0f",  # one tagged field of 2^32 bytes
        "0044 0000 00000001 ffff ffffffffff7f",  # more than 32 bits
        f"{HEADER} {FIELDS} 8080808008",  # 2^31 node ids
        f"{HEADER} {FIELDS} ffffffff0f",
        f"{HEADER} {FIELDS} 01 00000001 8080808008",  # 2^31 tagged fields
        "0012 0003 00000001 ffff 00 8080808008 00",  # a name of 2^31 bytes
        "0012 0003 00000001 ffff 00 02 ff 02 61 00",  # a name that is not UTF-8
        "0044 0001 00000001 ffff 00",  # version 1 of CreateReplicaPlacement
        "0044 ffff 00000001 ffff 00",
        "0003 0000 00000001 ffff 00",  # Metadata
        "0044 0000 0000",
        "",
    ],
)
def test_malformed_requests_cost_little_memory(text: str) -> None:
    check_memory(parse_request, text)


@pytest.mark.parametrize(
    "text",
    [
        "8080808008",  # 2^31 partitions
        "02 00000000 8080808008 00 00",  # 2^31 replicas
        "8080808080",  # an integer that does not end
    ],
)
def test_malformed_responses_cost_little_memory(text: str) -> None:
    check_memory(decode_response, f"00000001 00 {text}")


def check_memory(read: Callable[[bytes], Any], text: str) -> None:
    """Check that reading malformed bytes allocates little memory."""
    message = bytes.fromhex(text)
    # The first message of a kind makes kafka-python's classes of it.
    with pytest.raises(MalformedFrameError):
        read(message)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrameError):
            read(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("filler", [b"\x01\x00", b"\x80", b"\xff"])
@pytest.mark.parametrize("head", [f"{HEADER} {FIELDS}", f"{HEADER} {FIELDS} 01 00000001 ffff7f"])
def test_the_largest_malformed_frame_takes_little_time(head: str, filler: bytes) -> None:
    """Lists of tags, and integers of thousands of bytes, which take quadratic time to read."""
    message = (bytes.fromhex(head) + filler * MAX_FRAME_BYTES)[:MAX_FRAME_BYTES]
    began = time.process_time()
    with suppress(MalformedFrameError):
        parse_request(message)
    assert time.process_time() - began < 1
