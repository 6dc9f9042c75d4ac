"""Frames that are none, or not ours: the connection ends, and the service goes on."""

from __future__ import annotations

import random
import socket
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rackward.placement_service import MalformedFrameError, ServiceLimits, create_replica_placement
from rackward.placement_service.handler import read_request
from rackward.placement_service.protocol import (
    PlacementRequest,
    PlacementResponse,
    Reader,
    RequestHeader,
)
from tests.rackward.placement_service.test_frames import requests
from tests.support.placement_server import everything, framed_request, running

EXAMPLES, BASES, FRAMES = 250, 5, 40
LIMITS = ServiceLimits()


def is_malformed(sent: bytes | bytearray) -> bool:
    """Whether these bytes, and then the end, hold no whole frame with a request."""
    length = int.from_bytes(sent[:4], "big", signed=True)
    if len(sent) < 4 or not 0 <= length <= LIMITS.frame_bytes or len(sent) < 4 + length:
        return True
    try:
        read_request(bytes(sent[4 : 4 + length]))
    except MalformedFrameError:
        return True
    return False


def mutated(sent: bytes, rng: random.Random) -> bytes:
    """Malformed bytes not far from these: some changed, some missing, or some more."""
    while True:
        changed = bytearray(sent or b"\0")
        for _ in range(rng.randrange(3)):
            byte = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            changed[rng.randrange(len(changed))] = byte
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        if rng.random() < 0.3:
            more = rng.randbytes(rng.randrange(1, 9))
            changed = bytearray(with_length(bytes(changed[4:]) + more, 0))
        if is_malformed(changed):
            return bytes(changed)


def with_length(message: bytes, off: int) -> bytes:
    return (len(message) + off).to_bytes(4, "big", signed=True) + message


small_requests = st.builds(
    PlacementRequest,
    st.integers(1, 9),
    st.integers(1, 3),
    st.booleans(),
    st.lists(st.integers(0, 9), max_size=5).map(tuple),
)
other_keys = st.builds(
    lambda key, version, body: with_length(RequestHeader(key, version, 1).encode() + body, 0),
    st.integers(0, 80).filter(lambda key: key != 18),
    st.integers(0, 5),
    st.binary(max_size=12),
)
bases = st.one_of(
    small_requests.map(framed_request),
    st.binary(max_size=40),
    st.builds(with_length, st.binary(max_size=40), st.just(0) | st.integers(-40, 1 << 30)),
    other_keys,
)


def test_ten_thousand_malformed_frames_leave_it_serving() -> None:
    sent_in_all = 0
    with running() as served:
        # Were all of it Hypothesis's to make, that would take longer than to serve it.
        @settings(max_examples=EXAMPLES)
        @given(st.lists(bases, min_size=BASES, max_size=BASES), st.randoms(use_true_random=True))
        def send(made: list[bytes], rng: random.Random) -> None:
            nonlocal sent_in_all
            frames = [each for each in made if is_malformed(each)]
            while len(frames) < FRAMES:
                frames.append(mutated(rng.choice(made), rng))
            connections = [served.connect() for _ in frames]
            for connection, sent in zip(connections, frames, strict=True):
                # It may have hung up already.
                with suppress(OSError):
                    connection.sendall(sent)
                    connection.shutdown(socket.SHUT_WR)
            for connection in connections:
                with connection:
                    assert everything(connection) == b""
            sent_in_all += len(frames)
            assert create_replica_placement(str(served.address), 1, 2) == ((0, 1),)

        send()
        counts = served.service.counts
    assert sent_in_all >= 10_000
    # What is not counted broke off before its frame was whole.
    assert counts.refused_frames > sent_in_all / 3
    assert counts.placements * FRAMES == sent_in_all


@given(st.binary(max_size=300))
def test_reading_raises_one_error_and_no_other(message: bytes) -> None:
    for read in (
        read_request,
        lambda text: PlacementRequest.decode(Reader(text)),
        lambda text: PlacementResponse.decode(Reader(text)),
    ):
        with suppress(MalformedFrameError):
            read(message)


@given(requests, st.data())
def test_no_request_is_read_out_of_its_beginning(
    request: PlacementRequest, data: st.DataObject
) -> None:
    message = framed_request(request)[4:]
    cut = data.draw(st.integers(0, len(message) - 1))
    with pytest.raises(MalformedFrameError):
        read_request(message[:cut])
    with pytest.raises(MalformedFrameError, match="bytes follow the message"):
        read_request(message + bytes(1 + cut))


HEADER = "0044 0000 00000001 ffff 00"
FIELDS = "00000001 0001 00"


@pytest.mark.parametrize(
    "text",
    [
        "0044 0000 00000001 7fff",  # a client id that is not there
        "0044 0000 00000001 8000",  # of a negative length
        "0044 0000 00000001 ffff ffffffff0f",  # 2^32 tagged fields
        "0044 0000 00000001 ffff 01 00 ffffffff0f",  # one of 2^32 bytes
        "0044 0000 00000001 ffff ffffffffff7f",  # more than 32 bits
        f"{HEADER} {FIELDS} 8080808008",  # 2^31 node ids
        f"{HEADER} {FIELDS} ffffffff0f",
        f"{HEADER} {FIELDS} 01 00000001 8080808008",  # 2^31 tagged fields
        f"{HEADER} {FIELDS} 01 00000001 02 01 00 01 00",  # a tag twice
        "0012 0003 00000001 ffff 00 8080808008 00",  # a name of 2^31 bytes
        "0012 0003 00000001 ffff 00 00 00 00",  # no name
        "0012 0003 00000001 ffff 00 02 ff 02 61 00",  # a name that is not UTF-8
        "0012 0000 00000001 ffff 00",  # more than version 0 has
        "0044 0001 00000001 ffff 00",  # version 1 of ours
        "0044 ffff 00000001 ffff 00",
        "0003 0000 00000001 ffff 00",  # Metadata
        "0044 0000 0000",
        "",
    ],
)
def test_a_length_that_is_only_claimed_costs_nothing(text: str) -> None:
    message = bytes.fromhex(text)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrameError):
            read_request(message)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_an_answer_that_only_claims_partitions_costs_nothing() -> None:
    tracemalloc.start()
    try:
        for text in ("8080808008", "02 00000000 8080808008 00 00", "00", "02 00000000 00 00 00"):
            with pytest.raises(MalformedFrameError):
                PlacementResponse.decode(Reader(bytes.fromhex(text)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
