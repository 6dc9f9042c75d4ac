"""A broker on a port of this machine that coordinates one group, as a test scripts it.

It speaks Kafka's protocol with kafka-python's own messages, so that tests of clients use their
public interface only. By default it answers as a real one does to the only member of a group. A
test changes its state, replaces the answer to a kind of request, or holds it back.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
)
from kafka.record import MemoryRecordsBuilder

from tests.support.kafka_python import joined, message, metadata_message
from tests.support.waiting import TEST_TIMEOUT

MEMBER_ID = "m-1"
"""The member id that the broker gives the client."""

Answer = Callable[[Any], Any]
"""Returns the response to a request, or None for the default one."""

_VERSIONS: dict[Any, int] = {
    ApiVersionsRequest: 3,
    FetchRequest: 11,
    FindCoordinatorRequest: 3,
    HeartbeatRequest: 4,
    JoinGroupRequest: 7,
    LeaveGroupRequest: 4,
    ListOffsetsRequest: 5,
    MetadataRequest: 9,
    OffsetCommitRequest: 8,
    OffsetFetchRequest: 7,
    SyncGroupRequest: 5,
}
"""The requests, with the highest version of each: those of Kafka 2.6, which names topics."""

_REQUESTS = {request.API_KEY: request for request in _VERSIONS}


@dataclass(frozen=True)
class Received:
    """A request: its name (``JoinGroup``), its connection, when it came, and its content."""

    name: str
    connection: int
    at: float
    request: Any


class ScriptedBroker:
    """See the module. ``racks`` are the racks of brokers by id, all of them at this address.

    leaders
        The leader of each partition by topic, in metadata; a topic without partitions is unknown.
    in_sync
        The brokers in sync with the leader, of each partition.
    unauthorized_topics
        The topics that the client may not describe.
    others
        The other members, of `joined`; the client leads the group unless ``leader_id`` is set.
    assignment
        What the client is assigned if it does not lead: an encoded ConsumerProtocolAssignment.
    records
        The number of records of each partition.
    heartbeat_error, fetch_delay
        The error code of heartbeats, and the seconds before a fetch without records is answered.
    answers
        The answer to requests by name. It runs in the thread of its connection, and so holds back
        all later requests of the connection, as a real broker does.
    """

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        self.racks = dict(racks)
        self.leaders: dict[str, Sequence[int]] = {}
        self.in_sync: Sequence[int] = [0]
        self.others: list[Any] = []
        self.unauthorized_topics: set[str] = set()
        self.leader_id = MEMBER_ID
        self.assignment = b""
        self.records: dict[tuple[str, int], int] = {}
        self.committed: dict[tuple[str, int], int] = {}
        self.generation = 0
        self.heartbeat_error = 0
        self.fetch_delay = 0.02
        self.answers: dict[str, Answer] = {}
        self.received: list[Received] = []
        self._stopping = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def named(self, name: str) -> list[Received]:
        """Return the requests of that name so far."""
        return [received for received in list(self.received) if received.name == name]

    def await_request(self, name: str, count: int = 1) -> Received:
        """Return the last of so many requests of that name, once it has come."""
        deadline = time.monotonic() + TEST_TIMEOUT
        while len(self.named(name)) < count:
            assert time.monotonic() < deadline, f"{name}: {len(self.named(name))} of {count}"
            time.sleep(0.005)
        return self.named(name)[count - 1]

    @contextmanager
    def holding(self, name: str) -> Iterator[threading.Event]:
        """Hold back the answers to requests of that name, until the event is set or the end."""
        release = threading.Event()
        answer = self.answers.get(name)

        def hold(request: Any) -> Any:
            release.wait(TEST_TIMEOUT)
            return answer(request) if answer else None

        self.answers[name] = hold
        try:
            yield release
        finally:
            if answer is None:
                self.answers.pop(name, None)
            else:
                self.answers[name] = answer
            release.set()

    def disconnect_readers_of(self, topic: str, partition: int) -> None:
        """Close the connections on which that partition was fetched last."""
        readers = {
            received.connection
            for received in self.named("Fetch")
            for fetched in received.request.topics
            if fetched.topic == topic
            and partition in [of_topic.partition for of_topic in fetched.partitions]
        }
        for number in readers:
            with suppress(OSError):
                self._connections[number - 1].shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all threads."""
        self._stopping.set()
        for open_socket in (self._server, *self._connections):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()

    # ---- connections

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._stopping.is_set():
                connection, _ = self._server.accept()
                self._connections.append(connection)
                number = len(self._connections)
                threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError, EOFError), connection, connection.makefile("rb") as stream:
            while not self._stopping.is_set():
                frame = _read(stream, struct.unpack(">i", _read(stream, 4))[0])
                key, version = struct.unpack(">hh", frame[:4])
                request = _REQUESTS[key].decode(frame, version=version, header=True)
                name = _REQUESTS[key].__name__.removesuffix("Request")
                self.received.append(Received(name, number, time.monotonic(), request))
                answer = self.answers.get(name)
                response = answer(request) if answer else None
                if response is None:
                    response = getattr(self, f"_answer_{name}")(request)
                response.API_VERSION = version
                response.with_header(correlation_id=request.header.correlation_id)
                connection.sendall(response.encode(header=True, framed=True))

    # ---- the answers of a real broker

    def _answer_ApiVersions(self, _: Any) -> Any:
        return message(
            ApiVersionsResponse,
            api_keys=[
                {"api_key": request.API_KEY, "min_version": 0, "max_version": version}
                for request, version in _VERSIONS.items()
            ],
        )

    def _answer_Metadata(self, request: Any) -> Any:
        every = request.topics is None
        names = list(self.leaders) if every else [topic.name for topic in request.topics]
        leaders = {name: self.leaders.get(name, ()) for name in names}
        response = metadata_message(self.racks, leaders, self.port)
        for topic in response.topics:
            for partition in topic.partitions:
                partition.isr_nodes = self.in_sync
            if topic.name in self.unauthorized_topics:
                topic.error_code = 29  # TOPIC_AUTHORIZATION_FAILED
        return response

    def _answer_FindCoordinator(self, _: Any) -> Any:
        return FindCoordinatorResponse(node_id=min(self.racks), host="127.0.0.1", port=self.port)

    def _answer_JoinGroup(self, request: Any) -> Any:
        if not request.member_id:
            return join_response(error_code=79)  # MEMBER_ID_REQUIRED
        self.generation += 1
        self.heartbeat_error = 0
        protocol = request.protocols[0]
        members = [joined(request.member_id, protocol.metadata), *self.others]
        return join_response(
            generation_id=self.generation,
            protocol_name=protocol.name,
            leader=self.leader_id,
            members=members if self.leader_id == MEMBER_ID else [],
        )

    def _answer_SyncGroup(self, request: Any) -> Any:
        own = [given.assignment for given in request.assignments if given.member_id == MEMBER_ID]
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=own[0] if own else self.assignment,
        )

    def _answer_Heartbeat(self, _: Any) -> Any:
        return HeartbeatResponse(error_code=self.heartbeat_error)

    def _answer_LeaveGroup(self, _: Any) -> Any:
        return LeaveGroupResponse()

    def _answer_OffsetCommit(self, request: Any) -> Any:
        self.committed |= {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        return commit_response(request, 0)

    def _answer_OffsetFetch(self, request: Any) -> Any:
        return message(
            OffsetFetchResponse,
            topics=[
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": index,
                            "committed_offset": self.committed.get((topic.name, index), -1),
                        }
                        for index in topic.partition_indexes
                    ],
                }
                for topic in request.topics
            ],
        )

    def _answer_ListOffsets(self, request: Any) -> Any:
        first = {"offset": 0, "leader_epoch": 0}
        return _for_each_partition(ListOffsetsResponse, request, first)

    def _answer_Fetch(self, request: Any) -> Any:
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                count = self.records.get((topic.topic, partition.partition), 0)
                if offsets := range(partition.fetch_offset, count):
                    data = {"high_watermark": count, "records": _records(offsets)}
                    partitions.append(_fetched(partition.partition, data))
            if partitions:
                topics.append({"topic": topic.topic, "partitions": partitions})
        if not topics:
            self._stopping.wait(self.fetch_delay)
        # Without a session each request has all partitions.
        return message(FetchResponse, responses=topics)


