"""ApiVersions: what a server serves, in the form of every version that clients ask with.

A client does not know yet which versions the server has, so its first question may be of one
that the server does not know. Kafka's rule: the answer then has the form of version 0, with an
error and the versions that there are. The header of the answer is always of version 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rackward.placement_service.codec import Reader, compact_array, tagged_fields
from rackward.placement_service.headers import API_VERSIONS, CREATE_REPLICA_PLACEMENT

LATEST = 4
"""The latest version of ApiVersions that is served."""
UNSUPPORTED_VERSION = 35
"""Kafka's error code for a version that is not served."""

_FIRST_WITH_THROTTLE, _FIRST_FLEXIBLE = 1, 3
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
        flexible = version >= _FIRST_FLEXIBLE
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
    if version >= _FIRST_FLEXIBLE:
        reader.compact_string()
        reader.compact_string()
        reader.tagged_fields()
    reader.end()
