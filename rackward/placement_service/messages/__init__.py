"""Messages between the placement service and its client, encoded and decoded by kafka-python.

Framing is Kafka's: an int32 length, a header, a body. CreateReplicaPlacement is KIP-879's, version
0, as JSON in the notation that kafka-python reads. The proposal's response has no field for an
error. Its version is flexible, so errors travel as tagged fields, which a reader that does not know
them skips: tag 0 is one of Kafka's error codes, tag 1 the message. A successful response has
neither, and its bytes are the proposal's.

The api key in the response's definition is not the request's: kafka-python has one class for the
responses of each key, 68 is its ConsumerGroupHeartbeat, and a response does not carry its key.

Frames come from any peer, and kafka-python's decoder is written for brokers that are trusted: it
reads integers of any length, in quadratic time. It allocates nothing for a length that is merely
claimed, so what a peer can cause is bounded by the size of its frame: :func:`frame_length` is where
that is limited, before any of it is read.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from placement_core import RackwardError


class MalformedFrameError(RackwardError, ValueError):
    """Bytes that are not a message of this service; the text never contains the bytes."""


class PlacementServiceError(RackwardError):
    """A call of a placement service failed."""


class ListeningError(PlacementServiceError):
    """The service cannot listen on its address."""


class ServiceUnreachableError(PlacementServiceError):
    """The service cannot be reached, or did not respond in time."""


class ServiceTlsError(PlacementServiceError):
    """Service and client do not trust each other's certificates, or only one of them uses TLS."""


class NotAPlacementServiceError(PlacementServiceError):
    """The server is something else, such as a Kafka broker or a web server."""


class ServiceRefusedError(PlacementServiceError):
    """The service responded with an error; ``code`` is one of Kafka's error codes."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


LOOPBACK = "127.0.0.1"
DEFAULT_ADDRESS = f"{LOOPBACK}:9480"
"""Default address of the service, for the controller and for clients."""


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ErrorCode(IntEnum):
    """Kafka's error codes in responses of the service."""

    UNKNOWN_SERVER_ERROR = -1
    REQUEST_TIMED_OUT = 7
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_REQUEST = 42


class CreateReplicaPlacementRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """Requests a placement of ``num_partitions`` partitions."""


class CreateReplicaPlacementResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg,misc]
    """The placement, or an error."""


API_VERSIONS = ApiVersionsRequest.API_KEY
CREATE_REPLICA_PLACEMENT = CreateReplicaPlacementRequest.API_KEY
"""KIP-879's key for its request. In today's brokers it is that of another request."""

LENGTH_BYTES = 4
"""The size of the length in front of a message."""

MAX_API_VERSIONS = 4
"""The newest version of ApiVersions that the service serves."""

UNSUPPORTED_VERSION = 35
"""Kafka's error code for a version that is not served."""


def api_versions_response(version: int, error_code: int = 0) -> Any:
    """Return the ApiVersions response of the service: these two requests and no others, which also
    distinguishes it from a broker."""
    return ApiVersionsResponse[version](
        error_code=error_code,
        api_keys=[(API_VERSIONS, 0, MAX_API_VERSIONS), (CREATE_REPLICA_PLACEMENT, 0, 0)],
    )


def encode(message: Any, correlation_id: int, client_id: str | None = None) -> bytes:
    """Return a message of kafka-python with its header, without the frame's length."""
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True))


def decode(message_class: Any, message: bytes, version: int) -> Any:
    """Return the message, header and body, as an object of ``message_class``.

    ``message`` is a frame without its length. Raises MalformedFrameError if it is not such a
    message.
    """
    try:
        return message_class.decode(message, version=version, header=True)
    except Exception as error:
        # Among them struct.error, IndexError, UnicodeDecodeError and AssertionError.
        raise MalformedFrameError(
            f"not a {message_class.name} of version {version} ({type(error).__name__})"
        ) from error


def frame(message: bytes) -> bytes:
    """Return the message with its length in front, as it is sent."""
    return struct.pack(">i", len(message)) + message


def frame_length(prefix: bytes, max_bytes: int) -> int:
    """Return the length in front of a frame. Raises MalformedFrameError above ``max_bytes``."""
    length = int.from_bytes(prefix, "big", signed=True)
    if not 0 <= length <= max_bytes:
        raise MalformedFrameError(f"a frame of {length} bytes: at most {max_bytes} are accepted")
    return length
