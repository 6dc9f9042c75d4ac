"""The types of Kafka's protocol that these messages are made of, read within bounds.

kafka-python has a codec for all of them, for answers of brokers that are trusted: it takes
variable-length integers of any length, and texts that end before their length says. Here
frames come from anybody, so each read is held against the bytes that are there, and nothing
is allocated for a length that only was claimed.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import NamedTuple, TypeVar

from placement_core import InvalidOptionError, RackwardError, ReplicaLists

# ---- How much peers may ask of a placement service, and for how long.


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds on what peers can make the service hold, do and wait for.

    ``frame_bytes``: of a request; room for 16,000 broker ids. ``connections``: at once; one
    more displaces the one that has been waiting longest for a request.
    ``idle_seconds``: between requests; ``handshake_seconds``: for TLS; ``frame_seconds``: from a
    request's first byte to its last; ``answer_seconds``: for the peer to take its answer.
    ``partitions`` and ``replicas`` (all of them): of one placement, which bounds the answer too.
    ``placing_at_once``: placements under way; ``placing_seconds``: for one, its time in the queue
    included, where the request does not allow less.
    ``closing_seconds``: for what is under way when the service stops.

    Raises InvalidOptionError for a limit that is not above 0.
    """

    frame_bytes: int = 64 * 1024
    connections: int = 256
    idle_seconds: float = 60.0
    handshake_seconds: float = 10.0
    frame_seconds: float = 10.0
    answer_seconds: float = 10.0
    partitions: int = 10_000
    replicas: int = 50_000
    placing_at_once: int = 2
    placing_seconds: float = 30.0
    closing_seconds: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                raise InvalidOptionError(f"{each.name} is {value!r}: give a number above 0")


# ---- What goes wrong between a placement service and whoever asks it.


class MalformedFrameError(RackwardError, ValueError):
    """Bytes that are no message of this service; the text never holds the bytes themselves."""


class UnknownRequestError(MalformedFrameError):
    """A request of a kind, or of a version, that this service does not serve."""


class PlacementServiceError(RackwardError):
    """A placement service could not be asked, or it said no."""


class ServiceUnreachableError(PlacementServiceError):
    """Nothing answers there, or not in time."""


class ServiceTlsError(PlacementServiceError):
    """The service and its client do not trust each other, or only one of them speaks TLS."""


class NotAPlacementServiceError(PlacementServiceError):
    """Something else answers there: a broker of Kafka, say, or a web server."""


