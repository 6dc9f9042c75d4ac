"""Malformed frames: the service closes their connection, and continues to serve others."""

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

from rackward.placement_service import MalformedFrameError, create_replica_placement
from rackward.placement_service.handler import parse_request
from rackward.placement_service.messages import (
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
    decode,
    frame,
)
from rackward.placement_service.server import MAX_FRAME_BYTES
from tests.rackward.placement_service.test_frames import brokers, int16s, int32s
from tests.support.placement_server import receive_all, request_frame, run_service


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
