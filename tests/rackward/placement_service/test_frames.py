"""The bytes: as the proposal's schema lays them out, and as kafka-python would write them."""

from __future__ import annotations

import io
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_core import RackwardError
from placement_core.placers import RackAlternatingPlacer
from rackward.placement_service import (
    MalformedFrameError,
    PlacementQuestion,
    ServiceLimits,
    answer,
    answer_question,
)
from rackward.placement_service.protocol import (
    PlacementRequest,
    PlacementResponse,
    Reader,
    RequestHeader,
)
from tests.rackward.placement_service import proposal
from tests.support.placement import cluster
from tests.support.placement_server import everything, in_turn, running

LIMITS = ServiceLimits()
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
ANSWER = bytes.fromhex(
    "0000002a"  # correlation id 42
    "00"  # no tagged fields: header version 1
    "03"  # ReplicaPlacement: 2 items, plus one
    "00000000 04 00000000 00000003 00000001 00"  # partition 0 on 0, 3, 1
    "00000001 04 00000003 00000001 00000005 00"  # partition 1 on 3, 1, 5
    "00"  # no tagged fields
)

int32s = st.integers(-(1 << 31), (1 << 31) - 1)
requests = st.builds(
    PlacementRequest,
    int32s,
    st.integers(-(1 << 15), (1 << 15) - 1),
    st.booleans(),
    st.lists(int32s, max_size=200).map(tuple),
    int32s,
)
rows = st.lists(st.tuples(int32s, st.lists(int32s, max_size=200).map(tuple)), max_size=9)


def kip_36(question: PlacementQuestion) -> Any:
    return answer_question(question, KIP_36, RackAlternatingPlacer(start_index=0))


def test_the_proposals_frames() -> None:
    assert answer(REQUEST, kip_36, LIMITS) == ANSWER


def test_the_proposals_frames_on_a_socket() -> None:
    with running(kip_36) as served, served.connect() as connection:
        for _ in range(2):
            connection.sendall(len(REQUEST).to_bytes(4, "big") + REQUEST)
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection) == (len(ANSWER).to_bytes(4, "big") + ANSWER) * 2


def test_every_field_of_a_request() -> None:
    asked: list[PlacementQuestion] = []

    def placing(question: PlacementQuestion) -> Any:
        asked.append(question)
        return in_turn(question)

    full = bytes.fromhex(
        "0044 0000 00000001 ffff"  # client id null
        "01 05 02 abcd"  # header: tag 5 of 2 bytes, which nobody knows
        "00000001 0002 01"
        "03 00000004 00000009"  # NodeId 4, 9
        "00000064"
        "01 00 00"  # tag 0 of 0 bytes
    )
    answered = answer(full, placing, LIMITS)
    assert asked == [PlacementQuestion(1, 2, True, frozenset({4, 9}))]
    assert answered.hex() == "000000010002000000000300000000000000010000"


def test_node_ids_that_are_null_mean_all() -> None:
    null = REQUEST.replace(bytes.fromhex("01 0000ea60"), bytes.fromhex("00 0000ea60"))
    assert answer(null, kip_36, LIMITS) == ANSWER


def test_an_error_is_two_tagged_fields() -> None:
    def placing(_: PlacementQuestion) -> Any:
        raise RackwardError("no\nröom")

    assert answer(REQUEST, placing, LIMITS) == bytes.fromhex(
        "0000002a 00"
        "01"  # no partitions
        "02"  # two tagged fields
        "00 02 ffff"  # tag 0: error code -1
        "01 09 09 6e6f2072c3b66f6d"  # tag 1: "no röom"
    )


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
    # The header of the answer is version 0 in each, and an unknown version is answered in
    # version 0, whatever its request looks like.
    body = {3: "00 02 61 02 62 00", 4: "00 02 61 02 62 00", 5: "ff ff ff"}.get(version, "")
    request = RequestHeader(18, version, 42, "x").encode()
    if version >= 3:
        request = request.removesuffix(b"\0")
    answered = answer(request + bytes.fromhex(body), in_turn, LIMITS)
    assert answered == bytes.fromhex(expected)


def test_kafka_python_reads_our_api_versions() -> None:
    from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

    for version in range(5):
        request = ApiVersionsRequest[version](
            client_software_name="kafka-python", client_software_version="3"
        )
        request.with_header(correlation_id=9, client_id="c")
        answered = answer(bytes(request.encode(header=True)), in_turn, LIMITS)
        read = ApiVersionsResponse.decode(io.BytesIO(answered[4:]), version=version)
        assert [(each.api_key, each.max_version) for each in read.api_keys] == [(18, 4), (68, 0)]
        assert read.error_code == 0


@given(requests)
def test_requests_are_written_as_kafka_python_writes_them(request: PlacementRequest) -> None:
    schema: Any = proposal.CreateReplicaPlacementRequest
    other = schema[0](
        num_partitions=request.partitions,
        replication_factor=request.replication_factor,
        force_simple_placement=request.force_simple_placement,
        node_id=list(request.node_ids or ()),
        timeout_ms=request.timeout_ms,
    )
    assert request.encode() == bytes(other.encode())
    assert PlacementRequest.decode(Reader(request.encode())) == request


@given(rows)
def test_answers_are_written_as_kafka_python_writes_them(
    rows: list[tuple[int, tuple[int, ...]]],
) -> None:
    response = PlacementResponse(tuple(rows))
    schema: Any = proposal.CreateReplicaPlacementResponse
    other = schema[0](
        replica_placement=[(partition, list(replicas), {}) for partition, replicas in rows]
    )
    assert response.encode() == bytes(other.encode())
    assert PlacementResponse.decode(Reader(response.encode())) == response


@given(st.integers(-(1 << 15), (1 << 15) - 1).filter(bool), st.none() | st.text())
def test_errors_come_back_as_they_were(code: int, message: str | None) -> None:
    response = PlacementResponse(error_code=code, error_message=message)
    assert PlacementResponse.decode(Reader(response.encode())) == response


def test_a_longer_integer_than_any_is_refused() -> None:
    assert Reader(bytes.fromhex("ffffffff0f")).varint() == (1 << 32) - 1
    for text in ("ffffffff10", "808080808000", "8080808080", ""):
        with pytest.raises(MalformedFrameError):
            Reader(bytes.fromhex(text)).varint()
