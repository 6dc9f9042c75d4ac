"""The bytes of requests and responses: those of the proposal's schema, and kafka-python's."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest
from hypothesis import strategies as st

from placement_core import RackwardError
from placement_core.placers import RackAlternatingPlacer
from rackward.placement_service import (
    PlacementHandler,
    PlacementRequest,
    place_replicas,
)
from rackward.placement_service.handler import handle, parse_request
from tests.support.placement import cluster
from tests.support.placement_server import first_brokers, receive_all, run_service

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
    with run_service(place_kip_36) as service, service.connect() as connection:
        for _ in range(2):
            connection.sendall(len(REQUEST).to_bytes(4, "big") + REQUEST)
        connection.shutdown(socket.SHUT_WR)
        assert receive_all(connection) == (len(RESPONSE).to_bytes(4, "big") + RESPONSE) * 2


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
