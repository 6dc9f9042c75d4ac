"""Messages between the placement service and its client, decoded within bounds.

Framing is Kafka's: an int32 length, a header, a body. kafka-python encodes and decodes both from
JSON definitions: its own ones of ApiVersions, and those of CreateReplicaPlacement in
:mod:`rackward.placement_service.messages`.

Its decoder is written for brokers that are trusted, and frames come from any peer. It accepts a
text that ends before its length, null where none is allowed, a tag twice, a tagged field that is
longer than its type, and bytes after the message; it reads a variable-length integer of any
length, in quadratic time; and it copies the rest of the message at each struct with tagged fields.
So `decode` first walks over the frame with the message's own definition: every length is checked
against the bytes that are left, before anything is allocated, and the message has to end where
the frame ends. kafka-python decodes only frames that pass.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, NamedTuple

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.schemas import BaseField

from assignors.connection import ConnectionPropertyError
from assignors.connection.tls import KeyMaterial, TlsSettings, server_tls_context, tls_context
from placement_core import InvalidOptionError, RackwardError
from rackward.placement_service.messages import CreateReplicaPlacementRequest

# ---- Errors of the placement service and of its client.


class MalformedFrameError(RackwardError, ValueError):
    """Bytes that are not a message of this service; the text never contains the bytes."""


class UnknownRequestError(MalformedFrameError):
    """A request of a key or a version that this service does not serve."""


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

API_VERSIONS = ApiVersionsRequest.API_KEY
CREATE_REPLICA_PLACEMENT = CreateReplicaPlacementRequest.API_KEY
"""KIP-879's key for its request. In today's brokers it is that of another request."""
MAX_API_VERSIONS = 4
"""The newest version of ApiVersions that the service serves."""
UNSUPPORTED_VERSION = 35
"""Kafka's error code for a version that is not served."""

_MAX_VARINT_BYTES = 5
_MAX_VARINT = (1 << 32) - 1
_SIZES = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}


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
    THROTTLING_QUOTA_EXCEEDED = 89


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits on what peers can make the service store, compute and wait for.

    frame_bytes
        Size of a request; the default has room for 16,000 broker ids.
    connections
        Open at a time. One more evicts the connection that has been idle longest.
    idle_seconds, handshake_seconds, frame_seconds, response_seconds
        Between requests; for TLS; from a request's first byte to its last; for the peer to
        receive its response.
    partitions, replicas
        Of one placement, which bounds the size of the response.
    concurrent_placements, placements_per_peer, placement_seconds
        Placements in progress; of one IP address, including those in the queue; for one of them,
        including its time in the queue, unless the request allows less.
    shutdown_seconds
        For requests in progress when the service stops.

    Raises InvalidOptionError for a limit that is not above 0.
    """

    frame_bytes: int = 64 * 1024
    connections: int = 256
    idle_seconds: float = 60.0
    handshake_seconds: float = 10.0
    frame_seconds: float = 10.0
    response_seconds: float = 10.0
    partitions: int = 10_000
    replicas: int = 50_000
    concurrent_placements: int = 2
    placements_per_peer: int = 16
    placement_seconds: float = 30.0
    shutdown_seconds: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise InvalidOptionError(f"{each.name} is {value!r}: give a number above 0")


class RequestStart(NamedTuple):
    """The fields at the start of every version of a request header."""

    api_key: int
    api_version: int
    correlation_id: int


def read_start(message: bytes) -> RequestStart:
    """Return the start of a request's header. Raises MalformedFrameError."""
    start = _Walker(message).skip(8)
    return RequestStart(*struct.unpack(">hhi", start))


def api_versions_response(version: int, error_code: int = 0) -> Any:
    """Return the ApiVersions response of the service: these two requests and no others, which
    also distinguishes it from a broker."""
    return ApiVersionsResponse[version](
        error_code=error_code,
        api_keys=[(API_VERSIONS, 0, MAX_API_VERSIONS), (CREATE_REPLICA_PLACEMENT, 0, 0)],
    )


def encode(message: Any, correlation_id: int, client_id: str | None = None) -> bytes:
    """Return a message of kafka-python with its header, without the frame's length."""
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True))


def frame(message: bytes) -> bytes:
    """Return the message with its length in front, as it is sent."""
    return struct.pack(">i", len(message)) + message


def decode(message_class: Any, message: bytes, version: int) -> Any:
    """Return the message, header and body, as an object of ``message_class``.

    ``message`` is a frame without its length. Raises MalformedFrameError unless it is exactly a
    message of that class and version; nothing is allocated for a length that is merely claimed.
    """
    flexible = message_class.flexible_version_q(version)
    walker = _Walker(message)
    if message_class.is_request():
        walker.skip(8)
        walker.text(compact=False, nullable=True)
    else:
        walker.skip(4)
    if flexible:
        walker.tagged_fields({}, version)
    walker.fields(message_class.json["fields"], version, flexible=flexible)
    walker.end()
    return message_class.decode(message, version=version, header=True)


