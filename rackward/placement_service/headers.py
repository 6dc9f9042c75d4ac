"""What comes before every request and every answer."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rackward.placement_service.codec import Reader, nullable_string, tagged_fields

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
