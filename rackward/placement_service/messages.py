"""CreateReplicaPlacement, version 0, as KIP-879 lays it out.

The proposal's answer has no place for an error. Its version is a flexible one, so an error
travels in two tagged fields, which a reader that does not know them passes over: tag 0 has one
of Kafka's error codes (int16), tag 1 the message (nullable text). Where a placement was made
there is no tagged field, and the bytes are the proposal's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from placement_core import ReplicaLists
from rackward.placement_service.codec import (
    Reader,
    compact_array,
    compact_nullable_int32s,
    compact_nullable_string,
    tagged_fields,
)

_ERROR_CODE, _ERROR_MESSAGE = 0, 1
_LEAST_ROW = 6
"""Bytes of a partition without replicas: its number, the array's length, its tagged fields."""


class ErrorCode(IntEnum):
    """Those of Kafka's error codes that the service answers with."""

    UNKNOWN_SERVER_ERROR = -1
    REQUEST_TIMED_OUT = 7
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_REQUEST = 42


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """``node_ids``: the brokers that may be used, or None; ``timeout_ms`` in milliseconds."""

    partitions: int
    replication_factor: int
    force_simple_placement: bool = False
    node_ids: tuple[int, ...] | None = ()
    timeout_ms: int = 60_000

    def encode(self) -> bytes:
        """The request without its header."""
        return (
            struct.pack(
                ">ih?", self.partitions, self.replication_factor, self.force_simple_placement
            )
            + compact_nullable_int32s(self.node_ids)
            + struct.pack(">i", self.timeout_ms)
            + tagged_fields()
        )

    @classmethod
    def decode(cls, reader: Reader) -> PlacementRequest:
        """The request behind its header. Raises MalformedFrameError."""
        found = cls(
            partitions=reader.int32(),
            replication_factor=reader.int16(),
            force_simple_placement=reader.truth(),
            node_ids=reader.compact_nullable_int32s(),
            timeout_ms=reader.int32(),
        )
        reader.tagged_fields()
        reader.end()
        return found


@dataclass(frozen=True, slots=True)
class PlacementResponse:
    """``rows``: partition and its replicas; none where ``error_code`` is not 0."""

    rows: tuple[tuple[int, tuple[int, ...]], ...] = ()
    error_code: int = 0
    error_message: str | None = None

    @classmethod
    def placed(cls, replicas: ReplicaLists) -> PlacementResponse:
        """The answer that has a placement."""
        return cls(tuple(enumerate(replicas)))

    def encode(self) -> bytes:
        """The answer without its header."""
        rows = (
            struct.pack(">i", partition) + compact_nullable_int32s(replicas) + tagged_fields()
            for partition, replicas in self.rows
        )
        error = {
            _ERROR_CODE: struct.pack(">h", self.error_code),
            _ERROR_MESSAGE: compact_nullable_string(self.error_message),
        }
        return compact_array(rows) + tagged_fields(error if self.error_code else None)

    @classmethod
    def decode(cls, reader: Reader) -> PlacementResponse:
        """The answer behind its header. Raises MalformedFrameError."""

        def row() -> tuple[int, tuple[int, ...]]:
            partition, replicas = reader.int32(), reader.compact_int32s()
            reader.tagged_fields()
            return partition, replicas

        rows = reader.compact_array(row, _LEAST_ROW)
        tagged = reader.tagged_fields()
        reader.end()
        return cls(rows, *_error(tagged))


def _error(tagged: Mapping[int, bytes]) -> tuple[int, str | None]:
    code, message = 0, None
    if (content := tagged.get(_ERROR_CODE)) is not None:
        reader = Reader(content)
        code = reader.int16()
        reader.end()
    if (content := tagged.get(_ERROR_MESSAGE)) is not None:
        reader = Reader(content)
        message = reader.compact_nullable_string()
        reader.end()
    return code, message
