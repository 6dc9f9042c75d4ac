"""Malformed frames: the service closes their connection, and continues to serve others."""

from __future__ import annotations

import random
import socket
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackward.placement_service import MalformedFrameError, create_replica_placement
from rackward.placement_service.handler import parse_request
from rackward.placement_service.messages import (
    CreateReplicaPlacementRequest,
    CreateReplicaPlacementResponse,
    decode,
)
from rackward.placement_service.server import MAX_FRAME_BYTES
from tests.rackward.placement_service.test_frames import brokers, int16s, int32s
from tests.support.placement_server import receive_all, request_frame, run_service

EXAMPLES, BASES, FRAMES = 250, 5, 40


def decode_request(message: bytes) -> Any:
    return decode(CreateReplicaPlacementRequest, message, 0)


def decode_response(message: bytes) -> Any:
    return decode(CreateReplicaPlacementResponse, message, 0)


def is_malformed(sent: bytes | bytearray) -> bool:
    """Return whether these bytes contain no complete frame with a request."""
    length = int.from_bytes(sent[:4], "big", signed=True)
    if len(sent) < 4 or not 0 <= length <= MAX_FRAME_BYTES or len(sent) < 4 + length:
        return True
    try:
        parse_request(bytes(sent[4 : 4 + length]))
    except MalformedFrameError:
        return True
    return False


def mutate(sent: bytes, rng: random.Random) -> bytes:
    """Return these bytes with some changed, removed or added, so that they are malformed."""
    while True:
        changed = bytearray(sent or b"\0")
        for _ in range(rng.randrange(3)):
            byte = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            changed[rng.randrange(len(changed))] = byte
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        if rng.random() < 0.3:
            added = rng.randbytes(rng.randrange(1, 9))
            changed = bytearray(with_length(bytes(changed[4:]) + added, 0))
        if is_malformed(changed):
            return bytes(changed)


def with_length(message: bytes, difference: int) -> bytes:
    return (len(message) + difference).to_bytes(4, "big", signed=True) + message


def other_request(key: int, version: int, body: bytes) -> bytes:
    flexible = b"\0" if key == 68 and version >= 0 else b""
    return with_length(struct.pack(">hhih", key, version, 1, -1) + flexible + body, 0)


bases = st.one_of(
    st.builds(
        request_frame,
        st.integers(1, 9),
        st.integers(1, 3),
        force_simple_placement=st.booleans(),
        broker_ids=st.lists(st.integers(0, 9), max_size=5),
    ),
    st.binary(max_size=40),
    st.builds(with_length, st.binary(max_size=40), st.just(0) | st.integers(-40, 1 << 30)),
    st.builds(
        other_request,
        st.integers(0, 80).filter(lambda key: key != 18),
        st.integers(0, 5),
        st.binary(max_size=12),
    ),
)


def test_ten_thousand_malformed_frames() -> None:
    sent = 0
    with run_service() as service:
        # Hypothesis would take longer to generate all frames than the service to refuse them.
        @settings(max_examples=EXAMPLES)
        @given(st.lists(bases, min_size=BASES, max_size=BASES), st.randoms(use_true_random=True))
        def send(generated: list[bytes], rng: random.Random) -> None:
            nonlocal sent
            frames = [each for each in generated if is_malformed(each)]
            while len(frames) < FRAMES:
                frames.append(mutate(rng.choice(generated), rng))
            connections = [service.connect() for _ in frames]
            for connection, frame in zip(connections, frames, strict=True):
                # The service may have closed the connection already.
                with suppress(OSError):
                    connection.sendall(frame)
                    connection.shutdown(socket.SHUT_WR)
            for connection in connections:
                with connection:
                    assert receive_all(connection) == b""
            sent += len(frames)
            assert create_replica_placement(str(service.address), 1, 2) == ((0, 1),)

        send()
        metrics = service.metrics
    assert sent >= 10_000
    # Other frames are not counted: their connections end before the frame is complete.
    assert metrics.invalid_frames > sent / 3
    assert metrics.placements * FRAMES == sent


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
    message = bytes.fromhex(text)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrameError):
            parse_request(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize(
    "text",
    [
        "8080808008",  # 2^31 partitions
        "02 00000000 8080808008 00 00",  # 2^31 replicas
        "8080808080",  # an integer that does not end
    ],
)
def test_malformed_responses_cost_little_memory(text: str) -> None:
    message = bytes.fromhex("00000001 00" + text)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrameError):
            decode_response(message)
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