class ServiceRefusedError(PlacementServiceError):
    """The service answered with an error; ``code`` is one of Kafka's error codes."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


Item = TypeVar("Item")

_VARINT_BYTES = 5
_MOST_VARINT = (1 << 32) - 1


class Reader:
    """Reads one message from its first byte to its last; MalformedFrameError where it cannot."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes."""
        if not 0 <= count <= self.left:
            raise MalformedFrameError(f"{count} bytes are wanted where {self.left} are left")
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def int8(self) -> int:
        """A signed integer of 8 bits."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        """A signed integer of 16 bits."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """A signed integer of 32 bits."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def truth(self) -> bool:
        """A bool: whatever is not 0 is true, as Kafka reads it."""
        return self.int8() != 0

    def varint(self) -> int:
        """An unsigned integer of 32 bits in one to five bytes."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise MalformedFrameError(f"an integer has more than {_VARINT_BYTES} bytes")
        if value > _MOST_VARINT:
            raise MalformedFrameError("an integer has more than 32 bits")
        return value

    def nullable_string(self) -> str | None:
        """A text with its length as int16; -1 is None."""
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_nullable_string(self) -> str | None:
        """A text with its length plus one as a varint; 0 is None."""
        length = self.varint() - 1
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        """The same, where there must be a text."""
        text = self.compact_nullable_string()
        if text is None:
            raise MalformedFrameError("a text is null")
        return text

    def array(self, count: int, item: Callable[[], Item], least_bytes: int) -> tuple[Item, ...]:
        """``count`` items, none of which has fewer than ``least_bytes`` bytes."""
        if not 0 <= count * least_bytes <= self.left:
            raise MalformedFrameError(f"{count} items are claimed in {self.left} bytes")
        return tuple(item() for _ in range(count))

    def compact_nullable_int32s(self) -> tuple[int, ...] | None:
        """Integers of 32 bits; the length plus one comes first, as a varint, and 0 is None."""
        count = self.varint() - 1
        if count == -1:
            return None
        if count * 4 > self.left:
            raise MalformedFrameError(f"{count} integers are claimed in {self.left} bytes")
        return struct.unpack(f">{count}i", self.take(count * 4))

    def compact_int32s(self) -> tuple[int, ...]:
        """The same, where there must be an array."""
        values = self.compact_nullable_int32s()
        if values is None:
            raise MalformedFrameError("an array of integers is null")
        return values

    def compact_array(self, item: Callable[[], Item], least_bytes: int) -> tuple[Item, ...]:
        """Items with their number plus one as a varint before them; not null."""
        count = self.varint() - 1
        if count == -1:
            raise MalformedFrameError("an array is null")
        return self.array(count, item, least_bytes)

    def tagged_fields(self) -> dict[int, bytes]:
        """Tag to content; their tags must rise."""
        fields: dict[int, bytes] = {}
        last = -1
        for _ in range(self.varint()):
            tag = self.varint()
            if tag <= last:
                raise MalformedFrameError(f"tag {tag} comes after tag {last}")
            fields[tag] = bytes(self.take(self.varint()))
            last = tag
        return fields

    def end(self) -> None:
        """Raise MalformedFrameError where something is left."""
        if self.left:
            raise MalformedFrameError(f"{self.left} bytes follow the message")

    def _text(self, length: int) -> str:
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise MalformedFrameError("a text is not UTF-8") from None


def varint(value: int) -> bytes:
    """An unsigned integer in as few bytes as it needs, seven bits in each, the lowest first."""
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def nullable_string(text: str | None) -> bytes:
    """See Reader.nullable_string."""
    if text is None:
        return b"\xff\xff"
    encoded = _utf8(text)
    return struct.pack(">h", len(encoded)) + encoded


def compact_nullable_string(text: str | None) -> bytes:
    """See Reader.compact_nullable_string."""
    if text is None:
        return varint(0)
    encoded = _utf8(text)
    return varint(len(encoded) + 1) + encoded


def compact_nullable_int32s(values: tuple[int, ...] | None) -> bytes:
    """See Reader.compact_nullable_int32s."""
    if values is None:
        return varint(0)
    return varint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def compact_array(items: Iterable[bytes]) -> bytes:
    """See Reader.compact_array; ``items`` as they are written."""
    written = tuple(items)
    return varint(len(written) + 1) + b"".join(written)


def tagged_fields(fields: Mapping[int, bytes] | None = None) -> bytes:
    """See Reader.tagged_fields."""
    ordered = sorted((fields or {}).items())
    return varint(len(ordered)) + b"".join(
        varint(tag) + varint(len(content)) + content for tag, content in ordered
    )


def frame(message: bytes) -> bytes:
    """A message as it is sent: its length in bytes before it, as int32."""
    return struct.pack(">i", len(message)) + message


def _utf8(text: str) -> bytes:
    """Texts of errors may hold what is no character: a file's name, say."""
    return text.encode("utf-8", "replace")


# ---- What comes before every request and every answer.

API_VERSIONS = 18
"""The api key of ApiVersions: Kafka's request for what a server serves."""
CREATE_REPLICA_PLACEMENT = 68
"""The api key that KIP-879 gives its request. Brokers of today have another request there."""

_FIRST_FLEXIBLE = {API_VERSIONS: 3, CREATE_REPLICA_PLACEMENT: 0}


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """Header version 2 where the request is of a flexible version, and version 1 otherwise.

    ``correlation_id`` comes back with the answer; ``client_id`` is what the client calls itself.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None

    @property
    def flexible(self) -> bool:
        """Whether the request has tagged fields. Unknown requests count as if they had none."""
        first = _FIRST_FLEXIBLE.get(self.api_key)
        return first is not None and self.api_version >= first

    def encode(self) -> bytes:
        """The header's bytes."""
        fixed = struct.pack(">hhi", self.api_key, self.api_version, self.correlation_id)
        tail = tagged_fields() if self.flexible else b""
        return fixed + nullable_string(self.client_id) + tail


def read_start(reader: Reader) -> RequestHeader:
    """The fields that headers of all versions have, without ``client_id``."""
    return RequestHeader(reader.int16(), reader.int16(), reader.int32())


def skip_rest(reader: Reader, header: RequestHeader) -> None:
    """Go on behind the header that ``read_start`` began."""
    reader.nullable_string()
    if header.flexible:
        reader.tagged_fields()


def answer_header(correlation_id: int, *, flexible: bool) -> bytes:
    """Header version 1 of an answer, or version 0 where it is not ``flexible``."""
    return struct.pack(">i", correlation_id) + (tagged_fields() if flexible else b"")


def read_answer_header(reader: Reader, *, flexible: bool) -> int:
    """The correlation id."""
    correlation_id = reader.int32()
    if flexible:
        reader.tagged_fields()
    return correlation_id