class _Walker:
    """Walks over a message without decoding it; raises MalformedFrameError where it cannot."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._position = 0

    @property
    def _left(self) -> int:
        return len(self._data) - self._position

    def skip(self, count: int) -> memoryview:
        """Return the next ``count`` bytes."""
        if not 0 <= count <= self._left:
            raise MalformedFrameError(f"{count} bytes are expected and {self._left} are left")
        start, self._position = self._position, self._position + count
        return self._data[start : self._position]

    def end(self) -> None:
        """Raise MalformedFrameError unless all bytes are used."""
        if self._left:
            raise MalformedFrameError(f"{self._left} bytes follow the message")

    def varint(self) -> int:
        """Return an unsigned integer of at most 32 bits in one to five bytes."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.skip(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise MalformedFrameError(f"an integer has more than {_MAX_VARINT_BYTES} bytes")
        if value > _MAX_VARINT:
            raise MalformedFrameError("an integer has more than 32 bits")
        return value

    def fields(
        self,
        definitions: Iterable[Mapping[str, Any]],
        version: int,
        *,
        flexible: bool,
        nested: bool = False,
    ) -> None:
        """Walk over the fields of a struct, then over its tagged fields.

        No struct within an array has tagged fields in these versions; refusing them keeps the
        time that kafka-python takes proportional to the size of the message.
        """
        tagged = {}
        for each in definitions:
            first, last = BaseField.parse_versions(each["versions"])
            if "tag" in each:
                tagged[each["tag"]] = each
            elif first <= version <= last:
                self.value(each, version, flexible=flexible)
        if flexible and not nested:
            self.tagged_fields(tagged, version)
        elif flexible and self.varint():
            raise MalformedFrameError("an item of an array has tagged fields")

    def value(self, definition: Mapping[str, Any], version: int, *, flexible: bool) -> None:
        """Walk over the value of a field."""
        kind, nullable = definition["type"], "nullableVersions" in definition
        item = kind.removeprefix("[]")
        if kind in _SIZES:
            self.skip(_SIZES[kind])
        elif kind == "string":
            self.text(compact=flexible, nullable=nullable)
        elif item in _SIZES:
            self.skip(self._length(4, flexible, nullable) * _SIZES[item])
        else:
            # Each item has at least one byte, so the loop ends with the bytes.
            for _ in range(self._length(4, flexible, nullable)):
                self.fields(definition["fields"], version, flexible=flexible, nested=True)

    def text(self, *, compact: bool, nullable: bool) -> None:
        """Walk over a string."""
        try:
            str(self.skip(self._length(2, compact, nullable)), "utf-8")
        except UnicodeDecodeError:
            raise MalformedFrameError("a text is not UTF-8") from None

    def tagged_fields(self, definitions: Mapping[int, Mapping[str, Any]], version: int) -> None:
        """Walk over tagged fields; tags that are not defined are skipped. Tags ascend."""
        last = -1
        for _ in range(self.varint()):
            tag = self.varint()
            if tag <= last:
                raise MalformedFrameError(f"tag {tag} follows tag {last}")
            last = tag
            content = _Walker(self.skip(self.varint()))
            if tag in definitions:
                content.value(definitions[tag], version, flexible=True)
                content.end()

    def _length(self, size: int, compact: bool, nullable: bool) -> int:
        """Return the length before a text or an array; 0 for null."""
        if compact:
            length = self.varint() - 1
        else:
            length = int.from_bytes(self.skip(size), "big", signed=True)
        if length < 0 and not (length == -1 and nullable):
            raise MalformedFrameError(f"a text or an array of length {length}")
        return max(0, length)


# ---- Mutual TLS: both sides authenticate with certificates.

_PASSWORD = "ssl.key.password"


@dataclass(frozen=True, slots=True)
class MutualTls:
    """PEM files of a server or of a client.

    ca_file
        Authorities that sign the other side's certificate; may be a folder of files.
    cert_file
        This side's certificate, with intermediate certificates.
    key_file
        Its key, without a password; None if it is in ``cert_file``.
    """

    ca_file: str
    cert_file: str
    key_file: str | None = None

    def server_context(self) -> ssl.SSLContext:
        """Return a context for TLS 1.2 or later that requires trusted client certificates.

        Raises ConnectionPropertyError, which names the file that cannot be used.
        """
        return self._context(server_tls_context)

    def client_context(self) -> ssl.SSLContext:
        """Return a context for TLS 1.2 or later that verifies the server's certificate and name.

        Raises ConnectionPropertyError, which names the file that cannot be used.
        """
        return self._context(tls_context)

    def _context(self, make: Callable[[TlsSettings], ssl.SSLContext]) -> ssl.SSLContext:
        tls = TlsSettings(
            trust=KeyMaterial("ca_file", path=self.ca_file),
            certificate=KeyMaterial("cert_file", path=self.cert_file),
            key=None if self.key_file is None else KeyMaterial("key_file", path=self.key_file),
            verify=True,
            check_host=True,
            ciphers=None,
            crl=None,
            versions=None,
        )
        try:
            return make(tls)
        except ConnectionPropertyError as error:
            if error.name != _PASSWORD:
                raise
            # The error would advise a property that does not exist here.
            raise ConnectionPropertyError(
                "cert_file" if self.key_file is None else "key_file",
                "its key is encrypted: give one without a password, in a file that only the "
                "service can read",
            ) from error
