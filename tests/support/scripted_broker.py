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

from kafka.protocol import consumer, metadata
from kafka.record import MemoryRecordsBuilder

from tests.support.kafka_python import joined, metadata_message
from tests.support.waiting import TEST_TIMEOUT

MEMBER_ID = "m-1"
"""The member id that the broker gives the client."""

Answer = Callable[[Any], Any]
"""Returns the response to a request, or None for the default one."""

_VERSIONS = {
    "ApiVersions": 3,
    "Fetch": 11,
    "FindCoordinator": 3,
    "Heartbeat": 4,
    "JoinGroup": 7,
    "LeaveGroup": 4,
    "ListOffsets": 5,
    "Metadata": 9,
    "OffsetCommit": 8,
    "OffsetFetch": 7,
    "SyncGroup": 5,
}
"""The requests, with the highest version of each: those of Kafka 2.6, which names topics."""

_REQUESTS: dict[str, Any] = {
    name: getattr(consumer, f"{name}Request", None) or getattr(metadata, f"{name}Request")
    for name in _VERSIONS
}
_NAMES = {request.API_KEY: name for name, request in _REQUESTS.items()}


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
                name = _NAMES[key]
                request = _REQUESTS[name].decode(frame, version=version, header=True)
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
        entry = metadata.ApiVersionsResponse.ApiVersion
        return metadata.ApiVersionsResponse(
            error_code=0,
            throttle_time_ms=0,
            api_keys=[
                entry(api_key=key, min_version=0, max_version=_VERSIONS[name])
                for key, name in _NAMES.items()
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
        node = min(self.racks)
        return metadata.FindCoordinatorResponse(
            error_code=0, error_message="", node_id=node, host="127.0.0.1", port=self.port
        )

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
        return consumer.SyncGroupResponse(
            throttle_time_ms=0,
            error_code=0,
            protocol_type="consumer",
            protocol_name=request.protocol_name,
            assignment=own[0] if own else self.assignment,
        )

    def _answer_Heartbeat(self, _: Any) -> Any:
        return consumer.HeartbeatResponse(throttle_time_ms=0, error_code=self.heartbeat_error)

    def _answer_LeaveGroup(self, _: Any) -> Any:
        return consumer.LeaveGroupResponse(throttle_time_ms=0, error_code=0, members=[])

    def _answer_OffsetCommit(self, request: Any) -> Any:
        self.committed |= {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        return commit_response(request, 0)

    def _answer_OffsetFetch(self, request: Any) -> Any:
        topic_type = consumer.OffsetFetchResponse.OffsetFetchResponseTopic
        return consumer.OffsetFetchResponse(
            throttle_time_ms=0,
            error_code=0,
            topics=[
                topic_type(
                    name=topic.name,
                    partitions=[
                        topic_type.OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=self.committed.get((topic.name, index), -1),
                            committed_leader_epoch=-1,
                            metadata="",
                            error_code=0,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ],
        )

    def _answer_ListOffsets(self, request: Any) -> Any:
        topic_type = consumer.ListOffsetsResponse.ListOffsetsTopicResponse
        return consumer.ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                topic_type(
                    name=topic.name,
                    partitions=[
                        topic_type.ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index,
                            error_code=0,
                            timestamp=-1,
                            offset=0,
                            leader_epoch=0,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ],
        )

    def _answer_Fetch(self, request: Any) -> Any:
        partitions: dict[str, list[Any]] = {}
        for topic in request.topics:
            for partition in topic.partitions:
                count = self.records.get((topic.topic, partition.partition), 0)
                if offsets := range(partition.fetch_offset, count):
                    data = _partition_data(
                        partition.partition,
                        high_watermark=count,
                        last_stable_offset=count,
                        records=_records(offsets),
                    )
                    partitions.setdefault(topic.topic, []).append(data)
        if not partitions:
            self._stopping.wait(self.fetch_delay)
        return _fetch_response(partitions)


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
    return _fetch_response({topic: [_partition_data(partition, **fields)]})


def _fetch_response(partitions: Mapping[str, Sequence[Any]]) -> Any:
    topic_type = consumer.FetchResponse.FetchableTopicResponse
    return consumer.FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=0,  # Without a session each request has all partitions.
        responses=[topic_type(topic=topic, partitions=data) for topic, data in partitions.items()],
    )


def _partition_data(index: int, **fields: Any) -> Any:
    empty: dict[str, Any] = {
        "error_code": 0,
        "high_watermark": 0,
        "last_stable_offset": 0,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
    }
    data_type = consumer.FetchResponse.FetchableTopicResponse.PartitionData
    return data_type(partition_index=index, **{**empty, **fields})


def join_response(**fields: Any) -> Any:
    """Return the response to a JoinGroup of the client; the fields that are not given are empty."""
    empty: dict[str, Any] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "generation_id": -1,
        "protocol_type": "consumer",
        "protocol_name": "",
        "leader": "",
        "member_id": MEMBER_ID,
        "members": [],
    }
    return consumer.JoinGroupResponse(**{**empty, **fields})


def commit_response(request: Any, error_code: int) -> Any:
    """Return the response to a commit with that error code for each partition."""
    topic_type = consumer.OffsetCommitResponse.OffsetCommitResponseTopic
    return consumer.OffsetCommitResponse(
        throttle_time_ms=0,
        topics=[
            topic_type(
                name=topic.name,
                partitions=[
                    topic_type.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error_code
                    )
                    for partition in topic.partitions
                ],
            )
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