@contextmanager
def scripted_broker(
    racks: Mapping[int, str | None] = {0: "a"},
) -> Iterator[ScriptedBroker]:
    """Run a broker until the end of the block."""
    broker = ScriptedBroker(racks)
    try:
        yield broker
    finally:
        broker.close()


def fetch_response(topic: str, partition: int, **fields: Any) -> Any:
    """Return the response to a fetch of one partition, without records."""
    partitions = [_fetched(partition, fields)]
    return message(FetchResponse, responses=[{"topic": topic, "partitions": partitions}])


def _fetched(partition: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a fetch response that is about a partition."""
    end = fields.get("high_watermark", 0)
    return {
        "partition_index": partition,
        "last_stable_offset": end,
        "log_start_offset": 0,
        "aborted_transactions": None,
        **fields,
    }


def join_response(**fields: Any) -> Any:
    """Return the response to a JoinGroup of the client; the fields that are not given are empty."""
    return message(
        JoinGroupResponse, **{"protocol_type": "consumer", "member_id": MEMBER_ID, **fields}
    )


def commit_response(request: Any, error_code: int) -> Any:
    """Return the response to a commit with that error code for each partition."""
    return _for_each_partition(OffsetCommitResponse, request, {"error_code": error_code})


def _for_each_partition(kind: Any, request: Any, fields: Mapping[str, Any]) -> Any:
    """Return the response with these fields for each partition of the request."""
    return message(
        kind,
        topics=[
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": each.partition_index, **fields} for each in topic.partitions
                ],
            }
            for topic in request.topics
        ],
    )


def _read(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _records(offsets: range) -> bytes:
    builder = MemoryRecordsBuilder(
        magic=2, compression_type=0, batch_size=1 << 20, offset=offsets[0]
    )
    for offset in offsets:
        builder.append(timestamp=None, key=None, value=str(offset).encode())
    builder.close()
    return bytes(builder.buffer())