# ---- ApiVersions: what a server serves, in the form of every version that clients ask with.
#
# A client does not know yet which versions the server has, so its first question may be of one
# that the server does not know. Kafka's rule: the answer then has the form of version 0, with an
# error and the versions that there are. The header of the answer is always of version 0.

LATEST = 4
"""The latest version of ApiVersions that is served."""
UNSUPPORTED_VERSION = 35
"""Kafka's error code for a version that is not served."""

_FIRST_WITH_THROTTLE, _FIRST_FLEXIBLE_API_VERSIONS = 1, 3
_RANGE_BYTES = 6


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of one request that a server knows, both ends included."""

    api_key: int
    first: int
    last: int


SERVED = (ApiRange(API_VERSIONS, 0, LATEST), ApiRange(CREATE_REPLICA_PLACEMENT, 0, 0))
"""What the placement service serves: nothing else, which also tells it from a broker."""


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    """What a server serves; ``error_code`` is 0, or UNSUPPORTED_VERSION."""

    ranges: tuple[ApiRange, ...] = SERVED
    error_code: int = 0

    def encode(self, version: int) -> bytes:
        """The answer without its header, in the form of that version, 0 to LATEST."""
        flexible = version >= _FIRST_FLEXIBLE_API_VERSIONS
        tail = tagged_fields() if flexible else b""
        rows = [
            struct.pack(">hhh", each.api_key, each.first, each.last) + tail for each in self.ranges
        ]
        body = struct.pack(">h", self.error_code)
        body += compact_array(rows) if flexible else struct.pack(">i", len(rows)) + b"".join(rows)
        if version >= _FIRST_WITH_THROTTLE:
            body += struct.pack(">i", 0)
        return body + tail

    @classmethod
    def decode(cls, reader: Reader) -> ApiVersionsResponse:
        """The answer to version 0 behind its header. Raises MalformedFrameError."""

        def row() -> ApiRange:
            return ApiRange(reader.int16(), reader.int16(), reader.int16())

        error_code = reader.int16()
        ranges = reader.array(reader.int32(), row, _RANGE_BYTES)
        reader.end()
        return cls(ranges, error_code)


def check_request(reader: Reader, version: int) -> None:
    """Read a request of a version from 0 to LATEST behind its header, to its end.

    Raises MalformedFrameError. Who the client says it is does not matter here.
    """
    if version >= _FIRST_FLEXIBLE_API_VERSIONS:
        reader.compact_string()
        reader.compact_string()
        reader.tagged_fields()
    reader.end()


# ---- CreateReplicaPlacement, version 0, as KIP-879 lays it out.
#
# The proposal's answer has no place for an error. Its version is a flexible one, so an error
# travels in two tagged fields, which a reader that does not know them passes over: tag 0 has one
# of Kafka's error codes (int16), tag 1 the message (nullable text). Where a placement was made
# there is no tagged field, and the bytes are the proposal's.

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


# ---- Where the service listens: on loopback, or with mutual TLS.

LOOPBACK = "127.0.0.1"
DEFAULT_ADDRESS = f"{LOOPBACK}:9480"
"""Where the controller serves, and its client asks, unless told otherwise."""
_BACKLOG = 512
_LAST_PORT = 65535


class Address(NamedTuple):
    """An address and a port, as bound."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ListeningError(PlacementServiceError):
    """The address and port cannot be listened at."""


async def listen(host: str, port: int, *, mutual_tls: bool) -> socket.socket:
    """A socket that listens at the first address that ``host`` stands for.

    Port 0 lets the system choose. Raises InvalidOptionError where this address is not loopback
    and there is no ``mutual_tls``, and where host or port mean nothing; else ListeningError.
    """
    if not 0 <= port <= _LAST_PORT:
        raise InvalidOptionError(f"port {port}: give a number from 0 to {_LAST_PORT}")
    if not host:
        # What the system makes of it is all addresses of this machine.
        raise InvalidOptionError("the host to listen at is empty: give an address, or a name")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidOptionError(f"the host {host!r} to listen at is not known: {error}") from error
    family, _, _, _, bound = found[0]
    if not mutual_tls and not ipaddress.ip_address(bound[0]).is_loopback:
        raise InvalidOptionError(
            f"the placement service would listen at {bound[0]}, for anybody: give it mutual TLS "
            f"(ca_file, cert_file, key_file), or let it listen at {LOOPBACK}"
        )
    try:
        listening = socket.create_server(bound[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListeningError(
            f"{Address(*bound[:2])} cannot be listened at: {error.strerror}"
        ) from error
    listening.setblocking(False)
    return listening


def address_of(name: object) -> Address:
    """What a socket calls itself or its peer, of any family."""
    match name:
        case (str(host), int(port), *_):
            return Address(host, port)
    return Address("?", 0)
